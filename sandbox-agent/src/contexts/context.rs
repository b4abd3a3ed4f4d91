//! One context: what it was opened with, its interpreter, and whether code runs.
//!
//! The interpreter belongs to a task ([`super::supervisor`]). This is the handle to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;

use super::calls::Calls;
use super::interpreter::{Interpreter, Spec};
use super::run::PendingRun;
use super::session::Session;
use super::supervisor;
use super::tools::Tools;
use super::turn::Turn;
use crate::command::epoch_ms;
use crate::commands::{is_process_limit, start_error};
use crate::leftovers::Leftovers;
use crate::limits::{REAP_PAUSE, REAP_TRIES};
use crate::reaper::Reaper;
use crate::termination;

/// The events of a run.
pub(crate) type RunEvents = ReceiverStream<v1::RunEvent>;

/// Events of a run that wait for the reader. The code waits too then.
const WAITING_EVENTS: usize = 1;

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
    is_closed: bool,
}

/// A running interpreter.
#[derive(Debug)]
struct Current {
    interpreter: Arc<Interpreter>,
    /// Closed when the interpreter ends.
    pending: mpsc::Sender<PendingRun>,
}

impl State {
    fn live(&self) -> Option<&Current> {
        self.current.as_ref().filter(|current| !current.pending.is_closed())
    }
}

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    spec: Spec,
    started_at_ms: i64,
    reaper: Arc<Reaper>,
    leftovers: Arc<Leftovers>,
    turn: Arc<Turn>,
    calls: Arc<Calls>,
    state: Mutex<State>,
}

impl Context {
    /// Creates a context without an interpreter.
    pub(super) fn new(spec: Spec, tools: Tools, reaper: Arc<Reaper>, leftovers: Arc<Leftovers>) -> Arc<Self> {
        let (turn, calls, state) = (Arc::default(), Arc::new(Calls::new(tools)), Mutex::default());
        Arc::new(Self { spec, started_at_ms: epoch_ms(), reaper, leftovers, turn, calls, state })
    }

    pub(super) fn id(&self) -> &str {
        &self.spec.id
    }

    /// The interpreter, if it runs.
    pub(super) fn interpreter(&self) -> Option<Arc<Interpreter>> {
        self.lock().live().map(|current| Arc::clone(&current.interpreter))
    }

    /// Starts an interpreter, unless there is one.
    pub(super) async fn start(&self) -> Result<(), Kind> {
        let mut started = self.try_start();
        if !started.as_ref().is_err_and(is_process_limit) {
            return started;
        }
        self.leftovers.end().await;
        for _ in 0..REAP_TRIES {
            started = self.try_start();
            if !started.as_ref().is_err_and(is_process_limit) {
                break;
            }
            sleep(REAP_PAUSE).await;
        }
        started
    }

    fn try_start(&self) -> Result<(), Kind> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(self.unknown());
        }
        if state.live().is_some() {
            return Ok(());
        }
        let (interpreter, channels) = Interpreter::start(&self.spec).map_err(start_error)?;
        let status = self.reaper.expect(interpreter.main());
        let interpreter = Arc::new(interpreter);
        let (pending, to_run) = mpsc::channel(1);
        let mut session = Session::new(&interpreter, channels, status, self.spec.secrets.as_ref());
        session.send_tools(self.calls.tools());
        tokio::spawn(supervisor::run(session, to_run));
        state.current = Some(Current { interpreter, pending });
        Ok(())
    }

    /// Runs code. Returns the events of the run.
    pub(super) async fn run(&self, code: String, timeout: Duration) -> Result<RunEvents, Kind> {
        let busy = || Kind::ContextBusy(v1::ContextUnknown { context_id: self.spec.id.clone() });
        let permit = self.turn.take().ok_or_else(busy)?;
        let restarted = self.interpreter().is_none();
        self.start().await?;
        let (events, receiver) = mpsc::channel(WAITING_EVENTS);
        let (language, calls) = (self.spec.language, Arc::clone(&self.calls));
        let run = PendingRun { language, calls, code, timeout, restarted, events, permit };
        let pending = self.lock().current.as_ref().map(|current| current.pending.clone());
        match pending.map(|pending| pending.try_send(run)) {
            Some(Ok(())) => Ok(ReceiverStream::new(receiver)),
            // The context was closed, or its new interpreter ended at once.
            Some(Err(error)) => {
                error.into_inner().report_death();
                Ok(ReceiverStream::new(receiver))
            }
            None => Err(self.unknown()),
        }
    }

    /// Interrupts the run. Returns whether there is one.
    pub(crate) fn interrupt(&self) -> bool {
        self.turn.interrupt()
    }

    /// Starts a new interpreter in place of the current one.
    pub(crate) async fn restart(&self) -> Result<(), Kind> {
        self.end_interpreter().await;
        self.start().await
    }

    /// Ends the interpreter. No other one will be started.
    pub(super) async fn close(&self) {
        self.lock().is_closed = true;
        self.end_interpreter().await;
    }

    /// Ends the interpreter, and everything that was started from it.
    async fn end_interpreter(&self) {
        let current = self.lock().current.take();
        // A run whose reader does not read must not delay this.
        self.turn.interrupt();
        if let Some(Current { interpreter, pending }) = current {
            termination::end(interpreter.as_ref(), Signal::TERM).await;
            // A run ends with its interpreter.
            pending.closed().await;
        }
    }

    /// Answers a call of a tool.
    pub(super) fn answer(&self, call: u64, answer: v1::tool_answer::Outcome) -> Result<(), Kind> {
        self.calls.answer(call, answer).map_err(|calls| Kind::ToolCallOver(v1::ToolCallOver { calls }))
    }

    pub(crate) fn tools(&self) -> Vec<v1::Tool> {
        self.calls.tools().all().to_vec()
    }

    pub(crate) fn status(&self) -> v1::ContextStatus {
        v1::ContextStatus {
            context_id: self.spec.id.clone(),
            language: self.spec.language as i32,
            cwd: self.spec.cwd.to_string_lossy().into_owned(),
            started_at_ms: self.started_at_ms,
            running: self.turn.is_taken(),
            runs: self.turn.runs(),
            tools: self.calls.tools().names(),
            tool_calls: self.calls.count(),
        }
    }

    fn unknown(&self) -> Kind {
        Kind::ContextUnknown(v1::ContextUnknown { context_id: self.spec.id.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
