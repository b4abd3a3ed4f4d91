//! The chat of a request.

use axum::extract::{FromRequestParts, Path};
use bash_tools::Workspace;
use bash_tools::gates::Decision;
use bash_tools::session::{ChatKey, Subject};
use http::HeaderMap;
use http::header::HeaderName;
use http::request::Parts;
use serde::Deserialize;

use super::Api;
use super::caller::Caller;
use super::changes::Changes;
use super::error::{Error, Result};
use crate::account::Owner;
use crate::store::{self, OwnedChats};

/// Prefix of a temporary chat's ticket, which only this app issues.
pub(super) const TICKET: HeaderName = HeaderName::from_static("x-chat-ticket");

/// Maximum length of a chat's id.
const MAX_ID_CHARS: usize = 64;

/// A chat of the caller.
#[derive(Debug, Clone)]
pub(super) struct ChatRef {
    pub(super) id: String,
    pub(super) key: ChatKey,
    /// Whether it is stored, or will be with its first message.
    pub(super) is_kept: bool,
    /// The caller's chats.
    pub(super) chats: OwnedChats,
    /// Whether it is stored already, or temporary.
    exists: bool,
}

impl ChatRef {
    /// Finds a chat of the caller by the id that the page chose, or by the ticket of a temporary chat.
    pub(super) async fn of(api: &Api, caller: &Caller, id: &str, headers: &HeaderMap) -> Result<Self> {
        let bad = |problem: &str| Error::Invalid { field: "id", problem: problem.to_owned() };
        let is_good = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
        if id.is_empty() || id.len() > MAX_ID_CHARS || !id.chars().all(is_good) {
            return Err(bad("must be 1 to 64 letters, digits, - and _"));
        }
        let owner = caller.owner();
        let (id, chats) = (id.to_owned(), api.store.chats_of(owner.clone()));
        let Some(ticket) = headers.get(&TICKET) else {
            let stored = chats.subject(&id).await?;
            let exists = stored.is_some();
            // A chat from before the accounts keeps its sandbox, which has no subject.
            let subject = stored.unwrap_or_else(|| owner.subject().map(|subject| subject.to_string()));
            let key = key_of(&id, subject)?;
            return Ok(Self { id, key, is_kept: true, chats, exists });
        };
        let ticket = ticket.to_str().unwrap_or_default();
        let key = api.temporary.key_of(ticket, owner.subject().as_ref());
        let key = key.map_err(|_| Error::NotFound { what: "temporary chat" })?;
        Ok(Self { id, key, is_kept: false, chats, exists: true })
    }

    /// Finds a stored chat of an owner. `None` if it was deleted.
    pub(super) async fn stored(api: &Api, owner: Owner, id: String) -> Result<Option<Self>> {
        let chats = api.store.chats_of(owner);
        let Some(subject) = chats.subject(&id).await? else { return Ok(None) };
        let key = key_of(&id, subject)?;
        Ok(Some(Self { id, key, is_kept: true, chats, exists: true }))
    }

    /// Tells the pages of the owner that the chat has changed. Only its own page can show a temporary chat.
    pub(super) fn tell(&self, changes: &Changes) {
        if self.is_kept {
            changes.tell(self.chats.owner(), &self.id);
        }
    }

    /// Fails if the chat was never started. A temporary chat exists as long as its ticket.
    pub(super) fn must_exist(&self) -> Result<()> {
        if self.exists { Ok(()) } else { Err(Error::NotFound { what: "chat" }) }
    }
}

/// The key of a stored chat, whose sandbox may belong to a subject.
fn key_of(id: &str, subject: Option<String>) -> Result<ChatKey> {
    let bad = |error: &dyn std::fmt::Display| Error::Invalid { field: "id", problem: error.to_string() };
    let key = ChatKey::chat(id).map_err(|error| bad(&error))?;
    match subject.map(|subject| subject.parse()).transpose() {
        Ok(Some(subject)) => key.of_subject(subject).map_err(|error| bad(&error)),
        Ok(None) => Ok(key),
        Err(_) => Err(store::Error::BadAccount.into()),
    }
}

impl ChatRef {
    /// Whether the sandbox is still that of a chat of any owner. The first admin may have got the chat meanwhile.
    pub(super) async fn has_sandbox(&self, api: &Api) -> Result<bool> {
        let subject = self.key.subject().map(Subject::as_str);
        Ok(!self.is_kept || api.store.has_sandbox(&self.id, subject).await?)
    }
}

/// The chat in a path, which may have other parameters.
#[derive(Debug, Deserialize)]
struct InPath {
    id: String,
}

impl FromRequestParts<Api> for ChatRef {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self> {
        let Path(InPath { id }) = Path::<InPath>::from_request_parts(parts, api)
            .await
            .map_err(|_| Error::Invalid { field: "id", problem: "must be text".into() })?;
        let caller = Caller::from_request_parts(parts, api).await?;
        Self::of(api, &caller, &id, &parts.headers).await
    }
}

/// The sandbox of an existing chat, if the gates are open.
pub(super) struct ChatWorkspace(pub(super) ChatRef, pub(super) Workspace);

impl FromRequestParts<Api> for ChatWorkspace {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self> {
        let chat = ChatRef::from_request_parts(parts, api).await?;
        let Ok(gates) = Decision::from_request_parts(parts, api).await;
        let workspace = workspace_of(api, gates, &chat)?;
        chat.must_exist()?;
        Ok(Self(chat, workspace))
    }
}

fn workspace_of(api: &Api, gates: Decision, chat: &ChatRef) -> Result<Workspace> {
    match (&api.tools, gates) {
        (Some(tools), _) => tools.workspace(gates, chat.key.clone()).map_err(Error::ToolsDisabled),
        (None, Decision::Disabled(reason)) => Err(Error::ToolsDisabled(reason)),
        (None, Decision::Enabled) => Err(Error::ToolsDisabled(bash_tools::gates::Reason::NotConfigured)),
    }
}
