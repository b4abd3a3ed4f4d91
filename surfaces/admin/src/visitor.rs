//! Who looks at a page: the session of the request, and what its token permits.

use std::collections::HashSet;

use axum::extract::{FromRequest, FromRequestParts, Request};
use http::request::Parts;
use sandbox_api::ErrorCode;
use sandbox_api::project::WhoAmI;
use sandbox_client::{Client, Error as ClientError};

use crate::failure::Failure;
use crate::form::Form;
use crate::origin;
use crate::server::Server;
use crate::session::{Session, cookie};

/// Names of the hidden fields of each form.
pub(crate) const CSRF: &str = "csrf";
pub(crate) const FORM: &str = "form";

/// A session with a valid token.
#[derive(Debug)]
pub(crate) struct Visitor {
    /// Sends requests with the session's token.
    pub(crate) client: Client,
    pub(crate) session: Session,
    pub(crate) who: WhoAmI,
    scopes: HashSet<Scope>,
}

/// What a token permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// See sandboxes.
    Read,
    /// Change sandboxes.
    Use,
    /// See projects, change tokens.
    Manage,
    /// See and change everything of the daemon.
    Operate,
}

/// A form that a page of the session has sent.
pub(crate) struct Sent {
    pub(crate) visitor: Visitor,
    pub(crate) form: Form,
    pub(crate) is_secure: bool,
}

impl Visitor {
    fn new(client: Client, session: Session, who: WhoAmI) -> Self {
        let mut scopes = HashSet::new();
        for scope in &who.scopes {
            match scope.as_str() {
                "read" => scopes.extend([Scope::Read]),
                "use" => scopes.extend([Scope::Read, Scope::Use]),
                "manage" => scopes.extend([Scope::Manage]),
                _ => {}
            }
        }
        scopes.extend(who.operator.then_some(Scope::Operate));
        Self { client, session, who, scopes }
    }

    /// Whether the token permits it. The API decides; this says what a page offers.
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }
}

impl FromRequestParts<Server> for Visitor {
    type Rejection = Failure;

    async fn from_request_parts(head: &mut Parts, server: &Server) -> Result<Self, Failure> {
        origin::check_read(&head.headers)?;
        let is_secure = server.callers.is_secure(head);
        let cookie = cookie::read(&head.headers, is_secure).map_err(|_| Failure::SeveralCookies)?;
        let session = cookie.and_then(|cookie| server.sessions.find(&cookie));
        let session = session.ok_or(Failure::SignedOut { is_secure })?;
        let client = server.callers.client(head, session.token());
        match client.whoami().await {
            Ok(who) => Ok(Self::new(client, session, who)),
            Err(error) if is_unauthenticated(&error) => {
                server.sessions.end(&session);
                Err(Failure::SignedOut { is_secure })
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl FromRequest<Server> for Sent {
    type Rejection = Failure;

    async fn from_request(request: Request, server: &Server) -> Result<Self, Failure> {
        let (mut head, body) = request.into_parts();
        origin::check_change(&head.headers)?;
        let visitor = Visitor::from_request_parts(&mut head, server).await?;
        let form = Form::read(&head.headers, body).await?;
        if !visitor.session.csrf().is(form.get(CSRF)) {
            return Err(Failure::WrongForm);
        }
        Ok(Self { visitor, form, is_secure: server.callers.is_secure(&head) })
    }
}

fn is_unauthenticated(error: &ClientError) -> bool {
    error.code() == Some(ErrorCode::Unauthenticated)
}
