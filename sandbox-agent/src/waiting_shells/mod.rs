//! Shells that were started in advance and wait for commands.
//!
//! Most of the time of a short command is the start of bash: the dynamic linker, the locale, its own set-up. While commands
//! come, the agent therefore keeps a bash that has done this once, the [`template`], and forks from it a shell that waits at
//! the point where it would read its arguments ([`shell`], `preload.c`). A command for which it would be the same as a new one
//! is handed to it ([`message`]). If none waits, the template forks one at once. Every other command is started in the ordinary
//! way, and so is every command while there is no template.
//! A command is never started twice: once a shell has the message, it is the command.
//!
//! Once they wait, the two cannot be traced, so commands cannot read what the next one gets or change what it does. While the
//! template starts, for a millisecond, they can, as with each command that starts. Commands can kill or stop the two, as they can
//! any process of their user. What differs from a new bash: its start time is that of the fork, the addresses of its memory are
//! those of the template, and it has mapped the library.

mod message;
mod shell;
mod template;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Pid;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::timeout;

use self::message::Message;
pub(crate) use self::shell::{HandedOver, Handover};
use self::shell::{State, WaitingShell};
use self::template::Template;
use crate::environment;
use crate::limits::{SHELL_FAILURES, SHELL_FORK, SHELL_IDLE, SHELL_PAUSE, SHELL_YIELDS};
use crate::reaper::Reaper;

/// The waiting shell of this sandbox.
#[derive(Debug)]
pub(crate) struct WaitingShells {
    /// The bash of commands, if there is one.
    program: Option<PathBuf>,
    reaper: Arc<Reaper>,
    kept: Mutex<Kept>,
    /// Notified when a command starts that could have been handed to one.
    wanted: Notify,
    /// Notified when a command ends.
    command_ended: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    template: Option<Template>,
    shell: Option<WaitingShell>,
    /// Whether a shell of the template has waited.
    is_proven: bool,
    /// Number of templates in succession that have ended before one of their shells waited.
    failures: u32,
}

impl WaitingShells {
    /// `program` is the bash of commands, if there is one.
    pub(crate) fn new(program: Option<PathBuf>, reaper: Arc<Reaper>) -> Self {
        Self { program, reaper, kept: Mutex::default(), wanted: Notify::new(), command_ended: Notify::new() }
    }

    /// Hands a command to a shell, if one would be the same as a new one. If none waits, waits a moment for the template.
    pub(crate) fn hand_over(&self, handover: &Handover<'_>) -> Option<HandedOver> {
        if !handover.program.to_bytes().ends_with(b"/bash") {
            return None;
        }
        let message = Message::new(handover.argv, handover.envp)?;
        self.wanted.notify_one();
        let mut kept = self.lock();
        if !kept.template.as_ref()?.suits(handover) {
            return None;
        }
        let (mut shell, limit) = kept.take()?;
        match shell.wait(limit, &self.reaper) {
            State::Waiting(..) => {
                (kept.is_proven, kept.failures) = (true, 0);
                shell.hand_over(handover, &message, &self.reaper)
            }
            State::Starting if !kept.is_proven => {
                kept.shell = Some(shell);
                None
            }
            // The template may be unusable too, and stopped.
            State::Starting | State::Unusable => {
                kept.end(false);
                None
            }
            State::Ended => {
                let is_failure = !kept.is_proven;
                kept.end(is_failure);
                None
            }
        }
    }

    /// A command has ended, so there is time to start a shell.
    pub(crate) fn command_ended(&self) {
        self.command_ended.notify_waiters();
    }

    /// Keeps a shell waiting while commands come. Returns if shells cannot wait here.
    pub(crate) async fn run(self: Arc<Self>) {
        let Some(program) = &self.program else { return };
        while self.lock().failures < SHELL_FAILURES {
            if timeout(SHELL_IDLE, self.wanted.notified()).await.is_err() {
                self.lock().end(false);
                self.wanted.notified().await;
            }
            // The start of a shell would slow a short command down.
            let _ = timeout(SHELL_PAUSE, self.command_ended.notified()).await;
            // Nor does the report of a command's end wait for it.
            for _ in 0..SHELL_YIELDS {
                yield_now().await;
            }
            self.lock().replenish(program);
        }
        self.lock().end(false);
    }

    /// The processes that are kept.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        let kept = self.lock();
        let template = kept.template.as_ref().map(Template::pid);
        template.into_iter().chain(kept.shell.as_ref().and_then(WaitingShell::pid)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// The shell that waits, or else a new one, and how long it is awaited: not at all before a first one has come, because
    /// the start of a template takes longer than a fork.
    fn take(&mut self) -> Option<(WaitingShell, Duration)> {
        let limit = if self.is_proven { SHELL_FORK } else { Duration::ZERO };
        let shell = match self.shell.take() {
            None if self.is_proven => self.template.as_ref()?.fork().ok(),
            shell => shell,
        };
        Some((shell?, limit))
    }

    /// Starts the template and a shell, if there is none. At the process limit there is none until the next command.
    fn replenish(&mut self, program: &Path) {
        if self.shell.is_some() {
            return;
        }
        if self.template.is_none() {
            match Template::start(program.to_owned(), environment::for_commands()) {
                Ok(template) => self.template = Some(template),
                // There is no room for another process.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return self.end(true),
            }
        }
        match self.template.as_ref().map(Template::fork) {
            Some(Ok(shell)) => self.shell = Some(shell),
            Some(Err(_)) | None => self.end(false),
        }
    }

    /// Ends the processes that are kept.
    fn end(&mut self, is_failure: bool) {
        *self = Self { failures: self.failures + u32::from(is_failure), ..Self::default() };
    }
}
