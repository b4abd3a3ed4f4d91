//! The pages.

pub(crate) mod audit;
pub(crate) mod denials;
pub(crate) mod overview;
pub(crate) mod project;
pub(crate) mod projects;
pub(crate) mod quotas;
pub(crate) mod sandbox;
pub(crate) mod sandboxes;
pub(crate) mod sign_in;
pub(crate) mod subject;
mod subject_form;
pub(crate) mod token;
mod token_form;

use maud::{Markup, html};
use sandbox_api::SandboxId;

use crate::failure::Failure;

/// Maximum length of a project's name in bytes.
const MAX_PROJECT_BYTES: usize = 63;

/// A link to the next page of a list.
fn next_page(path: &str, query: &[(&str, &str)], cursor: Option<&str>) -> Markup {
    let Some(cursor) = cursor else { return html! {} };
    let pairs: Vec<(&str, &str)> =
        query.iter().copied().filter(|(_, value)| !value.is_empty()).chain([("cursor", cursor)]).collect();
    let query = serde_urlencoded::to_string(&pairs).unwrap_or_default();
    html! { p.pager { a href=(format!("{path}?{query}")) rel="next" { "Next page" } } }
}

/// A table that scrolls by itself if it is too wide. The keyboard can reach it.
fn table(label: &str, head: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table {
                thead { tr { @for name in head { th scope="col" { (name) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// The name of a project in a path. It becomes a part of the API's paths, so others are refused here.
fn project_of(name: &str) -> Result<&str, Failure> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = (1..=MAX_PROJECT_BYTES).contains(&name.len()) && name.bytes().all(is_allowed);
    if is_name { Ok(name) } else { Err(Failure::Unknown("project")) }
}

/// The id of a sandbox in a path.
fn sandbox_of(id: &str) -> Result<SandboxId, Failure> {
    id.parse().map_err(|_| Failure::Unknown("sandbox"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_lead_to_another_route_of_the_api() {
        assert_eq!(project_of("lab-1").unwrap(), "lab-1");
        for name in ["", "a/tokens", "a?x", "..", "%2e", "A", "a b", &"a".repeat(MAX_PROJECT_BYTES + 1)] {
            assert!(project_of(name).is_err(), "{name}");
        }
        assert!(sandbox_of("sbx_0123456789abcdef").is_ok());
        assert!(sandbox_of("sbx_0123456789abcde/").is_err());
    }

    #[test]
    fn the_next_page_keeps_the_filters() {
        let link = next_page("/admin/audit", &[("project", "a&b"), ("act", "")], Some("x=1")).into_string();
        assert!(link.contains(r#"href="/admin/audit?project=a%26b&amp;cursor=x%3D1""#), "{link}");
        assert_eq!(next_page("/admin/audit", &[], None).into_string(), "");
    }
}
