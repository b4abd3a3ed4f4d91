//! The form that ends the JSON Web Tokens and child tokens of a subject.

use maud::{Markup, html};

use super::projects::address_of;
use crate::failure::Problem;
use crate::fields::{self, Line};
use crate::layout::csrf;
use crate::visitor::Visitor;

/// What the user has entered, and what is wrong with it.
pub(super) struct Entry {
    pub(super) subject: String,
    pub(super) problem: Problem,
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
