//! Which sandbox a request is for.

use axum::extract::{FromRef, FromRequestParts};
use http::HeaderMap;
use http::request::Parts;
use sandbox_api::SandboxId;
use sandbox_client::Client;
use surface_caller::{Caller, Conversation, Shared};
use toolbox::{Namespace, Session};

use crate::failure::Failure;

/// Header that names the user.
const USER: &str = "x-user-id";

/// Header that names the chat.
const CHAT: &str = "x-session-id";

/// Header that names what a terminal belongs to, as `chat:<id>` or `automation:<id>`. It has precedence over [`CHAT`],
/// because an automation may run in a chat.
const CONTEXT: &str = "x-terminal-context-id";

const NO_CHAT: &str = "this request names no chat: the header `X-Session-Id` is missing. In Open WebUI, send a first \
    message, so that the chat is saved and has an id";

/// The chat of a request, and its caller.
pub(crate) struct Chat {
    pub(crate) session: Session,
    pub(crate) client: Client,
    /// The same for work that may outlive the caller's connection.
    pub(crate) background: Client,
}

/// The caller of a request that needs no chat.
pub(crate) struct Visitor {
    pub(crate) caller: Caller,
    /// Sandboxes of the user.
    pub(crate) namespace: Namespace,
}

impl Chat {
    /// The chat's running sandbox. Creates it if there is none.
    pub(crate) async fn open(&self) -> Result<SandboxId, Failure> {
        Ok(self.session.open().await?)
    }

    /// The chat's sandbox, if it has one.
    pub(crate) async fn find(&self) -> Result<Option<SandboxId>, Failure> {
        Ok(self.session.find().await?)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Chat
where
    Shared: FromRef<S>,
{
    type Rejection = Failure;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Self, Failure> {
        let shared = Shared::from_ref(state);
        let caller = shared.callers.caller(head);
        let conversation = conversation(&caller.token_name, &head.headers)?;
        let name = conversation.session.ok_or_else(|| Failure::bad_request(NO_CHAT))?;
        let Caller { client, background, .. } = caller;
        let session = Session::new(client.clone(), &conversation.namespace, &name, &shared.memory)
            .map_err(|error| Failure::bad_request(format_args!("the chat's id {error}")))?;
        Ok(Self { session, client, background })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor
where
    Shared: FromRef<S>,
{
    type Rejection = Failure;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Self, Failure> {
        let shared = Shared::from_ref(state);
        let caller = shared.callers.caller(head);
        let namespace = conversation(&caller.token_name, &head.headers)?.namespace;
        Ok(Self { caller, namespace })
    }
}

/// The namespace of the user whom a request names, if it names one.
pub(crate) fn user_of(token_name: &str, headers: &HeaderMap) -> Result<Option<Namespace>, Failure> {
    if headers.get(USER).is_none_or(|user| user.is_empty()) {
        return Ok(None);
    }
    let conversation = Conversation::named_by(token_name, headers, &[USER], &[]);
    Ok(Some(conversation.map_err(Failure::bad_request)?.namespace))
}

/// Reads user and chat from the headers of a request.
fn conversation(token_name: &str, headers: &HeaderMap) -> Result<Conversation, Failure> {
    let mut conversation =
        Conversation::named_by(token_name, headers, &[USER], &[CHAT]).map_err(Failure::bad_request)?;
    if let Some(context) = headers.get(CONTEXT) {
        let context = String::from_utf8_lossy(context.as_bytes());
        let name = match context.split_once(':') {
            Some(("chat", chat)) => chat,
            Some(("automation", _)) => &*context,
            _ => return Err(Failure::bad_request(bad_context("must be `chat:` or `automation:` and an id"))),
        };
        let id = context.split_once(':').map_or("", |(_, id)| id);
        Namespace::check(id).map_err(|error| Failure::bad_request(bad_context(&error.to_string())))?;
        conversation.session = Some(name.to_owned());
    }
    Ok(conversation)
}

fn bad_context(problem: &str) -> String {
    format!("the header `{CONTEXT}` {problem}")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn session(headers: &[(&'static str, &'static str)]) -> Result<Option<String>, String> {
        let pairs = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)));
        let read = conversation("admin", &pairs.collect());
        read.map(|conversation| conversation.session).map_err(|failure| failure.detail().to_owned())
    }

    #[test]
    fn the_chat_is_named_by_either_header() {
        let chat = Ok(Some("42".to_owned()));
        assert_eq!(session(&[(CHAT, "42")]), chat);
        assert_eq!(session(&[(CONTEXT, "chat:42")]), chat);
        assert_eq!(session(&[(CHAT, "7"), (CONTEXT, "chat:42")]), chat);
        assert_eq!(session(&[(CHAT, "42"), (CONTEXT, "automation:9")]), Ok(Some("automation:9".into())));
        assert_eq!(session(&[]), Ok(None));
    }

    #[test]
    fn a_header_that_names_nothing_is_rejected() {
        for headers in
            [(CHAT, ""), (CHAT, "{{id}}"), (CONTEXT, "chat:"), (CONTEXT, "chat:${x}"), (CONTEXT, "user:1")]
        {
            let error = session(&[headers]).unwrap_err();
            assert!(error.contains(headers.0), "{headers:?}: {error}");
        }
    }
}
