//! The chat of a request.

use axum::extract::{FromRequestParts, Path};
use bash_tools::Workspace;
use bash_tools::gates::Decision;
use bash_tools::session::ChatKey;
use http::HeaderMap;
use http::header::HeaderName;
use http::request::Parts;

use super::Api;
use super::error::{Error, Result};

/// Prefix of a temporary chat's ticket, which only this app issues.
pub(super) const TICKET: HeaderName = HeaderName::from_static("x-chat-ticket");

/// Maximum length of a chat's id.
const MAX_ID_CHARS: usize = 64;

/// A chat, and whether it is stored.
#[derive(Debug, Clone)]
pub(super) struct ChatRef {
    pub(super) id: String,
    pub(super) key: ChatKey,
    pub(super) is_kept: bool,
}

impl ChatRef {
    /// Parses the id that the page chose, or the ticket of a temporary chat.
    pub(super) fn of(api: &Api, id: &str, headers: &HeaderMap) -> Result<Self> {
        let bad = |problem: &str| Error::Invalid { field: "id", problem: problem.to_owned() };
        let is_good = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
        if id.is_empty() || id.len() > MAX_ID_CHARS || !id.chars().all(is_good) {
            return Err(bad("must be 1 to 64 letters, digits, - and _"));
        }
        let Some(ticket) = headers.get(&TICKET) else {
            let key = ChatKey::chat(id).map_err(|error| bad(&error.to_string()))?;
            return Ok(Self { id: id.to_owned(), key, is_kept: true });
        };
        let ticket = ticket.to_str().unwrap_or_default();
        let key = api.temporary.key(ticket).map_err(|_| Error::NotFound { what: "temporary chat" })?;
        Ok(Self { id: id.to_owned(), key, is_kept: false })
    }

    /// Fails if the chat was never started. A temporary chat exists as long as its ticket.
    pub(super) async fn must_exist(&self, api: &Api) -> Result<()> {
        match !self.is_kept || api.store.has_chat(&self.id).await? {
            true => Ok(()),
            false => Err(Error::NotFound { what: "chat" }),
        }
    }
}

impl FromRequestParts<Api> for ChatRef {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self> {
        let Path(id) = Path::<String>::from_request_parts(parts, api)
            .await
            .map_err(|_| Error::Invalid { field: "id", problem: "must be text".into() })?;
        Self::of(api, &id, &parts.headers)
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
        chat.must_exist(api).await?;
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
