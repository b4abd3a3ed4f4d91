//! What a form has done, which the next page says.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::LOCATION;

use crate::form::Form;

/// What a form has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    ProjectCreated,
    QuotasSaved,
    TokenRevoked,
    SubjectRevoked,
    AlreadySent,
    Parked,
    Woken,
    Deleted,
}

impl Done {
    const ALL: [Self; 8] = [
        Self::ProjectCreated,
        Self::QuotasSaved,
        Self::TokenRevoked,
        Self::SubjectRevoked,
        Self::AlreadySent,
        Self::Parked,
        Self::Woken,
        Self::Deleted,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ProjectCreated => "project-created",
            Self::QuotasSaved => "quotas-saved",
            Self::TokenRevoked => "token-revoked",
            Self::SubjectRevoked => "subject-revoked",
            Self::AlreadySent => "already-sent",
            Self::Parked => "parked",
            Self::Woken => "woken",
            Self::Deleted => "deleted",
        }
    }

    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::ProjectCreated => "The project exists.",
            Self::QuotasSaved => "The quotas are saved.",
            Self::TokenRevoked => "The token is revoked. Its connections are closed.",
            Self::SubjectRevoked => "The subject's child tokens and JSON Web Tokens are revoked.",
            Self::AlreadySent => {
                "This form was already sent. It created one token, which is not shown again."
            }
            Self::Parked => "The sandbox is parked. Its files are kept.",
            Self::Woken => "The sandbox is running.",
            Self::Deleted => "The sandbox and its files are deleted.",
        }
    }

    /// What the query of a page says.
    pub(crate) fn of_query(query: &Form) -> Option<Self> {
        let name = query.get("done");
        Self::ALL.into_iter().find(|done| done.name() == name)
    }

    /// Sends the browser to a page that says so. `path` has no query.
    pub(crate) fn then(self, path: &str) -> Response {
        (StatusCode::SEE_OTHER, [(LOCATION, format!("{path}?done={}", self.name()))]).into_response()
    }
}
