//! One run: from its code to its end.
//!
//! Every record that names another run is dropped. A run that exceeds its timeout, or whose reader leaves, is interrupted.
//! If it does not end then, the interpreter is killed. Output beyond the limits is dropped and counted, so that a run with a
//! flood of output still ends by itself.

use std::sync::Arc;
use std::time::Duration;

use agent_protocol::v1::tool_answer::Outcome;
use agent_protocol::v1::{self, RecordKind, RecordValue, RunStatus, run_event};
use agent_protocol::{MAX_TOOL_VALUE_BYTES, MAX_WAITING_TOOL_CALLS};
use bytes::Bytes;
use rustix::process::{Signal, WaitStatus};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::calls::{Calls, Settled};
use super::frame::{Asked, Content, Frame, Request};
use super::session::{Event, Session};
use super::turn::RunPermit;
use crate::command::epoch_ms;
use crate::limits::{
    INTERRUPT_GRACE, INTERRUPT_REPEAT, MAX_RUN_OUTPUT_BYTES, MAX_RUN_RECORDS_BYTES, RUN_RECORD_COST_BYTES,
};
use crate::oom;
use crate::secrets::{Redactor, Secrets};

/// Code that is to be run.
#[derive(Debug)]
pub(super) struct PendingRun {
    pub(super) language: v1::Language,
    pub(super) calls: Arc<Calls>,
    pub(super) code: String,
    pub(super) timeout: Duration,
    /// Whether the interpreter is a new one because the one before ended.
    pub(super) restarted: bool,
    pub(super) events: mpsc::Sender<v1::RunEvent>,
    /// Ends the turn when the run is dropped.
    pub(super) permit: RunPermit,
}

impl PendingRun {
    /// Reports that the interpreter ended before the run began.
    pub(super) fn report_death(self) {
        let ended = v1::RunEnded {
            status: RunStatus::Died as i32,
            restarted: self.restarted,
            state_lost: true,
            ..v1::RunEnded::default()
        };
        Finished { pending: self, ended }.report();
    }
}

/// A run that is over and not reported yet.
pub(super) struct Finished {
    pending: PendingRun,
    ended: v1::RunEnded,
}

impl Finished {
    /// Whether the interpreter has ended.
    pub(super) fn state_lost(&self) -> bool {
        self.ended.state_lost
    }

    /// Reports the end. The next run may begin before the reader has it.
    pub(super) fn report(self) {
        let Self { pending: PendingRun { calls, events, permit, .. }, ended } = self;
        // Before the next run may begin.
        calls.end_run();
        drop(permit);
        tokio::spawn(async move {
            // A reader that has left needs no report.
            let _ = events.send(v1::RunEvent { event: Some(run_event::Event::Ended(ended)) }).await;
        });
    }
}

/// Why a run was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Reason {
    Request,
    /// Its reader left.
    Left,
    Timeout,
}

/// How a run ended.
enum End {
    Done {
        exit_code: Option<i32>,
    },
    /// The interpreter was killed, because an interrupt did not end the run.
    Killed,
    Died(Option<WaitStatus>),
}

/// A run in progress.
pub(super) struct Run<'a> {
    pending: PendingRun,
    session: &'a mut Session,
    began: Instant,
    interrupted: Option<Reason>,
    /// When the interpreter is killed.
    kill_at: Option<Instant>,
    /// The timeout, or the next interrupt after it.
    next_step: Instant,
    has_error: bool,
    /// The run was interrupted while its reader did not read. From then on, no event waits for it.
    is_unread: bool,
    output_bytes: usize,
    record_bytes: usize,
    dropped_bytes: usize,
    oom_kills_before: Option<u64>,
}

impl<'a> Run<'a> {
    pub(super) fn new(pending: PendingRun, session: &'a mut Session) -> Self {
        let began = Instant::now();
        Self {
            next_step: began + pending.timeout,
            pending,
            session,
            began,
            interrupted: None,
            kill_at: None,
            has_error: false,
            is_unread: false,
            output_bytes: 0,
            record_bytes: 0,
            dropped_bytes: 0,
            oom_kills_before: oom::kills_so_far(),
        }
    }

    /// Runs the code to its end.
    pub(super) async fn perform(mut self) -> Finished {
        let started = v1::RunStarted {
            started_at_ms: epoch_ms(),
            run: self.pending.permit.number,
            language: self.pending.language as i32,
        };
        self.emit(run_event::Event::Started(started), 0).await;
        let code = std::mem::take(&mut self.pending.code);
        self.session.send(self.pending.permit.number, &code);
        let end = self.follow().await;
        let rest = self.session.finish();
        self.show(rest).await;
        let ended = self.ended(&end);
        Finished { pending: self.pending, ended }
    }

    /// Passes on what the interpreter reports until the run ends, or is ended.
    async fn follow(&mut self) -> End {
        loop {
            let event = tokio::select! {
                () = sleep_until(self.next_step) => {
                    if self.kill_at.is_some_and(|at| at <= Instant::now()) {
                        self.session.end().await;
                        return End::Killed;
                    }
                    self.interrupt(Reason::Timeout);
                    continue;
                }
                () = self.pending.events.closed(), if self.interrupted < Some(Reason::Left) => {
                    self.interrupt(Reason::Left);
                    continue;
                }
                () = self.pending.permit.interrupt.notified() => {
                    self.interrupt(Reason::Request);
                    continue;
                }
                outcome = self.pending.calls.next() => {
                    self.settle(outcome).await;
                    continue;
                }
                event = self.session.next() => event,
            };
            match event {
                Event::Output(output) => self.show(vec![output]).await,
                Event::Nothing => {}
                Event::Record(Frame { run, .. }) if run != self.pending.permit.number => {}
                Event::Record(Frame { content: Content::Done { exit_code }, .. }) => {
                    return End::Done { exit_code };
                }
                Event::Record(Frame { content: Content::Value { kind, values }, .. }) => {
                    // What the code wrote before it.
                    let before = self.session.drain();
                    self.show(before).await;
                    self.pass_on(kind, values).await;
                }
                Event::Record(Frame { content: Content::Request(request), .. }) => {
                    self.serve(request).await;
                }
                Event::Closed | Event::Exited => return End::Died(self.session.exit().await),
            }
        }
    }

    /// Serves a request of the code: a search at once, a call when the caller has answered it.
    async fn serve(&mut self, Request { id, asked }: Request) {
        match asked {
            Asked::Search { query, limit } => {
                let found = self.pending.calls.tools().search(&query, limit).to_string();
                self.session.answer(id, &Outcome::Result(found.into()));
            }
            Asked::Call { name, arguments } => match begin_call(&self.pending.calls, id, &name, &arguments) {
                Ok(call) => {
                    let before = self.session.drain();
                    self.show(before).await;
                    let bytes = arguments.len();
                    let arguments = self.redact(arguments);
                    let call = v1::ToolCall { call, name, arguments };
                    self.emit(run_event::Event::ToolCall(call), bytes).await;
                }
                Err(error) => self.session.answer(id, &Outcome::Error(error)),
            },
        }
    }

    /// Tells the interpreter what a call came to, and the reader if its time is over.
    async fn settle(&mut self, outcome: Settled) {
        self.session.answer(outcome.id, &outcome.answer);
        if let Some(call) = outcome.expired {
            self.emit(run_event::Event::ToolCallExpired(v1::ToolCallExpired { call }), 0).await;
        }
    }

    fn redact(&self, text: Bytes) -> Bytes {
        match &self.session.secrets {
            None => text,
            Some(secrets) => without_secrets(&text, secrets),
        }
    }

    /// Interrupts the code. Only a request leaves it the time until its timeout.
    fn interrupt(&mut self, reason: Reason) {
        self.session.interpreter.signal(Signal::INT);
        if reason == Reason::Request {
            self.interrupted.get_or_insert(reason);
            return;
        }
        if self.kill_at.is_none() {
            self.interrupted = Some(reason);
        }
        // Again, because an interrupt before the interpreter has begun with the code is lost.
        let now = Instant::now();
        let kill_at = *self.kill_at.get_or_insert(now + INTERRUPT_GRACE);
        self.next_step = kill_at.min(now + INTERRUPT_REPEAT);
    }

    async fn show(&mut self, outputs: Vec<v1::RunOutput>) {
        for output in outputs {
            let bytes = output.data.len();
            if self.output_bytes + bytes > MAX_RUN_OUTPUT_BYTES {
                self.dropped_bytes += bytes;
                continue;
            }
            self.output_bytes += bytes;
            self.emit(run_event::Event::Output(output), bytes).await;
        }
    }

    async fn pass_on(&mut self, kind: RecordKind, values: Vec<RecordValue>) {
        self.has_error |= kind == RecordKind::Error;
        let bytes: usize = values.iter().map(|value| value.data.len()).sum();
        if self.record_bytes + bytes + RUN_RECORD_COST_BYTES > MAX_RUN_RECORDS_BYTES {
            self.dropped_bytes += bytes;
            return;
        }
        self.record_bytes += bytes + RUN_RECORD_COST_BYTES;
        let values = match &self.session.secrets {
            None => values,
            Some(secrets) => values.into_iter().map(|value| redacted(value, secrets)).collect(),
        };
        let record = v1::RunRecord { kind: kind as i32, values };
        self.emit(run_event::Event::Record(record), bytes).await;
    }

    /// Passes an event to the reader. One that does not read delays the code, but neither its timeout nor an interrupt.
    async fn emit(&mut self, event: run_event::Event, bytes: usize) {
        let event = v1::RunEvent { event: Some(event) };
        if self.is_unread {
            if self.pending.events.try_send(event).is_err() {
                self.dropped_bytes += bytes;
            }
            return;
        }
        let is_interrupted = tokio::select! {
            biased;
            permit = self.pending.events.reserve() => {
                // A reader that has left needs no event.
                if let Ok(permit) = permit {
                    permit.send(event);
                }
                return;
            }
            () = sleep_until(self.next_step) => false,
            () = self.pending.permit.interrupt.notified() => true,
        };
        if is_interrupted {
            self.is_unread = true;
            self.interrupt(Reason::Request);
        }
        self.dropped_bytes += bytes;
    }

    fn ended(&self, end: &End) -> v1::RunEnded {
        let (exit_code, state_lost) = match end {
            End::Done { exit_code } => (*exit_code, false),
            End::Killed | End::Died(_) => (None, true),
        };
        let status = match (self.interrupted, end) {
            (Some(Reason::Timeout), _) => RunStatus::Timeout,
            (Some(Reason::Request | Reason::Left), End::Done { .. } | End::Killed) => RunStatus::Interrupted,
            (_, End::Died(status)) => self.death(*status),
            (None, _) if self.has_error => RunStatus::Error,
            (None, _) => RunStatus::Ok,
        };
        v1::RunEnded {
            status: status as i32,
            duration_ms: self.began.elapsed().as_millis() as u64,
            exit_code,
            dropped_bytes: self.dropped_bytes as u64,
            restarted: self.pending.restarted,
            state_lost,
        }
    }

    /// Whether the kernel killed processes since the run began, and the interpreter died like one of them.
    fn death(&self, status: Option<WaitStatus>) -> RunStatus {
        let was_killed = status.and_then(|status| status.terminating_signal()) == Some(Signal::KILL.as_raw());
        match (self.oom_kills_before, oom::kills_so_far()) {
            (Some(before), Some(now)) if was_killed && now > before => RunStatus::OutOfMemory,
            _ => RunStatus::Died,
        }
    }
}

/// Replaces secret values. An image has none.
fn redacted(value: RecordValue, secrets: &Arc<Secrets>) -> RecordValue {
    if value.name == "png" {
        return value;
    }
    RecordValue { data: without_secrets(&value.data, secrets), ..value }
}

fn without_secrets(text: &[u8], secrets: &Arc<Secrets>) -> Bytes {
    let mut redactor = Redactor::new(Arc::clone(secrets));
    let mut shown = redactor.push(text);
    shown.extend(redactor.finish());
    shown.into()
}

/// Begins a call, and returns its number, or the error for the code.
fn begin_call(calls: &Calls, id: u64, name: &str, arguments: &[u8]) -> Result<u64, v1::ToolError> {
    let error = |kind: v1::ToolErrorType, message: String| v1::ToolError { r#type: kind as i32, message };
    let Some(timeout) = calls.tools().timeout(name) else {
        return Err(error(v1::ToolErrorType::Validation, format!("there is no tool named {name:?}")));
    };
    if arguments.len() > MAX_TOOL_VALUE_BYTES {
        let message = format!("the arguments are longer than {MAX_TOOL_VALUE_BYTES} bytes");
        return Err(error(v1::ToolErrorType::Validation, message));
    }
    calls.begin(id, timeout).ok_or_else(|| {
        let message = format!("{MAX_WAITING_TOOL_CALLS} calls wait for an answer already");
        error(v1::ToolErrorType::Internal, message)
    })
}
