//! Contexts of one sandbox, and what their runs report.

use futures::StreamExt;
use sandbox_api::context::{Display, Language, OpenContext, RunCode, RunError, RunRecord, RunStatus};
use sandbox_api::tool::{Tool, ToolAnswer, ToolCall};
use sandbox_api::{ContextId, Done, SandboxId};
use sandbox_client::{Client, Error, RunRecords};

use crate::support::harness::Daemon;

/// What a run has reported.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) results: Vec<Display>,
    pub(crate) displays: Vec<Display>,
    pub(crate) errors: Vec<RunError>,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) status: Option<RunStatus>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) dropped_bytes: u64,
    pub(crate) restarted: bool,
    pub(crate) state_lost: bool,
    /// Whether the last record was a call.
    is_call: bool,
}

impl Ran {
    /// Text of the only result.
    pub(crate) fn text(&self) -> &str {
        match &self.results[..] {
            [Display { text: Some(text), .. }] => text,
            _ => panic!("not one result: {self:?}"),
        }
    }

    /// Whether the code ran to its end.
    pub(crate) fn is_ok(&self) -> bool {
        self.status == Some(RunStatus::Ok)
    }

    /// The call of the last record, if that was one.
    fn last_call(&mut self) -> Option<&ToolCall> {
        if std::mem::take(&mut self.is_call) { self.calls.last() } else { None }
    }

    fn take(&mut self, record: RunRecord) {
        self.is_call = matches!(record, RunRecord::ToolCall(_));
        match record {
            RunRecord::Start { .. } | RunRecord::Heartbeat => {}
            RunRecord::Stdout(output) => self.stdout += &output.data,
            RunRecord::Stderr(output) => self.stderr += &output.data,
            RunRecord::Result(value) => self.results.push(value),
            RunRecord::Display(value) => self.displays.push(value),
            RunRecord::Error(error) => self.errors.push(error),
            RunRecord::ToolCall(call) => self.calls.push(call),
            RunRecord::End { status, exit_code, dropped_bytes, restarted, state_lost, .. } => {
                self.status = Some(status);
                self.exit_code = exit_code;
                self.dropped_bytes = dropped_bytes;
                self.restarted = restarted;
                self.state_lost = state_lost;
            }
        }
    }
}

/// A context.
pub(crate) struct Interpreter {
    pub(crate) client: Client,
    pub(crate) sandbox: SandboxId,
    pub(crate) id: ContextId,
}

impl Interpreter {
    pub(crate) async fn open(daemon: &Daemon, sandbox: &SandboxId, language: Language) -> Self {
        let client = daemon.client.clone();
        let id = client.open_context(sandbox, &OpenContext::new(language)).await.unwrap().context_id;
        Self { client, sandbox: sandbox.clone(), id }
    }

    /// Opens a context whose code can call tools.
    pub(crate) async fn with_tools(
        daemon: &Daemon,
        sandbox: &SandboxId,
        language: Language,
        tools: Vec<Tool>,
    ) -> Self {
        let client = daemon.client.clone();
        let request = OpenContext { tools, ..OpenContext::new(language) };
        let id = client.open_context(sandbox, &request).await.unwrap().context_id;
        Self { client, sandbox: sandbox.clone(), id }
    }

    /// Runs code to its end, and answers its calls. A call without an answer stays open.
    pub(crate) async fn run_answering(
        &self,
        code: &str,
        mut answer: impl FnMut(&ToolCall) -> Option<ToolAnswer>,
    ) -> Ran {
        let mut records = self.begin_run(code).await;
        let mut ran = Ran::default();
        while let Some(record) = records.next().await {
            ran.take(record.unwrap());
            if let Some(answer) = ran.last_call().and_then(&mut answer) {
                self.answer(ran.calls.last().unwrap().call, answer).await.unwrap();
            }
        }
        ran
    }

    /// Begins a run.
    pub(crate) async fn begin_run(&self, code: &str) -> RunRecords {
        self.client.run_code(&self.sandbox, &self.id, &RunCode::new(code)).await.unwrap()
    }

    /// Answers a call.
    pub(crate) async fn answer(&self, call: u64, answer: ToolAnswer) -> Result<Done, Error> {
        self.client.answer_tool_call(&self.sandbox, &self.id, call, &answer).await
    }

    /// Runs code to its end.
    pub(crate) async fn run(&self, code: &str) -> Ran {
        self.run_within(code, None).await
    }

    /// Runs code with a time limit in milliseconds.
    pub(crate) async fn run_within(&self, code: &str, timeout_ms: Option<u64>) -> Ran {
        let body = RunCode { timeout_ms, ..RunCode::new(code) };
        rest_of(self.client.run_code(&self.sandbox, &self.id, &body).await.unwrap()).await
    }

    /// Begins a run, and returns when it has printed `sign`.
    pub(crate) async fn begin(&self, code: &str, sign: &str) -> RunRecords {
        let body = RunCode::new(code);
        let mut records = self.client.run_code(&self.sandbox, &self.id, &body).await.unwrap();
        let mut ran = Ran::default();
        while !ran.stdout.contains(sign) {
            ran.take(records.next().await.unwrap().unwrap());
            assert_eq!(ran.status, None, "{ran:?}");
        }
        records
    }

    pub(crate) async fn interrupt(&self) -> bool {
        self.client.interrupt_context(&self.sandbox, &self.id).await.unwrap().interrupted
    }

    pub(crate) async fn restart(&self) {
        self.client.restart_context(&self.sandbox, &self.id).await.unwrap();
    }

    pub(crate) async fn close(&self) {
        self.client.close_context(&self.sandbox, &self.id).await.unwrap();
    }
}

/// Reads a run to its end.
pub(crate) async fn rest_of(mut records: RunRecords) -> Ran {
    let mut ran = Ran::default();
    while let Some(record) = records.next().await {
        ran.take(record.unwrap());
    }
    assert!(ran.status.is_some(), "{ran:?}");
    ran
}
