//! The list of projects, and the form that creates one.

use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use sandbox_api::project::{Project, ProjectList};

use super::{next_page, table};
use crate::done::Done;
use crate::failure::{Failure, Problem};
use crate::fields::{self, Line};
use crate::layout::{Page, Section, csrf};
use crate::query::Query;
use crate::units;
use crate::visitor::{Scope, Sent, Visitor};

const PATH: &str = "/admin/projects";

/// The list.
pub(crate) async fn show(visitor: Visitor, query: Query) -> Result<Response, Failure> {
    let list = visitor.client.projects(query.cursor()).await?;
    let form = create_form(&visitor, "", None);
    Ok(page(&visitor, &list, &form, query.done()))
}

/// Creates a project.
pub(crate) async fn create(sent: Sent) -> Result<Response, Failure> {
    let Sent { visitor, form, .. } = sent;
    let name = form.get("name").trim();
    let problem = match visitor.client.create_project(name).await {
        Ok(project) => return Ok(Done::ProjectCreated.then(&address_of(&project.name))),
        Err(error) => Problem::of(error)?,
    };
    let list = visitor.client.projects(None).await?;
    let form = create_form(&visitor, name, Some(&problem));
    Ok((problem.status, page(&visitor, &list, &form, None)).into_response())
}

/// Address of a project's page.
pub(super) fn address_of(project: &str) -> String {
    format!("{PATH}/{project}")
}

fn page(visitor: &Visitor, list: &ProjectList, form: &Markup, done: Option<Done>) -> Response {
    let rows = html! { @for project in &list.projects { (row(project)) } };
    let content = html! {
        h1 { "Projects" }
        p.lead { "A project does not see the sandboxes, snapshots and session keys of another one." }
        (table("Projects", &["Name", "Created", "Quotas"], &rows))
        (next_page(PATH, &[], list.next_cursor.as_deref()))
        (form)
    };
    Page { visitor, title: "Projects", section: Section::Projects, done, content }.into_response()
}

fn row(project: &Project) -> Markup {
    let quotas = serde_json::to_value(&project.quotas).ok();
    let quotas = quotas.and_then(|quotas| Some(quotas.as_object()?.len())).unwrap_or_default();
    html! {
        tr {
            th scope="row" { a href=(address_of(&project.name)) { (project.name) } }
            td { (units::time(project.created_at)) }
            td { @if quotas == 0 { span.muted { "none" } } @else { (quotas) } }
        }
    }
}

fn create_form(visitor: &Visitor, name: &str, problem: Option<&Problem>) -> Markup {
    let field = Line {
        name: "name",
        field: "name",
        label: "Name",
        hint: "1 to 63 lower-case letters, digits and hyphens.",
        value: name,
        required: true,
    };
    html! {
        @if visitor.may(Scope::Operate) {
            h2 #create { "New project" }
            form.card method="post" action=(PATH) aria-labelledby="create" {
                (csrf(visitor))
                (fields::of_form(problem, &["name"]))
                (field.show(problem))
                button.primary type="submit" { "Create project" }
            }
        } @else {
            p.muted { "Only the operator creates projects." }
        }
    }
}
