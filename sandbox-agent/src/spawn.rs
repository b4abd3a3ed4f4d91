//! Turns a start request into a running process.
//!
//! Forks the process. A command gets its own session and process group, pipes for its output, and the agent's
//! environment without the agent's secrets. A command that never ran has no exit code, so a failed start reports the
//! step that failed and its errno. A script that is too long for one argument is passed in a memory file that only
//! bash reads.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use agent_protocol::v1;
use rustix::fs::{
    Access, CWD, MemfdFlags, Mode, OFlags, ResolveFlags, access, fcntl_getfl, fcntl_setfl, memfd_create,
    open, openat2,
};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::{Pid, WaitStatus};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use crate::environment;
use crate::loop_count::counting_script;
use crate::mark::Mark;
use crate::oom;
use crate::posix_spawn;
use crate::read_only;
use crate::stages::Stages;
use crate::waiting_shells::{HandedOver, Handover, WaitingShells};
use crate::write_attempts::Listener;

/// Environment variable with the id of the command that a process belongs to.
pub(crate) const COMMAND_ID_VARIABLE: &str = "SANDBOX_COMMAND_ID";

/// Environment variable that tells bash where to write its trace (bash(1)).
const TRACE_VARIABLE: &str = "BASH_XTRACEFD";

/// Environment variable that names a file that bash reads before a script (bash(1)).
const BASH_ENV: &str = "BASH_ENV";

/// Maximum length of a script that is passed as an argument. The kernel's MAX_ARG_STRLEN is 128 KiB with the final
/// NUL.
const MAX_ARGUMENT_BYTES: usize = 128 * 1024 - 1;

/// The step of a start that takes away the right to write.
pub(crate) const RESTRICTION: &str = "restriction";

/// Size of an output pipe. It is above the kernel's 64 KiB for fewer wake-ups. It is small enough that 250 commands
/// stay within the 64 MiB of pipes that one user may have (pipe(7), pipe-user-pages-soft).
const PIPE_BYTES: usize = 128 * 1024;

/// A started command, and the agent's ends of its pipes.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) pid: Pid,
    pub(crate) mark: Option<Mark>,
    /// See [`Started::status`].
    pub(crate) status: Option<oneshot::Receiver<WaitStatus>>,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
    pub(crate) stdin: Option<pipe::Sender>,
    /// Number of bytes of its input that are in the pipe.
    pub(crate) stdin_written: usize,
    pub(crate) trace: Option<pipe::Receiver>,
    /// What announces its attempts to write, if it may not write.
    pub(crate) announcements: Option<Listener>,
}

/// A started process.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) pid: Pid,
    /// Mark by which its descendants are recognized.
    pub(crate) mark: Option<Mark>,
    /// Its status at its end, if the reaper knows it already.
    pub(crate) status: Option<oneshot::Receiver<WaitStatus>>,
    /// The descriptor of [`Spawned::announcements`].
    pub(crate) announcements: Option<OwnedFd>,
}

/// Parameters of a start.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) command_id: &'a str,
    pub(crate) argv: &'a [String],
    pub(crate) cwd: &'a Path,
    pub(crate) env: &'a std::collections::HashMap<String, String>,
    /// The beginning of standard input, of which the process finds as much as fits into the pipe. `None` means no input.
    pub(crate) stdin: Option<&'a [u8]>,
    /// Whether bash reports the commands that it runs.
    pub(crate) with_trace: bool,
    /// How often bash may run any one command of the script. 0 means unlimited.
    pub(crate) max_loop_iterations: u32,
    /// The stages of the script's last pipeline, if they are reported.
    pub(crate) stages: Option<&'a Stages>,
    /// The workspace, if the command may not write to it.
    pub(crate) read_only: Option<&'a Path>,
    /// Other descriptors that the process gets, under the same numbers.
    pub(crate) keep: &'a [BorrowedFd<'a>],
    /// Shells that wait for such a command.
    pub(crate) waiting_shells: Option<&'a WaitingShells>,
}

/// Returns the argv that runs `script`.
pub(crate) fn argv_of_script(script: &str) -> Vec<String> {
    vec!["bash".into(), "-c".into(), script.into()]
}

/// Returns the argv of a script ([`argv_of_script`]) with what reports its stages.
fn instrumented(argv: &[String], stages: &Stages) -> Vec<String> {
    argv.split_last()
        .map_or_else(Vec::new, |(script, before)| [before, &[stages.instrumented(script)]].concat())
}

/// Starts the command. Must be called on the thread that runs the reaper, which must know the process before it next
/// waits.
pub(crate) fn spawn(launch: &Launch<'_>) -> Result<Spawned, v1::StartFailed> {
    let program = launch.argv.first().map(String::as_str).unwrap_or_default();
    let pipes = Pipes::new(launch).map_err(|errno| failed("pipe", program, errno))?;
    let trace = pipes.trace.as_ref().map(|(_, write)| write.as_fd());
    let started = start(launch, posix_spawn::Stdio::Descriptors(pipes.child_ends()), trace)?;
    let pid = started.pid;
    pipes.into_spawned(started).map_err(|_| {
        // Without its pipes the command cannot be followed. The reaper collects it as an orphan.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        failed("pipe", program, Errno::MFILE)
    })
}

/// Starts a program with the given standard streams, and a script with its `trace`. The rule of [`spawn`] applies here
/// too.
pub(crate) fn start(
    launch: &Launch<'_>,
    stdio: posix_spawn::Stdio<'_>,
    trace: Option<BorrowedFd<'_>>,
) -> Result<Started, v1::StartFailed> {
    let cwd = open_cwd(launch.cwd).map_err(|errno| failed("cwd", launch.cwd, errno))?;
    let instrumented = launch.stages.map(|stages| instrumented(launch.argv, stages));
    let argv = instrumented.as_deref().unwrap_or(launch.argv);
    let (argv, script_file) = fit_arguments(argv, trace.is_some())?;
    let program = argv.first().map(String::as_str).unwrap_or_default();
    let exec_failed = |errno: Errno| failed("exec", program, errno);

    let mut env = environment_of(launch, trace);
    let counting_file = count_iterations(launch.max_loop_iterations, &mut env)?;
    let path = find_program(program, &env).ok_or_else(|| exec_failed(Errno::NOENT))?;
    let child = posix_spawn::Child {
        program: c_string(path.into_os_string())?,
        argv: argv.iter().map(|argument| c_string(argument.into())).collect::<Result<_, _>>()?,
        envp: env.into_iter().map(|(name, value)| c_string(entry(name, value))).collect::<Result<_, _>>()?,
        cwd: cwd.as_fd(),
        stdio,
        keep: script_file
            .iter()
            .chain(&counting_file)
            .map(AsFd::as_fd)
            .chain(trace)
            .chain(launch.stages.map(|stages| stages.memory().as_fd()))
            .chain(launch.keep.iter().copied())
            .collect(),
    };
    if let Some(shell) = hand_over(launch, &child) {
        return Ok(Started {
            pid: shell.pid,
            mark: Some(shell.mark),
            status: Some(shell.status),
            announcements: None,
        });
    }
    let mark = Mark::next();
    let mut announcements = None;
    let started = oom::start_as_oom_candidate(|| match launch.read_only {
        None => child.spawn().map_err(read_only::Failure::Start),
        Some(workspace) => {
            let (pid, descriptor) = read_only::spawn(workspace, &child)?;
            announcements = descriptor;
            Ok(pid)
        }
    });
    let pid = started.map_err(|failure| match failure {
        read_only::Failure::Restriction(errno) => failed(RESTRICTION, program, errno),
        read_only::Failure::Start(error) => match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
            Errno::AGAIN => failed("fork", program, Errno::AGAIN),
            errno => exec_failed(errno),
        },
    })?;
    Ok(Started { pid, mark, status: None, announcements })
}

/// Hands the command to a waiting shell, if there is one that suits it.
fn hand_over(launch: &Launch<'_>, child: &posix_spawn::Child<'_>) -> Option<HandedOver> {
    let posix_spawn::Stdio::Descriptors(stdio) = child.stdio else { return None };
    if launch.read_only.is_some() || !child.keep.is_empty() {
        return None;
    }
    let (argv, envp, cwd) = (&child.argv, &child.envp, child.cwd);
    launch.waiting_shells?.hand_over(&Handover { program: &child.program, argv, envp, stdio, cwd })
}

/// The bash of commands that have no PATH of their own.
pub(crate) fn bash() -> Option<PathBuf> {
    find_program("bash", &environment::for_commands().collect())
}

/// Opens a command's directory. The agent may follow the links of its own `/proc` directory and a command may not, so
/// such links are never followed.
fn open_cwd(cwd: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat2(CWD, cwd, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        // gVisor has no openat2, and its /proc does not differ between the agent and a command.
        Err(Errno::NOSYS) => open(cwd, flags, Mode::empty()),
        opened => opened,
    }
}

/// Both ends of a command's standard streams and of its trace.
struct Pipes {
    stdin: OwnedFd,
    our_stdin: Option<OwnedFd>,
    stdin_written: usize,
    stdout: (OwnedFd, OwnedFd),
    stderr: (OwnedFd, OwnedFd),
    trace: Option<(OwnedFd, OwnedFd)>,
}

impl Pipes {
    fn new(launch: &Launch<'_>) -> Result<Self, Errno> {
        let pair = || pipe_with(PipeFlags::CLOEXEC);
        let (stdin, our_stdin, stdin_written) = if let Some(input) = launch.stdin {
            let (read, write) = pair()?;
            let written = write_beginning(write.as_fd(), input);
            (read, Some(write), written)
        } else {
            (open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?, None, 0)
        };
        let trace = launch.with_trace.then(pair).transpose()?;
        Ok(Self { stdin, our_stdin, stdin_written, stdout: pair()?, stderr: pair()?, trace })
    }

    fn child_ends(&self) -> [BorrowedFd<'_>; 3] {
        [self.stdin.as_fd(), self.stdout.1.as_fd(), self.stderr.1.as_fd()]
    }

    /// Closes the child's ends. Otherwise the agent would never see the end of the output.
    fn into_spawned(self, started: Started) -> io::Result<Spawned> {
        Ok(Spawned {
            pid: started.pid,
            mark: started.mark,
            status: started.status,
            stdout: receiver(self.stdout.0)?,
            stderr: receiver(self.stderr.0)?,
            stdin: self.our_stdin.map(pipe::Sender::from_owned_fd).transpose()?,
            stdin_written: self.stdin_written,
            trace: self.trace.map(|(read, _)| receiver(read)).transpose()?,
            announcements: started.announcements.map(Listener::new).transpose()?,
        })
    }
}

/// Writes as much as fits into an empty pipe. Returns how much that was.
fn write_beginning(pipe: BorrowedFd<'_>, input: &[u8]) -> usize {
    if input.is_empty() {
        return 0;
    }
    let set = fcntl_getfl(pipe).and_then(|flags| fcntl_setfl(pipe, flags | OFlags::NONBLOCK));
    // What is not written now is written later.
    set.and_then(|()| rustix::io::write(pipe, input)).unwrap_or(0)
}

type Environment = BTreeMap<OsString, OsString>;

fn environment_of(launch: &Launch<'_>, trace: Option<BorrowedFd<'_>>) -> Environment {
    let mut env: Environment = environment::for_commands().collect();
    env.extend(launch.env.iter().map(|(name, value)| (name.into(), value.into())));
    env.insert(COMMAND_ID_VARIABLE.into(), launch.command_id.into());
    if let Some(trace) = trace {
        env.insert(TRACE_VARIABLE.into(), trace.as_raw_fd().to_string().into());
    }
    env
}

/// Finds a program on the command's own PATH, as execvp(3) does. A name with a slash is used as it is, relative to
/// the command's directory.
fn find_program(program: &str, env: &Environment) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let path = env.get(OsStr::new("PATH"))?;
    std::env::split_paths(path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok())
}

fn entry(mut name: OsString, value: OsString) -> OsString {
    name.push("=");
    name.push(value);
    name
}

fn c_string(text: OsString) -> Result<CString, v1::StartFailed> {
    // sandboxd rejects a NUL before it gets here.
    CString::new(text.into_vec()).map_err(|_| failed("exec", "a text with NUL", Errno::INVAL))
}

/// Moves a bash script that is too long for one argument into a memory file. The caller keeps the file open until the
/// child has its own copy. With `is_traced`, bash traces the script and nothing before it.
fn fit_arguments(
    argv: &[String],
    is_traced: bool,
) -> Result<(Vec<String>, Option<OwnedFd>), v1::StartFailed> {
    let mut fitted = argv.to_vec();
    let Some(at) = script_position(argv) else {
        if is_traced {
            fitted.insert(1, "-x".into());
        }
        return Ok((fitted, None));
    };
    let file = memory_file(|_| argv[at].clone())?;
    let number = file.as_raw_fd();
    let tracing = if is_traced { "set -x; " } else { "" };
    // The script runs after the file and the variable are removed.
    fitted[at] = format!(
        "__sandbox_script=$(</proc/self/fd/{number}); exec {number}<&-; \
         eval \"unset __sandbox_script; {tracing}$__sandbox_script\""
    );
    Ok((fitted, Some(file)))
}

/// Makes bash count how often it runs each command of the script. The caller keeps the file open until the child has its
/// own copy.
fn count_iterations(max: u32, env: &mut Environment) -> Result<Option<OwnedFd>, v1::StartFailed> {
    if max == 0 {
        return Ok(None);
    }
    let own = env.get(OsStr::new(BASH_ENV)).map(|path| path.to_string_lossy().into_owned());
    let file = memory_file(|number| counting_script(max, number, own.as_deref()))?;
    env.insert(BASH_ENV.into(), format!("/proc/self/fd/{}", file.as_raw_fd()).into());
    Ok(Some(file))
}

/// Creates a memory file. Its text may contain the number of its descriptor.
pub(crate) fn memory_file(text: impl FnOnce(i32) -> String) -> Result<OwnedFd, v1::StartFailed> {
    let create = || -> io::Result<OwnedFd> {
        let mut file = std::fs::File::from(memfd_create("script", MemfdFlags::CLOEXEC)?);
        let text = text(file.as_raw_fd());
        file.write_all(text.as_bytes())?;
        Ok(file.into())
    };
    create()
        .map_err(|error| failed("script", "memory file", Errno::from_io_error(&error).unwrap_or(Errno::IO)))
}

/// Returns the position in `argv` of the overlong script of a `bash -c` or `bash -lc`.
fn script_position(argv: &[String]) -> Option<usize> {
    let is_bash = Path::new(argv.first()?).file_name()? == "bash";
    let at = 1 + argv.iter().skip(1).position(|arg| arg == "-c" || arg == "-lc")? + 1;
    (is_bash && argv.get(at)?.len() >= MAX_ARGUMENT_BYTES).then_some(at)
}

fn receiver(fd: OwnedFd) -> io::Result<pipe::Receiver> {
    // Over the user's pipe limit the kernel refuses. The standard size works too.
    let _ = fcntl_setpipe_size(&fd, PIPE_BYTES);
    pipe::Receiver::from_owned_fd(fd)
}

pub(crate) fn failed(step: &str, subject: impl AsRef<OsStr>, errno: Errno) -> v1::StartFailed {
    v1::StartFailed {
        step: step.into(),
        errno: errno.raw_os_error(),
        subject: subject.as_ref().to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn only_an_oversized_bash_script_is_moved() {
        let long = "x".repeat(MAX_ARGUMENT_BYTES);
        assert_eq!(script_position(&argv(&["bash", "-c", &long])), Some(2));
        assert_eq!(script_position(&argv(&["/bin/bash", "-lc", &long])), Some(2));
        assert_eq!(script_position(&argv(&["bash", "-c", "true"])), None);
        assert_eq!(script_position(&argv(&["python3", "-c", &long])), None);
        assert_eq!(script_position(&argv(&["bash", "-c"])), None);
    }

    #[test]
    fn a_directory_is_not_opened_through_a_link_of_proc() {
        for cwd in ["/proc/self/cwd", "/proc/self/root", "/proc/self/root/tmp"] {
            assert_eq!(open_cwd(Path::new(cwd)).unwrap_err(), Errno::LOOP, "{cwd}");
        }
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc/self/root", dir.path().join("link")).unwrap();
        assert_eq!(open_cwd(&dir.path().join("link/tmp")).unwrap_err(), Errno::LOOP);
        std::os::unix::fs::symlink("/tmp", dir.path().join("tmp")).unwrap();
        assert!(open_cwd(&dir.path().join("tmp")).is_ok());
    }
}
