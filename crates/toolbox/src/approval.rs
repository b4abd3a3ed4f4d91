//! How the user is asked whether a sandbox may connect to a host that a command was denied.
//!
//! The denied connection has failed, so an answer never affects it. The command may retry, or is run again.

use std::collections::HashMap;

use futures::future::BoxFuture;
use sandbox_api::network::AllowScope;
use sandbox_api::{CommandId, DenialId, SandboxId};
use serde::{Deserialize, Serialize};

/// How the user is asked.
#[derive(Clone, Copy)]
pub enum Approval<'a> {
    /// Not at all. The result names the denied hosts.
    Unavailable,
    /// While the call waits.
    During(&'a dyn Questions),
    /// By the result, after which the call is repeated with the answers.
    ByResult,
}

/// Asks the user while a call waits.
pub trait Questions: Send + Sync {
    /// Asks one question. Dropping the future withdraws it.
    fn ask(&self, question: Question) -> BoxFuture<'_, Answer>;
}

/// Whether a sandbox may connect to a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Id of the denial.
    pub denial: DenialId,
    /// Name or address of the host.
    pub host: String,
    /// Port that was denied.
    pub port: u16,
}

impl Question {
    /// The question in words.
    pub fn text(&self) -> String {
        let Self { host, port, .. } = self;
        format!(
            "A command in the sandbox tried to connect to {host} on port {port}. The sandbox's network policy does not \
             allow it. Allow {host}?"
        )
    }
}

/// What the user has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The host is to be allowed.
    Allow(AllowScope),
    /// The host is not to be allowed.
    Decline,
    /// Nothing.
    None,
}

/// Questions that a result has, and how the call is resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The state that the repeated call needs. It must be protected from changes.
    pub resume: Resume,
}

/// State of a call that waits for answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resume {
    /// The command's sandbox.
    pub sandbox: SandboxId,
    /// The command. It runs, or has ended.
    pub command: CommandId,
    /// Sequence number of the last record before the call.
    pub position: u64,
    /// The questions.
    pub questions: Vec<Question>,
}

/// A call that is repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumed {
    /// What the earlier result has said.
    pub resume: Resume,
    /// Answers to its questions. There is no answer to a question that is missing.
    pub answers: HashMap<DenialId, Answer>,
}
