//! Ends the JSON Web Tokens and child tokens of a subject.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::projects::address_of;
use super::{project, project_of};
use crate::done::Done;
use crate::failure::{Failure, Problem};
use crate::fields::{self, Line};
use crate::layout::csrf;
use crate::visitor::{Sent, Visitor};

/// What the user has entered, and what is wrong with it.
pub(super) struct Entry {
    subject: String,
    problem: Problem,
}

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

/// The form.
pub(super) fn section(visitor: &Visitor, project: &str, entry: Option<&Entry>) -> Markup {
    let problem = entry.map(|entry| &entry.problem);
    let field = Line {
        name: "revoked-subject",
        field: "subject",
        label: "Subject",
        hint: "1 to 256 visible ASCII characters.",
        value: entry.map(|entry| entry.subject.as_str()).unwrap_or_default(),
        required: true,
    };
    html! {
        h2 #end-subject { "End a subject’s sessions" }
        p.muted {
            "Revokes the JSON Web Tokens and child tokens of a person or program that were issued until now. Tokens of the project are \
             revoked one by one."
        }
        form.card method="post" action={ (address_of(project)) "/subjects/revoke" } aria-labelledby="end-subject" {
            (csrf(visitor))
            (fields::of_form(problem, &["subject"]))
            (field.show(problem))
            button.danger type="submit" { "Revoke subject" }
        }
    }
}
