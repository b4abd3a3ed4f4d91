//! One terminal: its program, its screen, its output, and how it ended.
//!
//! Owns the state that viewers, input and the supervisor share. Output goes into the history and onto the screen under
//! one lock. So a viewer that gets the screen knows the offset at which it was taken. A viewer never delays the
//! program.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use rustix::process::{Pid, Signal};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};

use super::history::History;
use super::input::{InputQueue, not_taken};
use super::pty::Pty;
use super::screen::{Screen, Size};
use crate::command::epoch_ms;
use crate::limits::{INPUT_WAIT, MAX_VIEWERS, SCROLLBACK_BYTES, TERMINAL_ARGV_BYTES};
use crate::mark::Mark;
use crate::members::Owner;
use crate::spawn::Launch;
use crate::termination;

/// Parameters of a terminal.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) id: String,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: std::path::PathBuf,
    /// Whether the program is the default shell, because the request named none.
    pub(crate) is_shell: bool,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) history: History,
    pub(super) screen: Screen,
    pub(super) size: Size,
    /// Offset of the last change of size. Earlier output was written for another size.
    pub(super) resized_at: u64,
    /// `None` after the end.
    pty: Option<Arc<Pty>>,
    main_collected: bool,
    pub(super) ended: Option<v1::TerminalEnded>,
}

/// A terminal, running or ended.
#[derive(Debug)]
pub(crate) struct Terminal {
    spec: Spec,
    started_at_ms: i64,
    main: Pid,
    mark: Option<Mark>,
    state: Mutex<State>,
    /// Notified of every change that viewers see.
    pub(super) changed: Notify,
    input_queue: InputQueue,
    pub(super) viewers: Arc<Semaphore>,
    end_requests: mpsc::UnboundedSender<Signal>,
}

impl Terminal {
    /// Starts the program. The receiver is for the terminal's supervisor.
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
                stdin: None,
                with_trace: false,
                max_loop_iterations: 0,
                stages: None,
                read_only: None,
                keep: &[],
                waiting_shells: None,
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
            input_queue: InputQueue::default(),
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

    /// Adds output.
    pub(super) fn record(&self, data: &[u8]) {
        let mut state = self.lock();
        state.history.push(data);
        state.screen.process(data);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Writes `data` after earlier inputs. If the program reads too little, the error says how much was written.
    pub(crate) async fn input(&self, data: &[u8]) -> Result<(), Kind> {
        let deadline = Instant::now() + INPUT_WAIT;
        let _turn = self.input_queue.turn(data.len(), deadline).await?;
        let mut taken = 0;
        while taken < data.len() {
            let changed = self.changed.notified();
            let pty = self.pty().ok_or_else(|| self.has_ended())?;
            let written = tokio::select! {
                written = timeout_at(deadline, pty.write(&data[taken..])) => written,
                // The next iteration checks whether the change was the end.
                () = changed => continue,
            };
            match written {
                Ok(Ok(bytes)) => taken += bytes,
                Ok(Err(_)) => return Err(self.has_ended()),
                Err(_) => return Err(not_taken(taken)),
            }
        }
        Ok(())
    }

    /// Changes the size. Setting the current size succeeds and notifies no viewer.
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

    /// Whether the terminal runs work that must not be interrupted: its own program, or a foreground job of the
    /// shell.
    pub(crate) fn is_busy(&self) -> bool {
        match self.pty() {
            None => false,
            Some(_) if !self.spec.is_shell => true,
            // If the kernel reports no foreground group, the terminal counts as busy.
            Some(pty) => pty.foreground().map_or(true, |group| group != self.main),
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.lock().ended.is_none()
    }

    /// Asks the supervisor to end the terminal, with `first` as the first signal.
    pub(super) fn request_end(&self, first: Signal) {
        // A supervisor that is gone has recorded the end.
        let _ = self.end_requests.send(first);
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) {
        loop {
            let changed = self.changed.notified();
            if self.lock().ended.is_some() {
                return;
            }
            changed.await;
        }
    }

    /// Records that the main process was reaped.
    pub(super) fn set_main_collected(&self) {
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

    /// Returns the terminal's status, optionally with its screen.
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
            screen: with_screen.then(|| state.screen.to_wire()),
        }
    }

    pub(super) fn pty(&self) -> Option<Arc<Pty>> {
        self.lock().pty.clone()
    }

    fn has_ended(&self) -> Kind {
        Kind::TerminalEnded(v1::TerminalUnknown { terminal_id: self.spec.id.clone() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the first arguments up to the maximum length. The last one may be cut.
fn first_of(argv: &[String]) -> Vec<String> {
    let mut left = TERMINAL_ARGV_BYTES;
    let mut to_wire = Vec::new();
    for arg in argv {
        let kept = arg.floor_char_boundary(left);
        to_wire.push(arg[..kept].to_owned());
        // Each argument counts one byte more, so that the number of empty arguments is limited.
        left = left.saturating_sub(kept + 1);
        if left == 0 {
            break;
        }
    }
    to_wire
}

impl termination::Target for Terminal {
    fn owner(&self) -> Owner<'_> {
        Owner {
            command_id: &self.spec.id,
            main: self.main,
            main_collected: self.lock().main_collected,
            mark: self.mark,
        }
    }
}
