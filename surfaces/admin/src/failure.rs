//! Why a page cannot be shown, and the page that says so.

use std::error::Error as StdError;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{LOCATION, RETRY_AFTER, SET_COOKIE};
use maud::html;
use sandbox_api::ErrorCode;
use sandbox_client::Error as ClientError;
use tracing::warn;

use crate::document;
use crate::form::BadForm;
use crate::limits::MAX_FORM_BYTES;
use crate::origin::OtherOrigin;
use crate::session::cookie;

/// Why a page cannot be shown.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no session, or it has ended.
    SignedOut { is_secure: bool },
    /// Several cookies have the name of the session's.
    SeveralCookies,
    /// The page of another origin has sent the request.
    OtherOrigin,
    /// The form does not belong to the session.
    WrongForm,
    /// The body of a form cannot be used.
    Form(BadForm),
    /// There is no such thing, or the session's token cannot see it.
    Unknown(&'static str),
    /// The page does not exist.
    NoPage,
    /// The page does not support the method.
    Method,
    /// The API has refused a request.
    Api(Box<ClientError>),
    /// The system provides no random bytes.
    NoRandom(getrandom::Error),
}

/// A sentence about a field of a form, or about all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// Name of the field in the API's request.
    pub(crate) field: Option<String>,
    pub(crate) message: String,
}

impl Problem {
    /// A problem that the page itself has found.
    pub(crate) fn of_field(field: &str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, field: Some(field.into()), message: message.into() }
    }

    /// What the user can change, if the API has refused a form because of that.
    pub(crate) fn of(error: ClientError) -> Result<Self, Failure> {
        let ClientError::Refused { status, body, .. } = &error else { return Err(error.into()) };
        match body.code {
            ErrorCode::Unauthenticated | ErrorCode::NotFound | ErrorCode::Internal => Err(error.into()),
            _ => Ok(Self {
                status: StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_REQUEST),
                field: body.details.get("field").and_then(|field| field.as_str()).map(str::to_owned),
                message: sentence(&body.error),
            }),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Api(Box::new(error))
    }
}

impl From<getrandom::Error> for Failure {
    fn from(error: getrandom::Error) -> Self {
        Self::NoRandom(error)
    }
}

impl From<OtherOrigin> for Failure {
    fn from(_: OtherOrigin) -> Self {
        Self::OtherOrigin
    }
}

impl From<BadForm> for Failure {
    fn from(error: BadForm) -> Self {
        Self::Form(error)
    }
}

/// A message of the API as a sentence.
pub(crate) fn sentence(message: &str) -> String {
    let mut chars = message.chars();
    let first: String = chars.next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
    let end = if message.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

/// The display name of a resource in the API's errors.
fn resource_of(error: &ClientError) -> &'static str {
    let resource = error.body().and_then(|body| body.details.get("resource")?.as_str());
    match resource {
        Some("project") => "project",
        Some("sandbox") => "sandbox",
        Some("token") => "token",
        _ => "page",
    }
}

fn of_api(error: &ClientError) -> (StatusCode, &'static str, String) {
    let ClientError::Refused { status, body, .. } = error else {
        // The daemon has logged what it refused, but not this.
        warn!(error = error as &dyn StdError, "a request of the admin page failed");
        return (StatusCode::BAD_GATEWAY, "The daemon does not respond", sentence(&error.to_string()));
    };
    let title = match body.code {
        ErrorCode::Forbidden => "Not permitted",
        ErrorCode::NotFound => {
            return (StatusCode::NOT_FOUND, "Not found", no_such(resource_of(error)));
        }
        ErrorCode::RateLimited => "Too many requests",
        ErrorCode::Unavailable => "Not available",
        _ => "The daemon refused this",
    };
    (StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_GATEWAY), title, sentence(&body.error))
}

fn no_such(what: &str) -> String {
    format!("There is no such {what}, or this token cannot see it.")
}

impl Failure {
    fn is_signed_out(&self) -> bool {
        match self {
            Self::SignedOut { .. } => true,
            Self::Api(error) => error.code() == Some(ErrorCode::Unauthenticated),
            _ => false,
        }
    }

    fn explained(&self) -> (StatusCode, &'static str, String) {
        match self {
            Self::SignedOut { .. } => (StatusCode::UNAUTHORIZED, "Signed out", String::new()),
            Self::SeveralCookies => (
                StatusCode::BAD_REQUEST,
                "Ambiguous cookies",
                "The browser has sent several session cookies. Another server on this host may have set one. Remove the \
                 cookies of this host in the browser, and sign in again."
                    .into(),
            ),
            Self::OtherOrigin => (
                StatusCode::FORBIDDEN,
                "Sent by another page",
                "A page of another origin has sent this request. Nothing was changed.".into(),
            ),
            Self::WrongForm => (
                StatusCode::FORBIDDEN,
                "The form has expired",
                "The form does not belong to this session. Nothing was changed. Open the page again.".into(),
            ),
            Self::Form(bad) => of_form(*bad),
            Self::Unknown(what) => (StatusCode::NOT_FOUND, "Not found", no_such(what)),
            Self::NoPage => (StatusCode::NOT_FOUND, "Not found", "There is no such page.".into()),
            Self::Method => {
                (StatusCode::METHOD_NOT_ALLOWED, "Not possible", "This page cannot be used like this.".into())
            }
            Self::Api(error) => of_api(error),
            Self::NoRandom(error) => {
                warn!(error = error as &dyn StdError, "no session can begin");
                let message = "The system provides no random bytes.".into();
                (StatusCode::INTERNAL_SERVER_ERROR, "The daemon failed", message)
            }
        }
    }
}

fn of_form(bad: BadForm) -> (StatusCode, &'static str, String) {
    let (status, message) = match bad {
        BadForm::TooLarge => {
            let message = format!("The form is larger than {MAX_FORM_BYTES} bytes, or has too many fields.");
            (StatusCode::PAYLOAD_TOO_LARGE, message)
        }
        BadForm::Late => (StatusCode::REQUEST_TIMEOUT, "The form did not arrive in time.".into()),
        BadForm::Incomplete => (StatusCode::BAD_REQUEST, "The form could not be read to the end.".into()),
        BadForm::NotAForm => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "This is not a form of this page.".into()),
    };
    (status, "The form cannot be used", message)
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        if self.is_signed_out() {
            let mut response = (StatusCode::SEE_OTHER, [(LOCATION, "/admin/sign-in")]).into_response();
            if let Self::SignedOut { is_secure } = self {
                response.headers_mut().insert(SET_COOKIE, cookie::remove(is_secure));
            }
            return response;
        }
        let (status, title, message) = self.explained();
        let content = html! {
            h1 { (title) }
            p { (crate::text::long(&message)) }
            p { a href="/admin" { "Overview" } }
        };
        let mut response = (status, document::bare(title, &content)).into_response();
        if let Self::Api(error) = &self
            && let Some(after) = error.retry_after()
        {
            response.headers_mut().insert(RETRY_AFTER, after.as_secs().into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_api_become_sentences() {
        assert_eq!(sentence("no such sandbox"), "No such sandbox.");
        assert_eq!(sentence("`name` is wrong; see the docs."), "`name` is wrong; see the docs.");
        assert_eq!(sentence(""), ".");
    }

    #[test]
    fn who_is_signed_out_is_sent_to_the_form() {
        let response = Failure::SignedOut { is_secure: false }.into_response();
        assert_eq!(
            (response.status(), &response.headers()[LOCATION]),
            (StatusCode::SEE_OTHER, &"/admin/sign-in".parse().unwrap())
        );
        assert!(response.headers()[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    }
}
