//! The form that changes the quotas of a project.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use sandbox_api::quota::Quotas;
use serde_json::{Map, Value};

use super::project_of;
use super::projects::address_of;
use crate::done::Done;
use crate::failure::{Failure, Problem};
use crate::fields::{self, Line};
use crate::form::Form;
use crate::layout::{Page, Section, csrf};
use crate::units::quota_name;
use crate::visitor::{Sent, Visitor};

/// Quotas that are numbers, and their units.
const NUMBERS: [(&str, &str); 14] = [
    ("sandboxes", "Running or parked."),
    ("sandboxesPerSubject", "Of one subject, running or parked."),
    ("runningSandboxes", "Running at the same time."),
    ("guaranteedRunning", "Other projects leave room for them. Not a limit."),
    ("memoryMb", "In MiB, as the sandboxes were created."),
    ("vcpus", "As the sandboxes were created."),
    ("diskMb", "In MiB, running or parked."),
    ("snapshotBytes", "In bytes, as they are stored."),
    ("baseBytes", "In bytes. A base that several sandboxes share counts once."),
    ("valueBytes", "In bytes: values that are kept with the sandboxes, and their keys."),
    ("commands", "At the same time."),
    ("links", "Valid at the same time."),
    ("egressBytesPerDay", "In bytes of both directions, since midnight UTC."),
    ("commandTimeoutMs", "In milliseconds."),
];

/// Quotas that are lists of texts.
const LISTS: [(&str, &str, &str); 2] = [
    ("images", "Images of new sandboxes", "Separated by spaces. Without any, all images are allowed."),
    ("networkModes", "Network modes", "Of default, allowlist, none and open, separated by spaces."),
];

/// The form, with the quotas of the project.
pub(crate) async fn show(visitor: Visitor, Path(name): Path<String>) -> Result<Response, Failure> {
    let name = project_of(&name)?;
    let project = visitor.client.project(name).await?;
    let typed = typed(&project.quotas);
    Ok(page(&visitor, name, &|quota| typed.get(quota).cloned().unwrap_or_default(), None))
}

/// Replaces the quotas.
pub(crate) async fn save(Path(name): Path<String>, sent: Sent) -> Result<Response, Failure> {
    let Sent { visitor, form, .. } = sent;
    let name = project_of(&name)?;
    let problem = match quotas_of(&form) {
        Err(problem) => problem,
        Ok(quotas) => match visitor.client.set_quotas(name, &quotas).await {
            Ok(_) => return Ok(Done::QuotasSaved.then(&address_of(name))),
            Err(error) => Problem::of(error)?,
        },
    };
    let page = page(&visitor, name, &|quota| form.get(quota).to_owned(), Some(&problem));
    Ok((problem.status, page).into_response())
}

fn page(
    visitor: &Visitor,
    name: &str,
    value: &dyn Fn(&str) -> String,
    problem: Option<&Problem>,
) -> Response {
    let quotas = NUMBERS.iter().map(|(quota, _)| *quota).chain(LISTS.iter().map(|(quota, ..)| *quota));
    let known: Vec<String> = quotas.map(field_of).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let content = html! {
        p.path { a href="/admin/projects" { "Projects" } " / " a href=(address_of(name)) { (name) } }
        h1 { "Quotas" }
        p.lead { "An empty field sets no quota: then the daemon’s default applies, if there is one. A lower quota removes nothing." }
        form.card.wide method="post" action={ (address_of(name)) "/quotas" } {
            (csrf(visitor))
            (fields::of_form(problem, &known))
            div.columns {
                @for (quota, hint) in NUMBERS { (line(quota, &quota_name(quota), hint, &value(quota), problem)) }
                @for (quota, label, hint) in LISTS { (line(quota, label, hint, &value(quota), problem)) }
            }
            div.actions {
                button.primary type="submit" { "Save quotas" }
                a.button href=(address_of(name)) { "Cancel" }
            }
        }
    };
    Page { visitor, title: "Quotas", section: Section::Projects, done: None, content }.into_response()
}

fn line(quota: &str, label: &str, hint: &str, value: &str, problem: Option<&Problem>) -> Markup {
    let field = field_of(quota);
    Line { name: quota, field: &field, label, hint, value, required: false }.show(problem)
}

/// The name of a quota in the API's errors.
fn field_of(quota: &str) -> String {
    format!("quotas.{quota}")
}

/// The quotas as a user would type them.
fn typed(quotas: &Quotas) -> std::collections::BTreeMap<String, String> {
    let Ok(Value::Object(quotas)) = serde_json::to_value(quotas) else { return Default::default() };
    let text = |value: Value| match value {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        Value::String(text) => text,
        other => other.to_string(),
    };
    quotas.into_iter().map(|(name, value)| (name, text(value))).collect()
}

fn quotas_of(form: &Form) -> Result<Quotas, Problem> {
    let mut quotas = Map::new();
    for (quota, _) in NUMBERS {
        let Some(text) = form.filled(quota) else { continue };
        let number: u64 = text
            .replace(',', "")
            .parse()
            .map_err(|_| Problem::of_field(&field_of(quota), "This must be a whole number."))?;
        quotas.insert(quota.into(), number.into());
    }
    for (quota, ..) in LISTS {
        let Some(text) = form.filled(quota) else { continue };
        let entries: Vec<&str> =
            text.split([' ', ',', '\n', '\t']).filter(|entry| !entry.is_empty()).collect();
        quotas.insert(quota.into(), entries.into());
    }
    serde_json::from_value(quotas.into()).map_err(|_| Problem::of_field("quotas", "These are not quotas."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_has_every_quota() {
        let all = Quotas {
            sandboxes: Some(1),
            sandboxes_per_subject: Some(12),
            running_sandboxes: Some(2),
            guaranteed_running: Some(3),
            memory_mb: Some(4),
            vcpus: Some(5),
            disk_mb: Some(6),
            snapshot_bytes: Some(7),
            base_bytes: Some(7),
            value_bytes: Some(7),
            commands: Some(8),
            links: Some(9),
            egress_bytes_per_day: Some(10),
            command_timeout_ms: Some(11),
            images: Some(vec!["a".into(), "b:1".into()]),
            network_modes: Some(vec!["none".into()]),
        };
        let pairs: Vec<(String, String)> = typed(&all).into_iter().collect();
        let query = serde_urlencoded::to_string(pairs).unwrap();
        assert_eq!(quotas_of(&Form::of_query(Some(&query))).unwrap(), all);
    }

    #[test]
    fn a_number_that_is_none_is_named() {
        let problem = quotas_of(&Form::of_query(Some("vcpus=two"))).unwrap_err();
        assert_eq!(problem.field.as_deref(), Some("quotas.vcpus"));
        assert_eq!(quotas_of(&Form::of_query(Some("vcpus=+1,000+"))).unwrap().vcpus, Some(1000));
    }
}
