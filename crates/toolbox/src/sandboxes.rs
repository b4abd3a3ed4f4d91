//! Which sandbox a call is for.
//!
//! Every sandbox of a toolbox has a session key in the toolbox's [`Namespace`], so a handle or a session of another
//! client leads nowhere. Keys of chat apps (`chat:`, `tmp:`) are outside every namespace.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::{SandboxId, SessionKey};
use sandbox_client::Client;
use uuid::Uuid;

use crate::Error;
use crate::error::is_gone;
use crate::programs::Programs;

/// Ports that a server in a sandbox may use to be shown by `preview_url`: the defaults of common tools.
pub(crate) const PORTS: [u16; 4] = [3000, 5173, 8000, 8080];

/// Maximum number of sandboxes whose owner is kept.
const MAX_KNOWN: usize = 10_000;

/// The session keys of one client, or of one user of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace(String);

/// Why a text cannot name a session or user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// It is empty.
    #[error("is empty")]
    Empty,
    /// It is a variable of a template that the host did not fill in.
    #[error("contains a variable that the host did not replace (`{{{{` or `${{`)")]
    Unfilled,
    /// It is too long.
    #[error(
        "is too long: client, user and session may have {} bytes together, percent-encoded",
        SessionKey::MAX_BYTES
    )]
    Length,
}

/// Bytes of a name that are percent-encoded. A colon separates the names of a key.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'@');

/// What a session is named after. The same name in two of them means two sandboxes.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A conversation of the host.
    Host,
    /// A name that the model chose.
    Named,
    /// Nothing: the sandbox is found by its handle only.
    Random,
}

impl Namespace {
    /// The namespace of a client, such as the name of its token.
    pub fn new(client: &str) -> Result<Self, NamespaceError> {
        Ok(Self(format!("mcp:{}:", encoded(client)?)))
    }

    /// The namespace of a client's user.
    pub fn for_user(client: &str, user: &str) -> Result<Self, NamespaceError> {
        Ok(Self(format!("mcp:{}:{}", encoded(client)?, encoded(user)?)))
    }

    /// The beginning of the session keys of all users of the client.
    pub fn client(&self) -> &str {
        let end = self.0.match_indices(':').nth(1).map_or(self.0.len(), |(at, _)| at + 1);
        &self.0[..end]
    }

    /// The beginning of its session keys.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks a host's name for a conversation.
    pub fn check(session: &str) -> Result<(), NamespaceError> {
        encoded(session).map(drop)
    }

    fn key(&self, kind: Kind, name: &str) -> Result<String, NamespaceError> {
        let kind = match kind {
            Kind::Host => "host",
            Kind::Named => "name",
            Kind::Random => "id",
        };
        let key = format!("{}:{kind}:{}", self.0, encoded(name)?);
        if key.len() > SessionKey::MAX_BYTES { Err(NamespaceError::Length) } else { Ok(key) }
    }

    /// The session key of a host's conversation.
    pub(crate) fn host_key(&self, session: &str) -> Result<String, NamespaceError> {
        self.key(Kind::Host, session)
    }

    /// The request that creates the sandbox of a host's conversation, or finds it.
    pub fn sandbox_of(&self, session: &str) -> Result<CreateSandbox, NamespaceError> {
        let (session_key, ports) = (self.host_key(session)?, Some(PORTS.map(u32::from).to_vec()));
        Ok(CreateSandbox { session_key, ports, ..CreateSandbox::default() })
    }

    /// The same, with an error for the model.
    pub(crate) fn key_of(&self, session: &str) -> Result<String, Error> {
        self.host_key(session).map_err(bad_session)
    }

    /// Whether a session key is in a namespace of this client or of one of its users.
    pub fn is_of_client(client: &str, key: &str) -> bool {
        let rest = encoded(client).ok().and_then(|client| key.strip_prefix("mcp:")?.strip_prefix(&client));
        rest.is_some_and(|rest| rest.starts_with(':'))
    }

    /// Name of the user, or of a client without users.
    pub(crate) fn owner(&self) -> String {
        let names = self.0.strip_prefix("mcp:").unwrap_or(&self.0).trim_end_matches(':');
        let owner = names.rsplit(':').next().unwrap_or_default();
        percent_decode_str(owner).decode_utf8_lossy().into_owned()
    }

    /// Whether a session key is in this namespace.
    pub fn contains(&self, key: &str) -> bool {
        key.strip_prefix(&self.0).is_some_and(|rest| rest.starts_with(':'))
    }
}

/// Encodes a name, so that it contains no colon.
fn encoded(name: &str) -> Result<String, NamespaceError> {
    let name = name.trim();
    if name.is_empty() {
        return Err(NamespaceError::Empty);
    }
    if name.contains("{{") || name.contains("${") {
        return Err(NamespaceError::Unfilled);
    }
    Ok(utf8_percent_encode(name, ENCODED).to_string())
}

/// The sandboxes that calls were for. It saves a request for most calls.
#[derive(Debug, Default)]
pub(crate) struct Sandboxes {
    known: Mutex<HashMap<String, SandboxId>>,
    owners: Mutex<HashMap<SandboxId, String>>,
    pub(crate) programs: Programs,
}

/// A sandbox that was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) sandbox: SandboxId,
    pub(crate) created: bool,
}

impl Sandboxes {
    /// The sandbox of a host's conversation. Creates it if needed.
    pub(crate) async fn of_session(
        &self,
        client: &Client,
        namespace: &Namespace,
        session: &str,
    ) -> Result<SandboxId, Error> {
        let key = namespace.key_of(session)?;
        if let Some(sandbox) = self.known(&key) {
            return Ok(sandbox);
        }
        Ok(self.open(client, key).await?.sandbox)
    }

    /// The sandbox of a session key, if it was used before.
    pub(crate) fn known(&self, key: &str) -> Option<SandboxId> {
        lock(&self.known).get(key).cloned()
    }

    /// Opens the sandbox with a name, or a new one.
    pub(crate) async fn open_named(
        &self,
        client: &Client,
        namespace: &Namespace,
        name: Option<&str>,
    ) -> Result<Opened, Error> {
        let key = match name {
            Some(name) => namespace
                .key(Kind::Named, name)
                .map_err(|error| Error::Argument { field: "name", problem: error.to_string() })?,
            None => namespace.key(Kind::Random, &Uuid::new_v4().to_string()).map_err(bad_session)?,
        };
        Ok(self.open(client, key).await?)
    }

    /// Opens the sandbox of a host's conversation, even if it was opened before.
    pub(crate) async fn reopen(
        &self,
        client: &Client,
        namespace: &Namespace,
        session: &str,
    ) -> Result<Opened, Error> {
        let key = namespace.key_of(session)?;
        Ok(self.open(client, key).await?)
    }

    /// Creates a sandbox that is found by its handle only. Its session key and its ports are not those of the request.
    pub(crate) async fn open_new(
        &self,
        client: &Client,
        namespace: &Namespace,
        request: CreateSandbox,
    ) -> Result<Opened, Error> {
        let key = namespace.key(Kind::Random, &Uuid::new_v4().to_string()).map_err(bad_session)?;
        Ok(self.open_as(client, key, request).await?)
    }

    /// Opens the sandbox of a session key.
    pub(crate) async fn open(&self, client: &Client, key: String) -> Result<Opened, sandbox_client::Error> {
        self.open_as(client, key, CreateSandbox::default()).await
    }

    async fn open_as(
        &self,
        client: &Client,
        key: String,
        request: CreateSandbox,
    ) -> Result<Opened, sandbox_client::Error> {
        let request =
            CreateSandbox { session_key: key.clone(), ports: Some(PORTS.map(u32::from).to_vec()), ..request };
        let opened = client.create_or_reconnect(&request).await?;
        let image_id = opened.image_id.as_deref().unwrap_or_default();
        self.programs.probe(client, &opened.sandbox_id, image_id).await;
        remember(&self.owners, opened.sandbox_id.clone(), key.clone());
        remember(&self.known, key, opened.sandbox_id.clone());
        Ok(Opened { sandbox: opened.sandbox_id, created: opened.created })
    }

    /// The sandbox of a handle, if it is in the namespace.
    pub(crate) async fn of_handle(
        &self,
        client: &Client,
        namespace: &Namespace,
        handle: &str,
    ) -> Result<SandboxId, Error> {
        let unknown = || Error::UnknownSandbox { handle: handle.to_owned() };
        let sandbox: SandboxId = handle.parse().map_err(|_| unknown())?;
        let known = lock(&self.owners).get(&sandbox).cloned();
        let key = match known {
            Some(key) => key,
            None => match client.get(&sandbox).await {
                Ok(found) => {
                    remember(&self.owners, sandbox.clone(), found.session_key.clone());
                    found.session_key
                }
                Err(error) if is_gone(&error) => return Err(unknown()),
                Err(error) => return Err(error.into()),
            },
        };
        if namespace.contains(&key) { Ok(sandbox) } else { Err(unknown()) }
    }

    /// Removes a sandbox that no longer exists.
    pub(crate) fn forget(&self, sandbox: &SandboxId) {
        if let Some(key) = lock(&self.owners).remove(sandbox) {
            lock(&self.known).remove(&key);
        }
    }
}

fn bad_session(error: NamespaceError) -> Error {
    Error::Session { problem: error.to_string() }
}

fn remember<K: Eq + std::hash::Hash, V>(map: &Mutex<HashMap<K, V>>, key: K, value: V) {
    let mut map = lock(map);
    if map.len() >= MAX_KNOWN {
        map.clear();
    }
    map.insert(key, value);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_two_namespaces_never_meet() {
        let admin = Namespace::new("admin").unwrap();
        let ann = Namespace::for_user("chat", "ann").unwrap();
        let key = ann.key(Kind::Host, "a:b").unwrap();
        assert_eq!(key, "mcp:chat:ann:host:a%3Ab");
        assert!(ann.contains(&key) && !admin.contains(&key));
        let others = [
            Namespace::for_user("chat", "an"),
            Namespace::for_user("chat", "ann:host"),
            Namespace::new("chat"),
        ];
        for other in others {
            assert!(!other.unwrap().contains(&key));
        }
        assert!(!ann.contains("chat:1") && !ann.contains("tmp:1"));
        assert!(Namespace::is_of_client("chat", &key) && !Namespace::is_of_client("cha", &key));
        for stranger in ["chat:ann", "", "mcp"] {
            assert!(!Namespace::is_of_client(stranger, &key), "{stranger}");
        }
        assert_eq!((admin.owner(), ann.owner()), ("admin".to_owned(), "ann".to_owned()));
        assert_eq!(Namespace::for_user("chat", "a:é").unwrap().owner(), "a:é");
        assert_ne!(key, ann.key(Kind::Named, "a:b").unwrap());
    }

    #[test]
    fn every_valid_name_makes_a_session_key() {
        let ann = Namespace::for_user("chat", "ann").unwrap();
        let prefix = "mcp:chat:ann:host:".len();
        let longest = "x".repeat(SessionKey::MAX_BYTES - prefix);
        assert!(ann.key(Kind::Host, &longest).unwrap().parse::<SessionKey>().is_ok());
        assert_eq!(ann.key(Kind::Host, &format!("{longest}x")), Err(NamespaceError::Length));
        let session = ann.key(Kind::Host, " \u{a0}a\nb\u{7f}é ").unwrap();
        assert!(session.parse::<SessionKey>().is_ok(), "{session}");
    }

    #[test]
    fn a_template_that_was_not_filled_in_is_rejected() {
        for session in ["{{LIBRECHAT_BODY_CONVERSATIONID}}", "${CHAT}", "x-{{id}}"] {
            assert_eq!(Namespace::check(session), Err(NamespaceError::Unfilled), "{session}");
        }
        for session in ["", "  "] {
            assert_eq!(Namespace::check(session), Err(NamespaceError::Empty));
        }
    }
}
