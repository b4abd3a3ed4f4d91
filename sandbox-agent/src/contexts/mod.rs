//! The contexts of the sandbox: interpreters that keep their state between runs of code.
//!
//! Checks ids and limits. A context stays until it is closed, also if its interpreter ends: the next run starts another
//! one. User code shares the interpreter's process, so whatever it does to the interpreter or to its control channel ends
//! only its own context. In reading order: [`context`], [`turn`], [`interpreter`], [`session`], [`run`], [`supervisor`];
//! [`frame`], [`output`] for what a run reports; [`tools`], [`calls`] for the caller's tools.

mod calls;
mod context;
mod frame;
mod interpreter;
mod output;
mod run;
mod session;
mod supervisor;
mod tools;
mod turn;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_protocol::fault::Kind;
use agent_protocol::{MAX_TOOL_VALUE_BYTES, MAX_TOOLS, v1};

use self::context::{Context, RunEvents};
use self::interpreter::Spec;
use self::tools::Tools;
use crate::commands::{check_id, invalid};
use crate::leftovers::{Leftovers, Running};
use crate::limits::{MAX_CODE_BYTES, MAX_CONTEXTS};
use crate::reaper::Reaper;
use crate::secrets::Secrets;
use crate::termination;

/// The contexts of this sandbox.
#[derive(Debug)]
pub(crate) struct Contexts {
    workspace: PathBuf,
    reaper: Arc<Reaper>,
    leftovers: Arc<Leftovers>,
    /// The oldest first.
    table: Mutex<Vec<Arc<Context>>>,
}

impl Contexts {
    pub(crate) fn new(workspace: PathBuf, reaper: Arc<Reaper>, leftovers: &Arc<Leftovers>) -> Arc<Self> {
        let leftovers = Arc::clone(leftovers);
        let contexts = Arc::new(Self { workspace, reaper, leftovers, table: Mutex::default() });
        let set: Arc<dyn Running> = contexts.clone();
        contexts.leftovers.spare(Arc::downgrade(&set));
        contexts
    }

    /// Returns the context with this id.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<Context>, Kind> {
        let found = self.lock().iter().find(|context| context.id() == id).cloned();
        found.ok_or_else(|| Kind::ContextUnknown(v1::ContextUnknown { context_id: id.into() }))
    }

    /// Returns all contexts, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Context>> {
        self.lock().clone()
    }

    /// Opens a context, or returns the one with this id.
    pub(crate) async fn open(&self, request: v1::OpenContextRequest) -> Result<Arc<Context>, Kind> {
        check_id("context_id", &request.context_id)?;
        if request.tools.len() > MAX_TOOLS {
            return Err(Kind::TooMany(v1::TooMany { what: "tools".into(), limit: MAX_TOOLS as u64 }));
        }
        let spec = Spec {
            language: request.language(),
            id: request.context_id,
            cwd: self.directory(&request.cwd),
            env: request.env,
            secrets: Secrets::new(request.secrets),
        };
        let context = {
            let mut table = self.lock();
            if let Some(known) = table.iter().find(|context| context.id() == spec.id) {
                return Ok(Arc::clone(known));
            }
            if table.len() >= MAX_CONTEXTS {
                let limit = v1::LimitReached { limit: "contexts".into(), value: MAX_CONTEXTS as u64 };
                return Err(Kind::LimitReached(limit));
            }
            let context = Context::new(
                spec,
                Tools::new(request.tools),
                Arc::clone(&self.reaper),
                Arc::clone(&self.leftovers),
            );
            // Before its interpreter starts, so that more requests do not start more than the limit.
            table.push(Arc::clone(&context));
            context
        };
        let started = context.start().await;
        if started.is_err() {
            self.drop_context(context.id());
        }
        started.map(|()| context)
    }

    /// Runs code in a context.
    pub(crate) async fn run(&self, request: v1::RunCodeRequest) -> Result<RunEvents, Kind> {
        let context = self.get(&request.context_id)?;
        if request.code.len() > MAX_CODE_BYTES {
            return Err(invalid("code", format!("is longer than {MAX_CODE_BYTES} bytes")));
        }
        if request.code.contains('\0') {
            return Err(invalid("code", "contains NUL".into()));
        }
        context.run(request.code, std::time::Duration::from_millis(request.timeout_ms)).await
    }

    /// Answers a call of a tool.
    pub(crate) fn answer(&self, request: v1::ToolAnswer) -> Result<(), Kind> {
        let context = self.get(&request.context_id)?;
        let outcome = request.outcome.ok_or_else(|| invalid("outcome", "is missing".into()))?;
        if let v1::tool_answer::Outcome::Result(result) = &outcome {
            if result.len() > MAX_TOOL_VALUE_BYTES {
                return Err(invalid("result", format!("is longer than {MAX_TOOL_VALUE_BYTES} bytes")));
            }
            if result.contains(&0) {
                return Err(invalid("result", "contains NUL".into()));
            }
        }
        context.answer(request.call, outcome)
    }

    /// Ends a context and everything that was started from it, and drops it.
    pub(crate) async fn close(&self, id: &str) -> Result<(), Kind> {
        let context = self.get(id)?;
        context.close().await;
        self.drop_context(id);
        Ok(())
    }

    /// The directory of a context. Joined with an empty path, the workspace would end with a slash.
    fn directory(&self, cwd: &str) -> PathBuf {
        if cwd.is_empty() { self.workspace.clone() } else { self.workspace.join(cwd) }
    }

    fn drop_context(&self, id: &str) {
        self.lock().retain(|context| context.id() != id);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Context>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running for Contexts {
    fn targets(&self) -> Vec<Arc<dyn termination::Target + Send + Sync>> {
        let running = self.all().into_iter().filter_map(|context| context.interpreter());
        running.map(|interpreter| interpreter as Arc<dyn termination::Target + Send + Sync>).collect()
    }
}
