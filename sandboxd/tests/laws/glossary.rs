//! The names in the API are words of the glossary in ARCHITECTURE.md, and not words that it replaces.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

fn read(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::fs::read_to_string(root.join(file)).unwrap()
}

/// The rows of the table with this head: each word of the first column, with the second one.
fn table(text: &str, head: &str) -> BTreeMap<String, String> {
    let rows = text.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
    let rows = rows.filter_map(|row| row.trim_matches('|').split_once('|'));
    let words = rows.flat_map(|(words, meaning)| {
        words.split(',').map(|word| (word.trim().to_owned(), meaning.trim().to_owned()))
    });
    words.collect()
}

/// The names in the document: of operations, schemas, their fields, parameters and paths.
fn names(document: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    found.extend(schemas.keys().cloned());
    let fields = schemas.values().filter_map(|schema| schema["properties"].as_object());
    found.extend(fields.flat_map(|fields| fields.keys().cloned()));
    for (path, item) in document["paths"].as_object().unwrap() {
        found.extend(path.split(['/', ':', '{', '}', '.']).map(str::to_owned));
        for operation in item.as_object().unwrap().values() {
            found.extend(operation["operationId"].as_str().map(str::to_owned));
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            found.extend(parameters.filter_map(|parameter| Some(parameter["name"].as_str()?.to_owned())));
        }
    }
    found
}

/// The words of a name in lower case: `list` and `links` of `listLinks`.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for char in name.chars() {
        if char.is_ascii_uppercase() || !char.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        words.last_mut().unwrap().extend(char.to_lowercase().filter(char::is_ascii_alphanumeric));
    }
    words
}

/// The word, and what it may be the plural of.
fn singulars(word: &str) -> impl Iterator<Item = &str> {
    [Some(word), word.strip_suffix('s'), word.strip_suffix("es")].into_iter().flatten()
}

fn faults(document: &Value, glossary: &str) -> Vec<String> {
    let (known, replaced) = (table(glossary, "| word | meaning |"), table(glossary, "| not used | but |"));
    assert!(known.contains_key("sandbox") && replaced.contains_key("container"), "the tables are not there");
    let names = names(document);
    // What has an id is one of the API's objects.
    let objects = names.iter().filter_map(|name| name.strip_suffix("Id"));
    let objects = objects.filter(|object| object.starts_with(|first: char| first.is_ascii_uppercase()));
    let unknown = objects.map(str::to_lowercase).filter(|object| !known.contains_key(object));
    let unknown = unknown.map(|object| format!("the glossary does not have `{object}`"));
    let unused = names.iter().flat_map(|name| words_of(name).into_iter().map(move |word| (name, word)));
    let unused = unused.filter_map(|(name, word)| {
        let instead = singulars(&word).find_map(|word| replaced.get(word))?;
        Some(format!("`{name}`: write {instead}"))
    });
    unknown.chain(unused).collect()
}

#[test]
fn names_in_the_api_are_words_of_the_glossary() {
    let document = serde_json::from_str(&read("sandboxd/openapi.json")).unwrap();
    assert_eq!(faults(&document, &read("ARCHITECTURE.md")), Vec::<String>::new());
}

#[test]
fn a_name_with_a_replaced_word_is_found() {
    let glossary = "| word | meaning |\n|---|---|\n| sandbox | a thing |\n\n\
        | not used | but |\n|---|---|\n| container, box | sandbox |\n";
    let document = serde_json::json!({
        "components": { "schemas": {
            "BoxId": {}, "Sandbox": { "properties": { "containers": {}, "boxes": {}, "inbox": {} } }, "SandboxId": {},
        } },
        "paths": { "/v1/box-files/{id}": { "get": {
            "operationId": "listContainers", "parameters": [{ "name": "isBox" }],
        } } },
    });
    let expected = ["the glossary does not have `box`", "`BoxId`: write sandbox"];
    let others = ["box-files", "boxes", "containers", "isBox", "listContainers"]
        .map(|name| format!("`{name}`: write sandbox"));
    assert_eq!(faults(&document, glossary), [&expected.map(str::to_owned)[..], &others].concat());
}
