//! Runs code and streams its state, as [`bash`](super::bash) does for a command. The functions that the code calls run
//! as a part of the stream.

use std::pin::Pin;
use std::time::Duration;

use futures::future::{BoxFuture, Either};
use futures::stream::{self, FuturesUnordered};
use futures::{Stream, StreamExt};
use output_text::Keep;
use sandbox_api::context::{Display, RunStatus};
use sandbox_api::tool::{ToolCall, ToolErrorType};
use tokio_util::sync::CancellationToken;

use super::output::Parts;
use super::pace::{self, Values};
use super::python::{Begun, HostCall, Python, no_answer, of};
use super::{PythonInput, PythonOutput, PythonStatus, Result, Shown, Tool, Toolkit};
use crate::provider::{CodeEnd, CodeEvent, Error};
use crate::session::Lease;

/// Code in a sandbox that is about to start.
type Starting = Pin<Box<dyn Future<Output = Result<Started>> + Send>>;

/// Code that runs in a sandbox that is not released meanwhile.
struct Started {
    begun: Begun,
    lease: Lease,
}

impl Toolkit {
    /// Runs Python code in the chat's interpreter and streams its state until it has ended. The code of a chat runs one piece
    /// after the other. `cancel` interrupts the code, and the last value reports that. Dropping the stream interrupts it too.
    /// The time limit does not include opening the sandbox and waiting for other code. Fails with
    /// [`Error::NoTool`](super::Error::NoTool) without [`with_python`](Self::with_python).
    pub fn python(
        &self,
        input: PythonInput,
        cancel: CancellationToken,
    ) -> impl Stream<Item = Result<PythonOutput>> + Send + 'static {
        let Some(python) = self.python_of_app().cloned() else {
            let name = Tool::Python.name().to_owned();
            return Either::Right(stream::once(async { Err(super::Error::NoTool { name }) }));
        };
        let (tools, starter) = (self.clone(), python.clone());
        let starting: Starting = Box::pin(async move {
            let code = tools.allowed_code(input.code).await?;
            start_in(&tools, &starter, &code).await
        });
        Either::Left(values(self.clone(), python, starting, cancel))
    }

    /// Runs Python code to its end.
    pub async fn python_whole(&self, input: PythonInput, cancel: CancellationToken) -> Result<PythonOutput> {
        let mut outputs = Box::pin(self.python(input, cancel));
        let mut last = PythonOutput::default();
        while let Some(output) = outputs.next().await {
            last = output?;
        }
        Ok(last)
    }
}

/// Starts code in the sandbox of a chat, and once more in a new one if the sandbox was lost.
async fn start_in(tools: &Toolkit, python: &Python, code: &str) -> Result<Started> {
    let timeout = tools.pace().timeout;
    let lease = tools.sessions().lease(tools.key()).await?;
    match python.start(tools.provider(), lease.sandbox(), code, timeout).await {
        Err(super::Error::Provider(Error::Gone)) => {
            let lease = tools.replace(lease).await?;
            let mut begun = python.start(tools.provider(), lease.sandbox(), code, timeout).await?;
            begun.is_restarted = true;
            Ok(Started { begun, lease })
        }
        begun => Ok(Started { begun: begun?, lease }),
    }
}

/// Streams the values of a run.
fn values(
    tools: Toolkit,
    python: Python,
    starting: Starting,
    cancel: CancellationToken,
) -> impl Stream<Item = Result<PythonOutput>> + Send + 'static {
    let run = Run {
        parts: Parts::new(Keep::Tail, tools.limits().output),
        values: Values::new(tools.pace()),
        starting: Some(starting),
        started: None,
        calls: FuturesUnordered::new(),
        output: PythonOutput::default(),
        shown_bytes: 0,
        displays: 0,
        tools,
        python,
        cancel,
        is_done: false,
    };
    stream::unfold(run, |mut run| async move {
        let output = run.next().await?;
        Some((output, run))
    })
}

struct Run {
    tools: Toolkit,
    python: Python,
    starting: Option<Starting>,
    started: Option<Started>,
    /// Calls of functions that have no answer yet.
    calls: FuturesUnordered<BoxFuture<'static, ()>>,
    parts: Parts,
    /// Everything but the two streams.
    output: PythonOutput,
    /// Size of the displays and the result.
    shown_bytes: usize,
    /// Number of displays so far, with the omitted ones.
    displays: u64,
    values: Values,
    cancel: CancellationToken,
    is_done: bool,
}

/// Why a value is due.
enum Due {
    Started,
    Flush,
    Ended(CodeEnd),
    Cancelled,
}

impl Run {
    async fn next(&mut self) -> Option<Result<PythonOutput>> {
        if self.is_done {
            return None;
        }
        let cancel = self.cancel.clone();
        let due = tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(Due::Cancelled),
            due = self.due() => due,
        };
        self.is_done = !matches!(due, Ok(Due::Started | Due::Flush));
        if self.is_done {
            // Dropped at once, which interrupts code that still runs, and ends its calls.
            (self.starting, self.started) = (None, None);
            self.calls.clear();
        }
        Some(due.map(|due| self.show(due)))
    }

    /// What a reader has not seen yet counts, and a display as much as the longest line.
    fn news(&self) -> u64 {
        self.parts.chars() + self.displays * pace::FLUSH_CHARS
    }

    async fn due(&mut self) -> Result<Due> {
        if let Some(starting) = &mut self.starting {
            let started = starting.await?;
            self.output.restarted = started.begun.is_restarted;
            (self.started, self.starting) = (Some(started), None);
        }
        loop {
            let flush_at = self.values.due_at(self.news());
            let Some(Started { begun, .. }) = &mut self.started else { return Err(cut()) };
            let event = tokio::select! {
                biased;
                () = pace::sleep_until(flush_at) => return Ok(Due::Flush),
                Some(()) = self.calls.next(), if !self.calls.is_empty() => continue,
                event = begun.code.next() => event.ok_or_else(cut)??,
            };
            match event {
                CodeEvent::Started => return Ok(Due::Started),
                CodeEvent::Stdout(bytes) => self.parts.stdout.push(&bytes),
                CodeEvent::Stderr(bytes) => self.parts.stderr.push(&bytes),
                CodeEvent::Display(display) => {
                    if let Some(shown) = self.within_limit(display) {
                        self.output.displays.push(shown);
                    }
                }
                CodeEvent::Result(display) => self.output.result = self.within_limit(display),
                CodeEvent::Error(error) => self.output.error = Some(error.into()),
                CodeEvent::Call(call) => self.call(call)?,
                CodeEvent::Heartbeat => {}
                CodeEvent::Ended(end) => return Ok(Due::Ended(end)),
            }
        }
    }

    /// Counts a display, and cuts it if there is too much of them: first to its text, then to nothing.
    fn within_limit(&mut self, display: Display) -> Option<Shown> {
        self.displays += 1;
        let mut shown = Shown::from(display);
        let room = PythonOutput::MAX_SHOWN_BYTES - self.shown_bytes;
        if shown.bytes() > room {
            self.output.omitted_displays += 1;
            shown = Shown { text: shown.text, ..Shown::default() };
        }
        let bytes = shown.bytes();
        (bytes > 0 && bytes <= room).then(|| {
            self.shown_bytes += bytes;
            self.values.weigh(self.shown_bytes);
            shown
        })
    }

    /// Calls a function of the app, and answers the code.
    fn call(&mut self, call: ToolCall) -> Result<()> {
        let Some(Started { begun, lease }) = &self.started else { return Err(cut()) };
        let Some(interpreter) = (*begun.turn).clone() else { return Err(cut()) };
        let ToolCall { call: number, name, arguments, timeout_ms } = call;
        let (tools, python, sandbox) = (self.tools.clone(), self.python.clone(), lease.sandbox().clone());
        let answering = async move {
            let call = HostCall { chat: tools.key().clone(), arguments };
            let answer = match python.host_tool(&name) {
                Some(host_tool) => host_tool.answer(call, Duration::from_millis(timeout_ms)).await,
                None => no_answer(ToolErrorType::InternalError, "the app has no such tool"),
            };
            let answered = match of(tools.provider()) {
                Ok(interpreters) => interpreters.answer(&sandbox, &interpreter, number, answer).await,
                Err(_) => return,
            };
            // The code learns that its time is over.
            if let Err(error) = answered {
                tracing::warn!(chat = %tools.key(), tool = name, %error, "could not answer code that calls a tool");
            }
        };
        self.calls.push(Box::pin(answering));
        Ok(())
    }

    fn show(&mut self, due: Due) -> PythonOutput {
        self.values.sent(self.news());
        let (status, notice) = match due {
            Due::Started | Due::Flush => {
                let output = self.with_streams(PythonStatus::Running, self.parts.so_far());
                return self.tools.code_shown(output);
            }
            Due::Cancelled => (PythonStatus::Interrupted, Some("Code was cancelled.".to_owned())),
            Due::Ended(end) => {
                self.output.restarted |= end.restarted;
                (end.status.into(), notice(end, self.values.pace().timeout))
            }
        };
        let streams = self.parts.at_end(0, notice.as_deref());
        self.tools.code_shown(self.with_streams(status, streams))
    }

    fn with_streams(&self, status: PythonStatus, streams: super::BashOutput) -> PythonOutput {
        PythonOutput {
            status,
            stdout: streams.stdout,
            stderr: streams.stderr,
            stdout_truncated_chars: streams.stdout_truncated_chars,
            stderr_truncated_chars: streams.stderr_truncated_chars,
            ..self.output.clone()
        }
    }
}

/// What the user and the model should know of an end.
fn notice(end: CodeEnd, timeout: Duration) -> Option<String> {
    let mut lines = Vec::new();
    lines.extend(match end.status {
        RunStatus::Ok | RunStatus::Error => None,
        RunStatus::Timeout => Some(format!("Code timed out after {}ms.", timeout.as_millis())),
        RunStatus::Interrupted => Some("Code was interrupted.".to_owned()),
        RunStatus::Died => Some("The interpreter ended.".to_owned()),
        RunStatus::OutOfMemory => {
            Some("The interpreter was ended because the sandbox ran out of memory.".to_owned())
        }
        RunStatus::Lost => Some("The code was lost: its sandbox stopped.".to_owned()),
    });
    if end.state_lost {
        lines.push("Its variables are lost.".to_owned());
    }
    if end.dropped_bytes > 0 {
        lines.push(format!("[{} bytes of output were not kept]", end.dropped_bytes));
    }
    (!lines.is_empty()).then(|| lines.join(" "))
}

fn cut() -> super::Error {
    Error::Broken("the stream of the code ended before the code did".into()).into()
}
