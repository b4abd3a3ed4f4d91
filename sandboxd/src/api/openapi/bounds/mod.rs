//! Value constraints in the document, from the constants that the daemon checks against.

mod commands;
mod contexts;
mod files;
mod kinds;
mod mcp;
mod network;
mod projects;
mod repositories;
mod sandboxes;
mod snapshots;
mod terminals;
mod values;

use serde_json::{Value, json};

use self::kinds::Row;
use super::operations::operations;
use crate::api::docs_assets;

fn table() -> Vec<Row> {
    let page = vec![("docsAsset", "file", json!({ "enum": docs_assets::names() }))];
    [
        page,
        commands::rows(),
        contexts::rows(),
        files::rows(),
        mcp::rows(),
        network::rows(),
        projects::rows(),
        repositories::rows(),
        sandboxes::rows(),
        snapshots::rows(),
        terminals::rows(),
        values::rows(),
    ]
    .concat()
}

/// Writes the constraints into the document.
pub(super) fn apply(document: &mut Value) {
    for (owner, field, bound) in table() {
        let Some(schema) = schema_of(document, owner, field) else { continue };
        // A nullable field stays nullable.
        let is_nullable = schema["type"].as_array().is_some_and(|types| types.contains(&"null".into()));
        for (name, value) in bound.as_object().into_iter().flatten() {
            schema[name] = value.clone();
            if let (true, "enum", Some(values)) = (is_nullable, name.as_str(), schema[name].as_array_mut()) {
                values.push(Value::Null);
            }
        }
    }
}

fn schema_of<'a>(document: &'a mut Value, owner: &str, field: &str) -> Option<&'a mut Value> {
    if document["components"]["schemas"].get(owner).is_some() {
        let schema = &mut document["components"]["schemas"][owner];
        return if field.is_empty() { Some(schema) } else { schema["properties"].get_mut(field) };
    }
    let operation = operations(document).find(|operation| operation["operationId"] == owner)?;
    let mut parameters = operation["parameters"].as_array_mut()?.iter_mut();
    parameters.find(|parameter| parameter["name"] == field)?.get_mut("schema")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::router;

    #[test]
    fn every_constraint_is_in_the_document() {
        let mut document = serde_json::from_slice(&router::document()).unwrap();
        for (owner, field, bound) in table() {
            let schema = schema_of(&mut document, owner, field);
            let schema = schema.unwrap_or_else(|| panic!("no {field} of {owner}"));
            for (name, value) in bound.as_object().unwrap() {
                let found = &schema[name];
                let holds = found == value || (name == "enum" && found.as_array().is_some());
                assert!(holds, "{name} of {field} of {owner}: {found}");
            }
        }
    }
}
