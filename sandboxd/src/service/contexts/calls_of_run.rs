//! The calls of tools by the code of one run: from the agent's report to the client, and until they are over.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use sandbox_api::tool::{ToolCallStatus, ToolErrorType};
use sandbox_api::{CommandId, ContextId};
use tracing::debug;

use super::Contexts;
use super::open_calls::{CallKey, OpenCall};
use super::toolset::Toolset;
use crate::agent::AgentHandle;
use crate::model::context::RunSpec;
use crate::model::tool::{ToolCall, ToolOutcome};
use crate::model::{Principal, limits};
use crate::service::clock::now_ms;
use crate::service::lifecycle::{InUse, Sandbox};

/// The calls of a run. Dropping them ends those that are open.
pub(super) struct CallsOfRun {
    contexts: Arc<Contexts>,
    agent: AgentHandle,
    sandbox: Arc<Sandbox>,
    run: CommandId,
    context: ContextId,
    by: Arc<Principal>,
    /// Loaded when the first tool is called.
    tools: Option<Toolset>,
    open: HashSet<u64>,
}

impl CallsOfRun {
    pub(super) fn new(contexts: &Arc<Contexts>, in_use: &InUse, spec: &RunSpec, by: &Arc<Principal>) -> Self {
        Self {
            contexts: Arc::clone(contexts),
            agent: in_use.agent().clone(),
            sandbox: Arc::clone(in_use.sandbox()),
            run: spec.id.clone(),
            context: spec.context.clone(),
            by: Arc::clone(by),
            tools: None,
            open: HashSet::new(),
        }
    }

    /// Opens a call that the agent reports. Returns `None` if the call is wrong. The code gets an error then.
    pub(super) async fn begin(&mut self, call: u64, name: String, arguments: &Bytes) -> Option<ToolCall> {
        match self.checked(call, name, arguments).await {
            Ok(opened) => Some(opened),
            Err(message) => {
                let outcome = ToolOutcome::Error { kind: ToolErrorType::ValidationError, message };
                if let Err(error) = self.agent.answer_tool_call(&self.context, call, outcome).await {
                    debug!(context = %self.context, call, error = &error as &dyn std::error::Error, "could not refuse a call");
                }
                None
            }
        }
    }

    async fn checked(&mut self, call: u64, name: String, arguments: &Bytes) -> Result<ToolCall, String> {
        if self.open.len() >= limits::MAX_WAITING_TOOL_CALLS {
            self.forget_answered();
        }
        // The agent has these limits too, but it is in the sandbox.
        if self.open.len() >= limits::MAX_WAITING_TOOL_CALLS || self.open.contains(&call) {
            return Err("too many calls wait for an answer".into());
        }
        if arguments.len() > limits::MAX_TOOL_VALUE_BYTES {
            return Err(format!("the arguments are longer than {} bytes", limits::MAX_TOOL_VALUE_BYTES));
        }
        let (tool, offered) = self.tools().await?.find(&name)?;
        let timeout = tool.timeout;
        let value = offered.arguments(arguments)?;
        let open = OpenCall {
            by: Arc::clone(&self.by),
            tool: offered,
            run: self.run.clone(),
            name: name.clone(),
            arguments: beginning(arguments),
            timeout,
            started_at_ms: now_ms(),
            began: Instant::now(),
        };
        self.contexts.open_calls.add(self.key(call), open);
        self.open.insert(call);
        Ok(ToolCall { call, name, arguments: value, timeout })
    }

    async fn tools(&mut self) -> Result<&mut Toolset, String> {
        if self.tools.is_none() {
            let tools = self.agent.tools(&self.context).await;
            let tools = tools.map_err(|error| format!("the tools are unavailable: {error}"))?;
            self.tools = Some(Toolset::new(tools));
        }
        Ok(self.tools.as_mut().expect("they were just loaded"))
    }

    /// Ends a call whose time is over.
    pub(super) fn expire(&mut self, call: u64) {
        if self.open.remove(&call) {
            self.end(call, ToolCallStatus::Timeout);
        }
    }

    /// Ends a call, unless it was answered.
    fn end(&self, call: u64, status: ToolCallStatus) {
        let key = self.key(call);
        if let Some(open) = self.contexts.open_calls.take(&key) {
            self.contexts.history.note_call(self.sandbox.ledger(), &open.ended(&key), status);
        }
    }

    fn forget_answered(&mut self) {
        let answered: Vec<u64> = self
            .open
            .iter()
            .copied()
            .filter(|call| self.contexts.open_calls.find(&self.key(*call)).is_none())
            .collect();
        for call in answered {
            self.open.remove(&call);
        }
    }

    fn key(&self, call: u64) -> CallKey {
        (self.sandbox.id().clone(), self.context.clone(), call)
    }
}

impl Drop for CallsOfRun {
    fn drop(&mut self) {
        for call in &self.open {
            self.end(*call, ToolCallStatus::RunOver);
        }
    }
}

/// What is kept of the arguments for the history.
fn beginning(arguments: &Bytes) -> String {
    let kept = &arguments[..arguments.len().min(limits::MAX_RECORDED_PROGRAM_BYTES)];
    String::from_utf8_lossy(kept).into_owned()
}
