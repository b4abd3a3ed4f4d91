//! Ends the JSON Web Tokens and child tokens of a subject.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};

use super::projects::address_of;
use super::subject_form::Entry;
use super::{project, project_of};
use crate::done::Done;
use crate::failure::{Failure, Problem};
use crate::visitor::Sent;

/// Revokes a subject.
pub(crate) async fn revoke(Path(name): Path<String>, sent: Sent) -> Result<Response, Failure> {
    let Sent { visitor, form, .. } = sent;
    let (name, subject) = (project_of(&name)?, form.get("revoked-subject").trim());
    let problem = match visitor.client.revoke_subject(name, subject).await {
        Ok(_) => return Ok(Done::SubjectRevoked.then(&address_of(name))),
        Err(error) => Problem::of(error)?,
    };
    let status = problem.status;
    let shown = project::load(&visitor, name, None).await?;
    let entry = Entry { subject: subject.to_owned(), problem };
    let forms = project::Forms { subject: Some(entry), ..Default::default() };
    Ok((status, project::page(&visitor, &shown, &forms, None)?).into_response())
}
