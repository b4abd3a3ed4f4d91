//! What all pages of a session have in common: the navigation, and who is signed in.

use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use crate::document::{document, mark};
use crate::done::Done;
use crate::visitor::{CSRF, Scope, Visitor};

/// A part of the page in the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Projects,
    Sandboxes,
    Denials,
    Audit,
}

/// A page of a session.
pub(crate) struct Page<'a> {
    pub(crate) visitor: &'a Visitor,
    /// Plain text.
    pub(crate) title: &'a str,
    pub(crate) section: Section,
    /// What was done before the page was opened.
    pub(crate) done: Option<Done>,
    pub(crate) content: Markup,
}

impl Section {
    const ALL: [Self; 5] = [Self::Overview, Self::Projects, Self::Sandboxes, Self::Denials, Self::Audit];

    fn link(self) -> (&'static str, &'static str) {
        match self {
            Self::Overview => ("Overview", "/admin"),
            Self::Projects => ("Projects", "/admin/projects"),
            Self::Sandboxes => ("Sandboxes", "/admin/sandboxes"),
            Self::Denials => ("Denials", "/admin/denials"),
            Self::Audit => ("Audit record", "/admin/audit"),
        }
    }

    fn is_for(self, visitor: &Visitor) -> bool {
        match self {
            Self::Overview => true,
            Self::Projects => visitor.may(Scope::Manage),
            Self::Sandboxes | Self::Denials => visitor.may(Scope::Read),
            Self::Audit => visitor.may(Scope::Operate),
        }
    }
}

impl IntoResponse for Page<'_> {
    fn into_response(self) -> Response {
        let Self { visitor, title, section, done, content } = self;
        let body = html! {
            a.skip href="#content" { "Skip to the content" }
            header.top {
                a.brand href="/admin" { (mark()) "sandboxd" }
                nav aria-label="Sections" {
                    ul {
                        @for one in Section::ALL.into_iter().filter(|one| one.is_for(visitor)) {
                            @let (name, address) = one.link();
                            li {
                                a href=(address) aria-current=[(one == section).then_some("page")] { (name) }
                            }
                        }
                    }
                }
                form.who method="post" action="/admin/sign-out" {
                    (csrf(visitor))
                    span { (who(visitor)) }
                    button.quiet type="submit" { "Sign out" }
                }
            }
            main #content {
                @if let Some(done) = done {
                    p.done role="status" { (done.sentence()) }
                }
                (content)
            }
        };
        document(title, &body).into_response()
    }
}

/// The hidden field that shows that a form is of the session.
pub(crate) fn csrf(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name=(CSRF) value=(visitor.session.csrf().expose()); }
}

fn who(visitor: &Visitor) -> Markup {
    let who = &visitor.who;
    html! {
        @if who.operator { "Operator" } @else {
            (crate::text::cell(&who.project))
            @if let Some(subject) = &who.subject { " · " (crate::text::cell(subject)) }
        }
    }
}
