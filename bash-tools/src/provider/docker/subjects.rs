//! Clients of subjects: each has a child token of the app's own token, which reaches only what belongs to its subject.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use sandbox_api::ErrorCode;
use sandbox_api::project::{ChildToken, CreateChildToken};
use sandbox_client::Client;

use crate::subject::Subject;

/// Lifetime of a child token, the longest that sandboxd makes: streams that use a token end with it.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of subjects whose tokens are kept. The one that expires first makes room; it is made again when needed.
const MAX_SUBJECTS: usize = 1024;

/// The app's client, and those of its subjects. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Subjects {
    own: Client,
    made: Arc<Mutex<HashMap<Subject, Made>>>,
}

/// A client with a child token.
#[derive(Debug, Clone)]
struct Made {
    client: Client,
    /// Half of its time is over then, so that no command and no transfer outlives its token.
    renew_at: Timestamp,
}

impl Subjects {
    pub(super) fn new(own: Client) -> Self {
        Self { own, made: Arc::default() }
    }

    /// Calls sandboxd with the client of a subject, or with the app's own. A rejected token is replaced once, and the call
    /// repeated: sandboxd has done nothing then.
    pub(super) async fn call<T, F>(
        &self,
        subject: Option<&Subject>,
        call: impl Fn(Client) -> F,
    ) -> Result<T, sandbox_client::Error>
    where
        F: Future<Output = Result<T, sandbox_client::Error>>,
    {
        let client = self.client(subject).await?;
        let result = call(client).await;
        match subject {
            Some(subject) if is_rejected(&result) => {
                self.forget(subject);
                call(self.client(Some(subject)).await?).await
            }
            _ => result,
        }
    }

    /// Same, for a call that cannot be repeated. The next one gets another token.
    pub(super) async fn call_once<T, F>(
        &self,
        subject: Option<&Subject>,
        call: impl FnOnce(Client) -> F,
    ) -> Result<T, sandbox_client::Error>
    where
        F: Future<Output = Result<T, sandbox_client::Error>>,
    {
        let result = call(self.client(subject).await?).await;
        if let Some(subject) = subject.filter(|_| is_rejected(&result)) {
            self.forget(subject);
        }
        result
    }

    /// Returns the client of a subject, or the app's own, whose token outlives every command.
    pub(super) async fn client(&self, subject: Option<&Subject>) -> Result<Client, sandbox_client::Error> {
        let Some(subject) = subject else { return Ok(self.own.clone()) };
        let known = self.made().get(subject).cloned();
        if let Some(made) = known.filter(|made| Timestamp::now() < made.renew_at) {
            return Ok(made.client);
        }
        // Two callers may make one each at the same time. Both are valid, and one is kept.
        let (now, child) = (Timestamp::now(), self.make(subject).await?);
        let half = child.expires_at.duration_since(now) / 2;
        let renew_at = now.checked_add(half).unwrap_or(now);
        let made = Made { client: self.own.with_token(child.token), renew_at };
        self.keep(subject, made.clone());
        Ok(made.client)
    }

    /// Makes a child token for [`LIFETIME`]. If the app's own token expires sooner, that is forbidden, and it is made for as
    /// long as sandboxd likes.
    async fn make(&self, subject: &Subject) -> Result<ChildToken, sandbox_client::Error> {
        let request = CreateChildToken {
            subject: Some(subject.as_str().to_owned()),
            scopes: Some(vec!["use".to_owned()]),
            ttl_ms: Some(u64::try_from(LIFETIME.as_millis()).unwrap_or(u64::MAX)),
            ..CreateChildToken::default()
        };
        match self.own.create_child_token(&request).await {
            Err(error) if error.code() == Some(ErrorCode::Forbidden) => {
                self.own.create_child_token(&CreateChildToken { ttl_ms: None, ..request }).await
            }
            made => made,
        }
    }

    fn keep(&self, subject: &Subject, new: Made) {
        let mut made = self.made();
        if !made.contains_key(subject) && made.len() >= MAX_SUBJECTS {
            let first = made.iter().min_by_key(|(_, made)| made.renew_at).map(|(subject, _)| subject.clone());
            first.and_then(|first| made.remove(&first));
        }
        made.insert(subject.clone(), new);
    }

    fn forget(&self, subject: &Subject) {
        self.made().remove(subject);
    }

    fn made(&self) -> MutexGuard<'_, HashMap<Subject, Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_rejected<T>(result: &Result<T, sandbox_client::Error>) -> bool {
    matches!(result, Err(error) if error.code() == Some(ErrorCode::Unauthenticated))
}

#[cfg(test)]
mod tests {
    use sandbox_api::sandbox::{CreateSandbox, ListSandboxes};
    use test_daemon::Daemon;

    use super::*;

    async fn keys(subjects: &Subjects, subject: Option<&Subject>) -> Result<usize, sandbox_client::Error> {
        let which = &ListSandboxes::default();
        let list = |client: Client| async move { client.list(which).await };
        Ok(subjects.call(subject, list).await?.sandboxes.len())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_rejected_token_is_replaced_once() {
        let daemon = Daemon::start().await;
        let subjects = Subjects::new(daemon.client.clone());
        let [ann, bob]: [Subject; 2] = ["ann", "bob"].map(|name| name.parse().unwrap());
        let request = &CreateSandbox { session_key: "1".into(), ..CreateSandbox::default() };
        let create = |client: Client| async move { client.create_or_reconnect(request).await };
        assert!(subjects.call(Some(&ann), create).await.unwrap().created);
        assert_eq!(keys(&subjects, Some(&ann)).await.unwrap(), 1);
        assert_eq!(keys(&subjects, Some(&bob)).await.unwrap(), 0);
        assert_eq!(keys(&subjects, None).await.unwrap(), 1, "the app's own token finds all");

        let renew_at = Timestamp::MAX;
        let rejected = || Made { client: daemon.client.with_token("sbc_of_before"), renew_at };
        subjects.keep(&ann, rejected());
        assert_eq!(keys(&subjects, Some(&ann)).await.unwrap(), 1);
        assert!(subjects.made()[&ann].renew_at < renew_at, "another one was kept");
        subjects.keep(&ann, rejected());
        let get = |client: Client| async move { client.list(&ListSandboxes::default()).await };
        assert!(subjects.call_once(Some(&ann), get).await.is_err(), "this call cannot be repeated");
        assert_eq!(keys(&subjects, Some(&ann)).await.unwrap(), 1, "the next one has a new token");

        let app = Subjects::new(daemon.client.with_token("wrong"));
        assert!(keys(&app, Some(&ann)).await.is_err(), "the app's own token is rejected");
    }

    #[tokio::test]
    async fn few_clients_are_kept() {
        let subjects = Subjects::new(Client::new("http://127.0.0.1:1", "token").unwrap());
        for n in 0..MAX_SUBJECTS + 10 {
            let renew_at = Timestamp::from_second(n as i64).unwrap();
            let made = Made { client: subjects.own.clone(), renew_at };
            subjects.keep(&n.to_string().parse().unwrap(), made);
        }
        let made = subjects.made();
        assert_eq!(made.len(), MAX_SUBJECTS);
        assert!(made.values().all(|made| made.renew_at.as_second() >= 10), "the oldest made room");
    }
}
