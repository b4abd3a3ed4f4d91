//! Python code of the model, in an interpreter that keeps its state, and the functions of the app that the code can call.

mod host_tool;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use sandbox_api::tool::Tool;

pub(super) use host_tool::error as no_answer;
pub use host_tool::{HostCall, HostTool};

use self::turns::{Turn, Turns};
use super::{Callable, Result};
use crate::provider::{Error, Interpreters, Provider, RunningCode, SandboxId};

/// The tool `python` of an app, for all its chats: one interpreter for each sandbox. Cheap to clone; all clones share the
/// interpreters.
#[derive(Debug, Clone, Default)]
pub struct Python {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    host_tools: Vec<HostTool>,
    /// The same for sandboxd.
    tools: Vec<Tool>,
    turns: Turns,
}

impl Python {
    /// Creates the tool. Code can call the functions: at most 128, with different names. sandboxd checks them when the first
    /// code runs.
    pub fn new(host_tools: impl IntoIterator<Item = HostTool>) -> Self {
        let host_tools: Vec<HostTool> = host_tools.into_iter().collect();
        let tools = host_tools.iter().map(|host_tool| host_tool.tool().clone()).collect();
        Self { shared: Arc::new(Shared { host_tools, tools, turns: Turns::default() }) }
    }

    /// Returns what a model needs to know of the functions.
    pub fn callables(&self) -> Vec<Callable> {
        let callable =
            |tool: &Tool| Callable { name: tool.name.clone(), description: tool.description.clone() };
        self.shared.tools.iter().map(callable).collect()
    }

    pub(super) fn host_tool(&self, name: &str) -> Option<&HostTool> {
        self.shared.host_tools.iter().find(|host_tool| host_tool.tool().name == name)
    }

    /// Starts code in the interpreter of a sandbox, after the code that runs in it.
    pub(super) async fn start(
        &self,
        provider: &dyn Provider,
        sandbox: &SandboxId,
        code: &str,
        timeout: Duration,
    ) -> Result<Begun> {
        let interpreters = of(provider)?;
        let mut turn = self.shared.turns.take(sandbox).await;
        let mut is_lost = false;
        if let Some(interpreter) = &*turn {
            if let Some(code) = interpreters.run_code(sandbox, interpreter, code, timeout).await? {
                return Ok(Begun { code, is_restarted: false, turn });
            }
            is_lost = true;
        }
        let interpreter = turn.insert(interpreters.start(sandbox, &self.shared.tools).await?);
        match interpreters.run_code(sandbox, interpreter, code, timeout).await? {
            Some(code) => Ok(Begun { code, is_restarted: is_lost, turn }),
            None => Err(Error::Unavailable { message: "the new interpreter has ended".into() }.into()),
        }
    }
}

/// Code that runs, and the turn in which it does.
pub(super) struct Begun {
    pub(super) code: RunningCode,
    /// Whether the interpreter of the previous code was gone.
    pub(super) is_restarted: bool,
    pub(super) turn: Turn,
}

pub(super) fn of(provider: &dyn Provider) -> Result<&dyn Interpreters> {
    let none = || Error::Refused { message: "this provider has no Python interpreters".into() };
    Ok(provider.interpreters().ok_or_else(none)?)
}
