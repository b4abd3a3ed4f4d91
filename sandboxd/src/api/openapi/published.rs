//! Compatibility of the published document: it may only grow, because clients depend on it. `sandboxd/openapi.json` is the
//! last published version.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::api::router;

/// Fields with text for people, which may change freely.
const TEXTS: [&str; 5] = ["description", "summary", "title", "example", "examples"];

/// Command that publishes the current document, if it only grew.
const UPDATE: &str = "PUBLISH=1 cargo test -p sandboxd --lib openapi::published";

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json")
}

/// Collects one line for each value of the document, except for text. Lists are treated as sets.
fn facts(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            // A property may have the same name as a text field.
            let is_schema = !path.ends_with("/properties");
            for (name, value) in fields {
                if !(is_schema && TEXTS.contains(&name.as_str())) {
                    facts(value, &format!("{path}/{name}"), found);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| facts(value, &format!("{path}[]"), found)),
        leaf => drop(found.insert(format!("{path} = {leaf}"))),
    }
}

fn facts_of(document: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in ["paths", "components"] {
        facts(&document[part], &format!("/{part}"), &mut found);
    }
    found
}

/// New facts that break clients of the published document: a field of a known schema that is required now.
fn demands<'a>(published: &Value, new: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let is_demand = |fact: &&String| {
        let Some((pointer, _)) = fact.split_once("/required[] = ") else { return false };
        published.pointer(pointer).is_some_and(|schema| !schema.is_null())
    };
    new.filter(is_demand).collect()
}

#[test]
fn nothing_published_is_changed_or_removed() {
    let document: Value = serde_json::from_slice(&router::document()).unwrap();
    let text =
        std::fs::read_to_string(file()).unwrap_or_else(|_| r#"{"paths":{},"components":{}}"#.to_owned());
    let published: Value = serde_json::from_str(&text).unwrap();
    let (now, before) = (facts_of(&document), facts_of(&published));
    let gone: Vec<_> = before.difference(&now).collect();
    assert!(gone.is_empty(), "clients depend on this:\n{gone:#?}");
    let demands = demands(&published, now.difference(&before));
    assert!(demands.is_empty(), "requests that were complete lack a field now:\n{demands:#?}");
    if std::env::var_os("PUBLISH").is_some() {
        std::fs::write(file(), format!("{document:#}\n")).unwrap();
        return;
    }
    assert!(document == published, "openapi.json is not the current document; to publish it: {UPDATE}");
}

#[test]
fn changes_and_additions_are_distinguished() {
    let document = |schema: Value| serde_json::json!({ "components": { "schemas": { "A": schema } } });
    let before =
        document(serde_json::json!({ "properties": { "a": { "type": "string" } }, "required": ["a"] }));
    let grown = document(serde_json::json!({
        "description": "Text.", "properties": { "a": { "type": "string" }, "title": { "type": "string" } }, "required": ["a"],
    }));
    assert!(facts_of(&before).is_subset(&facts_of(&grown)));
    assert_eq!(facts_of(&grown).len(), facts_of(&before).len() + 1, "a property is not a text field");
    let stricter = document(serde_json::json!({
        "properties": { "a": { "type": "string" }, "b": {} }, "required": ["a", "b"],
    }));
    let (now, known) = (facts_of(&stricter), facts_of(&before));
    assert_eq!(demands(&before, now.difference(&known)), ["/components/schemas/A/required[] = \"b\""]);
    let other =
        document(serde_json::json!({ "properties": { "a": { "type": "integer" } }, "required": ["a"] }));
    assert!(!facts_of(&before).is_subset(&facts_of(&other)));
}
