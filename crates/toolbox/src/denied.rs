//! The hosts that a command was denied while a call waits for it, and the questions about them.
//!
//! Denials are a sandbox's. So those of a call's command are the ones that happen while it runs.

mod follow;

use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::FuturesUnordered;
use sandbox_api::network::{AllowScope, Denial};
use sandbox_api::{CommandId, SandboxId};
use sandbox_client::Client;
use tokio::time::{Instant, sleep_until, timeout};

use self::follow::Follow;
use crate::approval_log::{ApprovalLog, AskDecision};
use crate::toolbox::{Call, Toolbox};
use crate::{Answer, Approval, Pending, Question, Resume, Resumed, output};

/// How long a command runs before its sandbox's denials are followed. Most commands have ended by then.
const FOLLOW_AFTER: Duration = Duration::from_millis(100);

/// Maximum time to look at the denials when the command has ended.
const LOOK: Duration = Duration::from_secs(5);

/// Minimum time to answer while the call waits. With less time left, the user is not asked.
const MIN_ANSWER: Duration = Duration::from_secs(5);

/// Time from a denial until a result asks about it and those that follow.
const COLLECT: Duration = Duration::from_millis(250);

/// Maximum number of denied hosts in a result.
const MAX_HOSTS: usize = 20;

/// The hosts that the command of a call was denied.
pub(crate) struct DeniedHosts<'a> {
    client: Client,
    approval_log: &'a ApprovalLog,
    sandbox: SandboxId,
    command: CommandId,
    approval: Approval<'a>,
    /// When the call returns and withdraws its questions. `None` if it does not wait, so the user is not asked.
    until: Option<Instant>,
    follow: Follow,
    hosts: Vec<DeniedHost>,
    /// Answers that are awaited, with the index of their host.
    answers: FuturesUnordered<BoxFuture<'a, (usize, Outcome)>>,
    /// When a result asks.
    ask_at: Option<Instant>,
}

#[derive(Debug)]
struct DeniedHost {
    question: Question,
    outcome: Outcome,
}

/// Outcome of a denied host.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    NotAsked,
    Pending,
    Allowed(AllowScope),
    Declined,
    Unanswered,
    /// With the daemon's reason.
    NotAllowable(String),
}

/// Events while a call waits.
enum Step {
    Denied(Vec<Denial>),
    Answered(usize, Outcome),
    Due,
}

impl<'a> DeniedHosts<'a> {
    /// Hosts that a command is denied since `began`, or since an earlier call has found out about the command.
    pub(crate) fn new(
        toolbox: &'a Toolbox,
        sandbox: &SandboxId,
        command: &CommandId,
        began: Instant,
        wait: Duration,
        call: &Call<'a>,
    ) -> Self {
        let now = Instant::now();
        Self {
            client: toolbox.client.clone(),
            approval_log: toolbox.approval_log(),
            sandbox: sandbox.clone(),
            command: command.clone(),
            approval: call.approval,
            until: (!wait.is_zero()).then(|| now + wait),
            follow: Follow::new(now + FOLLOW_AFTER, toolbox.approval_log().begin(sandbox, command, began)),
            hosts: Vec::new(),
            answers: FuturesUnordered::new(),
            ask_at: None,
        }
    }

    /// Applies the answers to the questions of an earlier result.
    pub(crate) async fn apply(&mut self, resumed: &Resumed) {
        for question in resumed.resume.questions.iter().take(MAX_HOSTS) {
            let answer = resumed.answers.get(&question.denial).copied().unwrap_or(Answer::None);
            let outcome = outcome_of(&self.client, &self.sandbox, question, answer).await;
            self.hosts.push(DeniedHost { question: question.clone(), outcome });
        }
    }

    /// Waits for a denial or an answer. Loses nothing if it is dropped while it waits.
    pub(crate) async fn advance(&mut self) {
        let Self { client, sandbox, follow, answers, ask_at, .. } = self;
        let due = async {
            match *ask_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let step = tokio::select! {
            Some((index, outcome)) = answers.next(), if !answers.is_empty() => Step::Answered(index, outcome),
            denials = follow.next(client, sandbox) => Step::Denied(denials),
            () = due => Step::Due,
        };
        match step {
            Step::Denied(denials) => denials.into_iter().for_each(|denial| self.add(denial)),
            Step::Answered(index, outcome) => self.hosts[index].outcome = outcome,
            Step::Due => {}
        }
    }

    /// Finds the denials up to the command's end, which has come.
    pub(crate) async fn settle(&mut self) {
        self.follow.restart();
        let found = timeout(LOOK, self.follow.next(&self.client, &self.sandbox)).await;
        found.into_iter().flatten().for_each(|denial| self.add(denial));
        self.follow.stop();
    }

    /// Looks for no more denials: the command has ended, and there were none since it started.
    pub(crate) fn stop(&mut self) {
        self.follow.stop();
    }

    fn add(&mut self, denial: Denial) {
        let Denial { id, host, port, allowable, .. } = denial;
        let name = name_of(&host, port);
        let is_known =
            self.hosts.iter().any(|known| name_of(&known.question.host, known.question.port) == name);
        let Some(id) = id.filter(|_| allowable && !is_known && self.hosts.len() < MAX_HOSTS) else { return };
        let question = Question { denial: id, host, port };
        if let Some(outcome) = self.ask(&question, &name) {
            self.hosts.push(DeniedHost { question, outcome });
        }
    }

    /// Asks about a host, if possible. Returns `None` if an earlier call has asked.
    fn ask(&mut self, question: &Question, name: &str) -> Option<Outcome> {
        let can_ask = self.until.is_some_and(|until| match self.approval {
            Approval::Unavailable => false,
            Approval::During(_) => Instant::now() + MIN_ANSWER <= until,
            Approval::ByResult => true,
        });
        if !can_ask {
            return Some(Outcome::NotAsked);
        }
        match self.approval_log.ask(&self.sandbox, &self.command, name) {
            AskDecision::Before => return None,
            AskDecision::TooMany => return Some(Outcome::NotAsked),
            AskDecision::Now => {}
        }
        match self.approval {
            Approval::Unavailable => return Some(Outcome::NotAsked),
            Approval::ByResult => {
                self.ask_at.get_or_insert_with(|| Instant::now() + COLLECT);
            }
            Approval::During(questions) => {
                let (client, sandbox, question) =
                    (self.client.clone(), self.sandbox.clone(), question.clone());
                let index = self.hosts.len();
                let answered = async move {
                    let answer = questions.ask(question.clone()).await;
                    (index, outcome_of(&client, &sandbox, &question, answer).await)
                };
                self.answers.push(answered.boxed());
            }
        }
        Some(Outcome::Pending)
    }

    /// Whether the call waits for an answer.
    pub(crate) fn awaits_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Whether the result must ask now. `is_over` says that the call would return.
    pub(crate) fn is_due(&self, is_over: bool) -> bool {
        self.ask_at.is_some_and(|at| is_over || Instant::now() >= at)
    }

    /// The questions of a result. `position` is that of the last record before the call.
    pub(crate) fn pending(self, position: u64) -> Pending {
        let pending = self.hosts.into_iter().filter(|host| host.outcome == Outcome::Pending);
        let questions = pending.map(|host| host.question).collect();
        Pending { resume: Resume { sandbox: self.sandbox, command: self.command, position, questions } }
    }

    /// Whether hosts were denied that the user could allow, but cannot be asked about.
    pub(crate) fn are_unapprovable(&self) -> bool {
        matches!(self.approval, Approval::Unavailable) && !self.hosts.is_empty()
    }

    /// The hosts as part of a result.
    pub(crate) fn into_output(self) -> Vec<output::DeniedHost> {
        let sandbox = self.sandbox;
        self.hosts.into_iter().map(|host| host.into_output(&sandbox)).collect()
    }
}

impl DeniedHost {
    fn into_output(self, sandbox: &SandboxId) -> output::DeniedHost {
        let Question { denial, host, port } = self.question;
        let (outcome, message) = match self.outcome {
            Outcome::NotAsked => (
                output::Approval::NotAsked,
                format!(
                    "the network policy does not allow it. Do not retry: ask the user to allow it, with `sandboxd network \
                     {sandbox} --allow-denied {denial}` or in the settings of the sandbox's network"
                ),
            ),
            Outcome::Allowed(scope) => {
                let (approval, until) = match scope {
                    AllowScope::Once => (output::Approval::AllowedOnce, "for one use"),
                    AllowScope::Sandbox => (output::Approval::AllowedForSandbox, "for this sandbox"),
                };
                let again = "What it was needed for has failed: run that again";
                (approval, format!("the user has now allowed it {until}. {again}"))
            }
            Outcome::Declined => {
                (output::Approval::Declined, "the user does not allow it. Do not retry".to_owned())
            }
            Outcome::Pending | Outcome::Unanswered => (
                output::Approval::Unanswered,
                "the user was asked to allow it and has not answered. Do not retry".to_owned(),
            ),
            Outcome::NotAllowable(reason) => (output::Approval::NotAllowed, reason),
        };
        output::DeniedHost { host, port, approval: outcome, message }
    }
}

/// Allows a host if this is the answer.
async fn outcome_of(client: &Client, sandbox: &SandboxId, question: &Question, answer: Answer) -> Outcome {
    let scope = match answer {
        Answer::Allow(scope) => scope,
        Answer::Decline => return Outcome::Declined,
        Answer::None => return Outcome::Unanswered,
    };
    match client.allow_denied(sandbox, &question.denial, scope).await {
        Ok(_) => Outcome::Allowed(scope),
        Err(error) => Outcome::NotAllowable(crate::Error::from(error).to_string()),
    }
}

/// A host, with its port unless the rule that allows it covers both ports of the web.
fn name_of(host: &str, port: u16) -> String {
    match port {
        80 | 443 => host.to_owned(),
        _ => format!("{host}:{port}"),
    }
}
