//! Error responses: a status and `{"error","code"}`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use bash_tools::{provider, session, tools};
use http::StatusCode;
use http::header::{HeaderName, RETRY_AFTER};
use serde_json::json;

use crate::{oidc, people, store};

/// A response, or an error.
pub(super) type Result<T> = std::result::Result<T, Error>;

/// Why a request failed. Every message is for the user.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The request is invalid.
    #[error("`{field}` {problem}")]
    Invalid {
        field: &'static str,
        /// Rest of a sentence that begins with the field.
        problem: String,
    },
    /// The body has another content type than JSON.
    #[error("the body must be JSON (content-type: application/json)")]
    NotJson,
    /// Too many wrong tokens from one address, with the seconds to wait.
    #[error("too many requests with a wrong token; try again in {0} s")]
    TooManyTokens(u64),
    /// The client is not authorized.
    #[error("this app requires its token, or a request from its own machine")]
    Unauthorized,
    /// The request has no session.
    #[error("sign in first")]
    SignedOut,
    /// Only admins may do this.
    #[error("only an admin may do this")]
    NotAdmin,
    /// The app has no accounts.
    #[error("this app has no accounts; `chat user add` on its machine makes the first one")]
    NoAccounts,
    /// The header that only the app's own page sends is missing.
    #[error("the request has no header `{header}`")]
    NotOwnRequest { header: HeaderName },
    /// The request comes from a page of another origin.
    #[error("the request comes from a page of another origin, or its host is not allowed")]
    Foreign,
    /// The gates are closed.
    #[error("the tools are not available: {0}")]
    ToolsDisabled(bash_tools::gates::Reason),
    /// The resource does not exist.
    #[error("there is no such {what}")]
    NotFound { what: &'static str },
    /// The path does not support the method.
    #[error("this method is not allowed here")]
    Method,
    /// Another operation is running.
    #[error("{what}")]
    Busy { what: String },
    /// The maximum number of chats is answering.
    #[error("{limit} chats are answering at once; try again later")]
    Full { limit: usize },
    /// The maximum number of the user's chats is answering.
    #[error("{limit} of your chats are answering at once; wait until one has ended")]
    FullForUser { limit: usize },
    /// The maximum number of pages receives a stream.
    #[error("{limit} pages are open at once; close one")]
    TooManyPages { limit: usize },
    /// Something exceeds its limit.
    #[error("{what} must be at most {limit} {unit} long")]
    TooLarge { what: &'static str, limit: usize, unit: &'static str },
    /// No model is configured.
    #[error("no model is connected; `/bash <command>` works without one")]
    NoModel,
    /// The sandbox failed.
    #[error("{0}")]
    Sandbox(#[from] tools::Error),
    /// The database failed.
    #[error("the chats cannot be stored at the moment")]
    Store(#[from] store::Error),
    /// A sign-in with the identity provider failed.
    #[error("{0}")]
    Oidc(#[from] oidc::Error),
    /// An act of accounts failed.
    #[error("{0}")]
    People(#[from] people::Error),
}

impl Error {
    fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Invalid { .. } => (StatusCode::BAD_REQUEST, "invalid_request"),
            Self::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type"),
            Self::TooManyTokens(_) => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::SignedOut => (StatusCode::UNAUTHORIZED, "signed_out"),
            Self::NotAdmin => (StatusCode::FORBIDDEN, "forbidden"),
            Self::NoAccounts => (StatusCode::NOT_FOUND, "not_found"),
            Self::Foreign | Self::NotOwnRequest { .. } => (StatusCode::FORBIDDEN, "foreign_origin"),
            Self::ToolsDisabled(_) => (StatusCode::FORBIDDEN, "tools_disabled"),
            Self::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "invalid_request"),
            Self::Busy { .. } => (StatusCode::CONFLICT, "busy"),
            Self::Full { .. } | Self::FullForUser { .. } | Self::TooManyPages { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "capacity_exhausted")
            }
            Self::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Self::NoModel => (StatusCode::UNPROCESSABLE_ENTITY, "no_model"),
            Self::Sandbox(error) => of_sandbox(error),
            Self::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Self::Oidc(oidc::Error::Unavailable(_)) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Self::Oidc(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Self::People(error) => of_people(error),
        }
    }
}

fn of_people(error: &people::Error) -> (StatusCode, &'static str) {
    use people::Error;
    match error {
        Error::WrongPassword => (StatusCode::UNAUTHORIZED, "wrong_password"),
        Error::WrongCurrentPassword => (StatusCode::FORBIDDEN, "wrong_password"),
        Error::Disabled | Error::NotInvited => (StatusCode::FORBIDDEN, "forbidden"),
        Error::BadInvitation => (StatusCode::NOT_FOUND, "not_found"),
        Error::TooManyAttempts { .. } | Error::Busy => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
        Error::Invalid { .. } => (StatusCode::BAD_REQUEST, "invalid_request"),
        Error::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
        Error::Store(store::Error::NameTaken) => (StatusCode::CONFLICT, "already_exists"),
        Error::Store(store::Error::NoAdmin | store::Error::Full { .. }) => (StatusCode::CONFLICT, "refused"),
        Error::Store(_) | Error::Random(_) | Error::Hash(_) | Error::Thread(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
        }
    }
}

fn of_sandbox(error: &tools::Error) -> (StatusCode, &'static str) {
    use provider::Error as Provider;
    match error {
        tools::Error::Provider(Provider::NoFile { .. }) => (StatusCode::NOT_FOUND, "not_found"),
        tools::Error::Provider(Provider::Busy { .. }) => (StatusCode::CONFLICT, "busy"),
        tools::Error::Provider(Provider::Refused { .. }) => (StatusCode::UNPROCESSABLE_ENTITY, "refused"),
        tools::Error::Provider(Provider::Unreadable(_)) => (StatusCode::BAD_REQUEST, "invalid_request"),
        tools::Error::Session(session::Error::AllInUse { .. } | session::Error::ProviderFull(_))
        | tools::Error::Provider(Provider::Full { .. }) => {
            (StatusCode::TOO_MANY_REQUESTS, "capacity_exhausted")
        }
        _ => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, code) = self.status_and_code();
        if status.is_server_error() {
            tracing::warn!(error = %self, cause = ?std::error::Error::source(&self), "a request failed");
        }
        let mut response = (status, Json(json!({ "error": self.to_string(), "code": code }))).into_response();
        let wait_seconds = match &self {
            Self::TooManyTokens(seconds) => Some(*seconds),
            Self::People(people::Error::TooManyAttempts { wait }) => Some(wait.as_secs() + 1),
            _ => None,
        };
        if let Some(seconds) = wait_seconds {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
