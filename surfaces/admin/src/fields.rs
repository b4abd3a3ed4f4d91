//! Fields of forms, with a hint and what is wrong beside each.

use maud::{Markup, html};

use crate::failure::Problem;
use crate::visitor::{CSRF, FORM, Visitor};

/// A field of one line.
pub(crate) struct Line<'a> {
    /// Name in the form. Also its id.
    pub(crate) name: &'a str,
    /// Name of the field in the API's errors.
    pub(crate) field: &'a str,
    pub(crate) label: &'a str,
    pub(crate) hint: &'a str,
    /// What the user has typed.
    pub(crate) value: &'a str,
    pub(crate) required: bool,
}

impl Line<'_> {
    pub(crate) fn show(&self, problem: Option<&Problem>) -> Markup {
        let Self { name, field, label, hint, value, required } = *self;
        let problem = problem.filter(|problem| problem.field.as_deref() == Some(field));
        let (hint_id, problem_id) = (format!("{name}-hint"), format!("{name}-problem"));
        let described = [(!hint.is_empty()).then_some(&hint_id), problem.map(|_| &problem_id)];
        let described: Vec<&str> = described.into_iter().flatten().map(String::as_str).collect();
        html! {
            div.field {
                label for=(name) { (label) }
                input type="text" id=(name) name=(name) value=(value) required[required] autocomplete="off" spellcheck="false"
                    aria-invalid=[problem.map(|_| "true")]
                    aria-describedby=[(!described.is_empty()).then(|| described.join(" "))];
                @if !hint.is_empty() { p.hint id=(hint_id) { (hint) } }
                @if let Some(problem) = problem {
                    p.problem id=(problem_id) { (crate::text::long(&problem.message)) }
                }
            }
        }
    }
}

/// Shows a problem that concerns none of the form's fields.
pub(crate) fn of_form(problem: Option<&Problem>, fields: &[&str]) -> Markup {
    let is_shown_there =
        |problem: &&Problem| problem.field.as_deref().is_some_and(|field| fields.contains(&field));
    html! {
        @if let Some(problem) = problem.filter(|problem| !is_shown_there(problem)) {
            p.problem role="alert" { (crate::text::long(&problem.message)) }
        }
    }
}

/// A form with one button and no field, for an act that can be repeated.
pub(crate) fn button(visitor: &Visitor, action: &str, label: &str, class: &str) -> Markup {
    html! {
        form method="post" action=(action) {
            input type="hidden" name=(CSRF) value=(visitor.session.csrf().expose());
            button type="submit" class=(class) { (label) }
        }
    }
}

/// The hidden field with the number of a form that must be sent only once.
pub(crate) fn once(number: &str) -> Markup {
    html! { input type="hidden" name=(FORM) value=(number); }
}
