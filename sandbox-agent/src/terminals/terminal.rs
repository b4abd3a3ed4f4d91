//! One terminal: its program, what it shows, what it wrote, and how it ended.
//!
//! Owns the state that viewers, the one who types and the supervisor share. What the program writes goes into the
//! history and onto the screen under one lock, so that a viewer who is given the screen knows after which byte it
//! stands. No viewer ever holds the program back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use rustix::process::{Pid, Signal};
use tokio::sync::{Notify, Semaphore, mpsc};

use super::history::History;
use super::pty::Pty;
use super::screen::{Screen, Size};
use super::typing::Typing;
use crate::command::epoch_ms;
use crate::ladder;
use crate::limits::{MAX_VIEWERS, SCROLLBACK_BYTES, TERMINAL_ARGV_BYTES};
use crate::mark::Mark;
use crate::members::Owner;
use crate::spawn::Launch;

/// What a terminal was opened with.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) id: String,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: std::path::PathBuf,
    /// Nobody named a program: it waits for somebody to type one.
    pub(crate) is_shell: bool,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) history: History,
    pub(super) screen: Screen,
    pub(super) size: Size,
    /// Offset up to which what was written was meant for another size.
    pub(super) resized_at: u64,
    /// Closed with the end.
    pty: Option<Arc<Pty>>,
    main_collected: bool,
    pub(super) ended: Option<v1::TerminalEnded>,
}

/// A terminal that was opened.
#[derive(Debug)]
pub(crate) struct Terminal {
    spec: Spec,
    started_at_ms: i64,
    main: Pid,
    mark: Option<Mark>,
    state: Mutex<State>,
    /// Woken by everything that a viewer is told.
    pub(super) changed: Notify,
    pub(super) typing: Typing,
    pub(super) viewers: Arc<Semaphore>,
    end_requests: mpsc::UnboundedSender<Signal>,
}

impl Terminal {
    /// Starts the program; the receiver is for the terminal's supervisor.
    pub(super) fn start(
        spec: Spec,
        env: &HashMap<String, String>,
        size: Size,
    ) -> Result<(Arc<Self>, mpsc::UnboundedReceiver<Signal>), v1::StartFailed> {
        let (pty, started) = Pty::start(
            &Launch {
                command_id: &spec.id,
                argv: &spec.argv,
                cwd: &spec.cwd,
                env,
                with_stdin: false,
                read_only: None,
            },
            size,
        )?;
        let (end_requests, requested) = mpsc::unbounded_channel();
        let state = State {
            history: History::new(SCROLLBACK_BYTES),
            screen: Screen::new(size),
            size,
            resized_at: 0,
            pty: Some(Arc::new(pty)),
            main_collected: false,
            ended: None,
        };
        let terminal = Self {
            spec,
            started_at_ms: epoch_ms(),
            main: started.pid,
            mark: started.mark,
            state: Mutex::new(state),
            changed: Notify::new(),
            typing: Typing::default(),
            viewers: Arc::new(Semaphore::new(MAX_VIEWERS)),
            end_requests,
        };
        Ok((Arc::new(terminal), requested))
    }

    pub(super) fn id(&self) -> &str {
        &self.spec.id
    }

    pub(super) fn main(&self) -> Pid {
        self.main
    }

    /// Takes what was written.
    pub(super) fn record(&self, data: &[u8]) {
        let mut state = self.lock();
        state.history.push(data);
        state.screen.show(data);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Gives it another size. To have that size already is fine, and tells nobody.
    pub(crate) fn resize(&self, size: Size) -> Result<(), Kind> {
        let mut state = self.lock();
        let pty = state.pty.clone().ok_or_else(|| self.has_ended())?;
        if state.size == size {
            return Ok(());
        }
        pty.resize(size).map_err(|_| self.has_ended())?;
        state.size = size;
        state.resized_at = state.history.end();
        state.screen.resize(size);
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Whether something runs that nobody should be deprived of: its own program, or what was started from the
    /// shell and is in the foreground.
    pub(crate) fn is_busy(&self) -> bool {
        match self.pty() {
            None => false,
            Some(_) if !self.spec.is_shell => true,
            // Where the kernel does not say, nothing is thrown away on a doubt.
            Some(pty) => pty.foreground().map_or(true, |group| group != self.main),
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.lock().ended.is_none()
    }

    /// Asks the supervisor to end it, beginning with `first`.
    pub(super) fn request_end(&self, first: Signal) {
        // A supervisor that is gone has recorded the end.
        let _ = self.end_requests.send(first);
    }

    /// The end, when it has come.
    pub(super) async fn ended(&self) {
        loop {
            let changed = self.changed.notified();
            if self.lock().ended.is_some() {
                return;
            }
            changed.await;
        }
    }

    /// The main process has been waited for.
    pub(super) fn main_was_collected(&self) {
        self.lock().main_collected = true;
    }

    /// Records the end, and closes the terminal.
    pub(super) fn finish(&self, reason: v1::EndReason, exit_code: i32, signal: i32) {
        let mut state = self.lock();
        let ended = v1::TerminalEnded { reason: reason as i32, exit_code, signal, ended_at_ms: epoch_ms() };
        state.ended = Some(ended);
        state.pty = None;
        state.screen.freeze();
        drop(state);
        self.changed.notify_waiters();
    }

    /// What is known of it, with its screen or without.
    pub(crate) fn status(&self, with_screen: bool) -> v1::TerminalStatus {
        let state = self.lock();
        v1::TerminalStatus {
            terminal_id: self.spec.id.clone(),
            argv: first_of(&self.spec.argv),
            cwd: self.spec.cwd.to_string_lossy().into_owned(),
            is_shell: self.spec.is_shell,
            size: Some(state.size.to_wire()),
            started_at_ms: self.started_at_ms,
            ended: state.ended,
            viewers: (MAX_VIEWERS - self.viewers.available_permits()) as u32,
            bytes: state.history.end(),
            screen: with_screen.then(|| state.screen.told()),
        }
    }

    pub(super) fn pty(&self) -> Option<Arc<Pty>> {
        self.lock().pty.clone()
    }

    pub(super) fn has_ended(&self) -> Kind {
        Kind::TerminalEnded(v1::TerminalUnknown { terminal_id: self.spec.id.clone() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As many of the first arguments as are told, the last of them perhaps cut.
fn first_of(argv: &[String]) -> Vec<String> {
    let mut left = TERMINAL_ARGV_BYTES;
    let mut told = Vec::new();
    for arg in argv {
        let kept = arg.floor_char_boundary(left);
        told.push(arg[..kept].to_owned());
        // Even an empty one has its price.
        left = left.saturating_sub(kept + 1);
        if left == 0 {
            break;
        }
    }
    told
}

impl ladder::Target for Terminal {
    fn owner(&self) -> Owner<'_> {
        Owner {
            command_id: &self.spec.id,
            main: self.main,
            main_collected: self.lock().main_collected,
            mark: self.mark,
        }
    }
}
