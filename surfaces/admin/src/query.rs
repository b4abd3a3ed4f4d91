//! The query of a page.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::done::Done;
use crate::form::Form;

/// The query of a page. One that cannot be parsed is empty.
pub(crate) struct Query(pub(crate) Form);

impl Query {
    pub(crate) fn done(&self) -> Option<Done> {
        Done::of_query(&self.0)
    }

    pub(crate) fn cursor(&self) -> Option<&str> {
        self.0.filled("cursor")
    }
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(Form::of_query(head.uri.query())))
    }
}
