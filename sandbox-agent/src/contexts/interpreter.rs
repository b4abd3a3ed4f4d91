//! The process of an interpreter, and the channels to it.
//!
//! The programs of the drivers are part of the agent, so an image needs only the interpreter itself. They are passed in a
//! memory file.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_protocol::MAX_RUN_RECORD_BYTES;
use agent_protocol::v1::{self, Language};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::mark::Mark;
use crate::members::Owner;
use crate::secrets::Secrets;
use crate::spawn::{self, Launch, Spawned};
use crate::termination;

/// Parameters of a context.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) id: String,
    pub(super) language: Language,
    pub(super) cwd: PathBuf,
    pub(super) env: HashMap<String, String>,
    /// Values that must not be in what the runs report.
    pub(super) secrets: Option<Arc<Secrets>>,
}

/// The process of an interpreter.
#[derive(Debug)]
pub(crate) struct Interpreter {
    context_id: String,
    main: Pid,
    mark: Option<Mark>,
    main_collected: AtomicBool,
}

/// The agent's ends of the channels to an interpreter.
#[derive(Debug)]
pub(super) struct Channels {
    pub(super) control: UnixStream,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
}

impl Interpreter {
    /// Starts an interpreter. The rule of [`spawn::spawn`] applies.
    pub(super) fn start(spec: &Spec) -> Result<(Self, Channels), v1::StartFailed> {
        let (program, driver) = program_of(spec.language);
        let failed = |errno| spawn::failed("pipe", program[0], errno);
        let file = spawn::memory_file(|_| driver.into())?;
        let (ours, theirs) = control_channel().map_err(failed)?;
        let argv = argv_of(program, &file, &theirs, spec.language);
        let spawned = spawn::spawn(&Launch {
            command_id: &spec.id,
            argv: &argv,
            cwd: &spec.cwd,
            env: &spec.env,
            stdin: None,
            with_trace: false,
            max_loop_iterations: 0,
            stages: None,
            read_only: None,
            keep: &[file.as_fd(), theirs.as_fd()],
            waiting_shells: None,
        })?;
        let Spawned { pid, mark, stdout, stderr, .. } = spawned;
        let interpreter =
            Self { context_id: spec.id.clone(), main: pid, mark, main_collected: AtomicBool::new(false) };
        let control = UnixStream::from_std(ours.into()).map_err(|_| {
            // Without its channel nothing can run in it. The reaper collects it as an orphan.
            interpreter.signal(Signal::KILL);
            failed(Errno::MFILE)
        })?;
        Ok((interpreter, Channels { control, stdout, stderr }))
    }

    pub(super) fn main(&self) -> Pid {
        self.main
    }

    /// Signals the process and those of its group, unless it has ended.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.main_collected.load(Ordering::Relaxed) {
            // It may have ended without being reaped.
            let _ = kill_process_group(self.main, signal);
        }
    }

    /// Records that the process was reaped.
    pub(super) fn set_main_collected(&self) {
        self.main_collected.store(true, Ordering::Relaxed);
    }
}

impl termination::Target for Interpreter {
    fn owner(&self) -> Owner<'_> {
        Owner {
            command_id: &self.context_id,
            main: self.main,
            main_collected: self.main_collected.load(Ordering::Relaxed),
            mark: self.mark,
        }
    }
}

/// The program of a language with its options, and its driver.
fn program_of(language: Language) -> (&'static [&'static str], &'static str) {
    match language {
        Language::Python | Language::Unspecified => (&["python3"], include_str!("drivers/driver.py")),
        // Without the option, Node looks for the memory file by its name.
        Language::Javascript | Language::Typescript => (
            &["node", "--preserve-symlinks-main", "--disable-warning=ExperimentalWarning"],
            include_str!("drivers/driver.js"),
        ),
        Language::Bash => (&["bash"], include_str!("drivers/driver.bash")),
    }
}

fn argv_of(program: &[&str], file: &OwnedFd, control: &OwnedFd, language: Language) -> Vec<String> {
    let mut argv: Vec<String> = program.iter().map(|word| (*word).to_owned()).collect();
    argv.push(format!("/proc/self/fd/{}", file.as_raw_fd()));
    argv.push(control.as_raw_fd().to_string());
    argv.push(MAX_RUN_RECORD_BYTES.to_string());
    if matches!(language, Language::Javascript | Language::Typescript) {
        argv.push(if language == Language::Typescript { "typescript" } else { "javascript" }.into());
    }
    argv
}

/// A pair of sockets. The second is for the interpreter, which expects it to block.
fn control_channel() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}
