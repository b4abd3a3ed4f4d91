//! Compatibility of the published document: it may only grow, because clients depend on it. `sandboxd/openapi.json` is the
//! last published version.

mod constraints;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use self::constraints::Changes;
use crate::api::router;

/// Fields with human-readable text, which may change freely.
const TEXTS: [&str; 5] = ["description", "summary", "title", "example", "examples"];

/// Command that publishes the current document, if it only grew.
const UPDATE: &str = "PUBLISH=1 cargo test -p sandboxd --lib openapi::published";

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json")
}

/// Reads the published document. A missing file is an error, because an empty document would permit every change.
fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file)
        .unwrap_or_else(|error| panic!("{}: {error}; restore the published document", file.display()));
    serde_json::from_str(&text).unwrap()
}

/// The document without texts, with a key instead of a position for each object in a list.
fn keyed(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| !TEXTS.contains(&name.as_str()));
            let field = |(name, value): (&String, &Value)| match (name.as_str(), value) {
                // A property may have the same name as a text field.
                ("properties", Value::Object(properties)) => {
                    let properties = properties.iter().map(|(name, schema)| (name.clone(), keyed(schema)));
                    (name.clone(), Value::Object(properties.collect()))
                }
                _ => (name.clone(), keyed(value)),
            };
            Value::Object(fields.map(field).collect())
        }
        Value::Array(values) if values.iter().any(Value::is_object) => keyed_list(values),
        other => other.clone(),
    }
}

fn keyed_list(values: &[Value]) -> Value {
    let values: Vec<Value> = values.iter().map(keyed).collect();
    let tag = tag_of(&values);
    let key = |value: &Value| key_of(value, tag.as_deref()).unwrap_or_else(|| value.to_string());
    let keys: Vec<String> = values.iter().map(key).collect();
    let entry = |(value, key): (Value, &String)| {
        let is_unique = keys.iter().filter(|other| *other == key).count() == 1;
        (if is_unique { key.clone() } else { value.to_string() }, value)
    };
    Value::Object(values.into_iter().zip(&keys).map(entry).collect::<Map<_, _>>())
}

/// The key of a parameter, of an alternative with a tag, of a reference, or of a schema of one type.
fn key_of(value: &Value, tag: Option<&str>) -> Option<String> {
    if let (Some(place), Some(name)) = (value["in"].as_str(), value["name"].as_str()) {
        return Some(format!("{place}:{name}"));
    }
    let tag = tag.and_then(|tag| Some(format!("{tag}={}", constants(value).get(tag)?)));
    let reference = || value["$ref"].as_str().map(str::to_owned);
    let schema_type = || value.get("type").map(Value::to_string);
    tag.or_else(reference).or_else(schema_type)
}

/// The property whose value distinguishes the alternatives of a list.
fn tag_of(values: &[Value]) -> Option<String> {
    let constants: Vec<_> = values.iter().map(constants).collect();
    let is_tag = |name: &&String| {
        let different: BTreeSet<_> = constants.iter().filter_map(|constants| constants.get(*name)).collect();
        different.len() == values.len()
    };
    constants.first()?.keys().find(is_tag).cloned()
}

/// The properties of a keyed schema that have one permitted value, and this value.
fn constants(schema: &Value) -> BTreeMap<String, String> {
    let empty = Map::new();
    let parts = schema["allOf"].as_object().unwrap_or(&empty).values().chain([schema]);
    let properties = parts.filter_map(|part| part["properties"].as_object()).flatten();
    let constant = |(name, schema): (&String, &Value)| {
        let value = match schema["enum"].as_array().map(Vec::as_slice) {
            Some([value]) => value,
            _ => schema.get("const")?,
        };
        Some((name.clone(), value.to_string()))
    };
    properties.filter_map(constant).collect()
}

/// Collects one line for each value of a keyed document, after its JSON pointer. Lists of values are treated as sets.
fn facts(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                facts(value, &format!("{path}/{name}"), found);
            }
        }
        Value::Array(values) if !values.is_empty() => {
            values.iter().for_each(|value| facts(value, &format!("{path}[]"), found));
        }
        leaf => drop(found.insert(format!("{path} = {leaf}"))),
    }
}

fn facts_of(keyed: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in ["paths", "components", "security"] {
        facts(&keyed[part], &format!("/{part}"), &mut found);
    }
    found
}

/// What a document breaks for clients of the published one.
struct Breaks {
    /// Facts that are gone.
    gone: Vec<String>,
    /// New requirements of requests.
    demands: Vec<String>,
    /// New constraints of requests.
    narrowed: Vec<String>,
    /// New types in responses.
    widened: Vec<String>,
}

fn breaks(published: &Value, document: &Value) -> Breaks {
    let (published, document) = (keyed(published), keyed(document));
    let (before, now) = (facts_of(&published), facts_of(&document));
    let new = now.difference(&before).filter(|fact| is_demand(&published, fact));
    let demands = new.cloned().collect();
    let Changes { narrowed, widened } = constraints::changes(&published, &document);
    Breaks {
        gone: before.difference(&now).cloned().collect(),
        demands,
        narrowed: narrowed.into_iter().collect(),
        widened: widened.into_iter().collect(),
    }
}

/// Whether a new fact makes a published request incomplete: a required field of a published schema, or a required
/// parameter or body of a published operation.
fn is_demand(published: &Value, fact: &str) -> bool {
    let is_published = |pointer: &str| published.pointer(pointer).is_some();
    if let Some((schema, _)) = fact.split_once("/required[] = ") {
        return is_published(constrained_schema(published, schema));
    }
    // A reference may lead to a parameter or a body that is required.
    let Some(owner) = fact.strip_suffix("/required = true").or_else(|| Some(fact.split_once("/$ref = ")?.0))
    else {
        return false;
    };
    let operation = owner.strip_suffix("/requestBody").or_else(|| {
        let (list, _) = owner.rsplit_once('/')?;
        list.strip_suffix("/parameters")
    });
    operation.is_some_and(is_published)
}

/// The schema that a part of it constrains: every part of `allOf` does, and all alternatives of a new list together.
fn constrained_schema<'a>(published: &Value, mut schema: &'a str) -> &'a str {
    while published.pointer(schema).is_none() {
        let Some((list, _)) = schema.rsplit_once('/') else { break };
        let Some((parent, kind)) = list.rsplit_once('/') else { break };
        let is_new_list = || published.pointer(list).is_none();
        match kind {
            "allOf" => schema = parent,
            "oneOf" | "anyOf" if is_new_list() => schema = parent,
            _ => break,
        }
    }
    schema
}

#[test]
fn nothing_published_is_changed_or_removed() {
    let document: Value = serde_json::from_slice(&router::document()).unwrap();
    let published = read(&file());
    let Breaks { gone, demands, narrowed, widened } = breaks(&published, &document);
    assert!(gone.is_empty(), "clients depend on this:\n{gone:#?}");
    assert!(demands.is_empty(), "requests that were complete lack a field now:\n{demands:#?}");
    assert!(narrowed.is_empty(), "requests that were valid exceed a constraint now:\n{narrowed:#?}");
    assert!(widened.is_empty(), "responses have types that clients do not expect:\n{widened:#?}");
    if std::env::var_os("PUBLISH").is_some() {
        std::fs::write(file(), format!("{document:#}\n")).unwrap();
        return;
    }
    assert!(document == published, "openapi.json is not the current document; to publish it: {UPDATE}");
}

mod tests {
    use serde_json::json;

    use super::*;

    fn schema(schema: &Value) -> Value {
        json!({ "components": { "schemas": { "A": schema } } })
    }

    fn operation(operation: &Value) -> Value {
        json!({ "paths": { "/v1/a/{id}": { "post": operation } } })
    }

    #[track_caller]
    fn assert_demands(published: &Value, document: &Value, demands: &[&str]) {
        assert_eq!(breaks(published, document).demands, demands);
        assert_eq!(breaks(published, published).demands, [""; 0]);
    }

    #[track_caller]
    fn assert_grown(published: &Value, document: &Value) {
        let Breaks { gone, demands, narrowed, widened } = breaks(published, document);
        assert_eq!([gone, demands, narrowed, widened].concat(), [""; 0]);
        assert!(facts_of(&keyed(published)).len() < facts_of(&keyed(document)).len());
    }

    #[test]
    fn changes_and_additions_are_distinguished() {
        let before = schema(&json!({ "properties": { "a": { "type": "string" } }, "required": ["a"] }));
        let grown = schema(&json!({
            "description": "Text.", "properties": { "a": { "type": "string" }, "title": { "type": "string" } }, "required": ["a"],
        }));
        assert_grown(&before, &grown);
        let number = |document: &Value| facts_of(&keyed(document)).len();
        assert_eq!(number(&grown), number(&before) + 1, "a property is not a text field");
        let other = schema(&json!({ "properties": { "a": { "type": "integer" } }, "required": ["a"] }));
        assert!(!breaks(&before, &other).gone.is_empty());
    }

    #[test]
    fn a_new_required_field_is_a_demand() {
        let before = schema(&json!({ "properties": { "a": { "type": "string" } }, "required": ["a"] }));
        let after = json!({ "properties": { "a": { "type": "string" }, "b": {} }, "required": ["a", "b"] });
        assert_demands(&before, &schema(&after), &["/components/schemas/A/required[] = \"b\""]);
        let part = schema(&json!({
            "properties": { "a": { "type": "string" } }, "required": ["a"],
            "allOf": [{ "type": "object", "required": ["b"] }],
        }));
        let demand = "/components/schemas/A/allOf/\"object\"/required[] = \"b\"";
        assert_demands(&before, &part, &[demand]);
    }

    #[test]
    fn a_new_required_field_of_an_inline_body_is_a_demand() {
        let body = |required: &[&str]| {
            let schema = json!({ "properties": { "a": {}, "b": {} }, "required": required });
            operation(&json!({ "requestBody": { "content": { "application/json": { "schema": schema } } } }))
        };
        let demand =
            "/paths/~1v1~1a~1{id}/post/requestBody/content/application~1json/schema/required[] = \"b\"";
        assert_demands(&body(&["a"]), &body(&["a", "b"]), &[demand]);
    }

    #[test]
    fn a_new_required_parameter_is_a_demand() {
        let id = json!({ "in": "path", "name": "id", "required": true });
        let query = |required: bool| json!({ "in": "query", "name": "id", "required": required });
        let before = operation(&json!({ "parameters": [id] }));
        assert_grown(&before, &operation(&json!({ "parameters": [query(false), id] })));
        let after = operation(&json!({ "parameters": [id, query(true)] }));
        let demand = "/paths/~1v1~1a~1{id}/post/parameters/query:id/required = true";
        assert_demands(&before, &after, &[demand]);
        let without = operation(&json!({ "tags": ["a"] }));
        let with = operation(&json!({ "tags": ["a"], "parameters": [query(true)] }));
        assert_demands(&without, &with, &[demand]);
        let referenced = json!({ "$ref": "#/components/parameters/P" });
        let after = operation(&json!({ "parameters": [id, referenced] }));
        assert_eq!(breaks(&before, &after).demands.len(), 1);
        let two_operations = json!({ "paths": {
            "/v1/a/{id}": { "post": { "parameters": [id] } },
            "/v1/b": { "post": { "parameters": [query(true)] } },
        } });
        assert_grown(&before, &two_operations);
    }

    #[test]
    fn a_parameter_that_becomes_required_is_a_demand() {
        let with = |required: &Value| {
            let id = json!({ "in": "path", "name": "id", "required": true });
            let mut header = json!({ "in": "header", "name": "if-match", "schema": { "type": "string" } });
            if required.is_boolean() {
                header["required"] = required.clone();
            }
            // Another parameter keeps its facts.
            let other = json!({ "in": "header", "name": "if-none-match", "required": false });
            operation(&json!({ "parameters": [id, header, other] }))
        };
        let demand = "/paths/~1v1~1a~1{id}/post/parameters/header:if-match/required = true";
        for optional in [json!(false), Value::Null] {
            assert_demands(&with(&optional), &with(&json!(true)), &[demand]);
        }
    }

    #[test]
    fn a_body_that_becomes_required_is_a_demand() {
        let content = json!({ "application/json": {} });
        let optional = operation(&json!({ "requestBody": { "content": content } }));
        let required = operation(&json!({ "requestBody": { "content": content, "required": true } }));
        let demand = "/paths/~1v1~1a~1{id}/post/requestBody/required = true";
        assert_demands(&optional, &required, &[demand]);
        assert_eq!(breaks(&operation(&json!({ "tags": ["a"] })), &required).demands, [demand]);
    }

    #[test]
    fn swapped_schemas_are_changes() {
        let parameters = |a: &str, b: &str| {
            let parameter = |name, kind| json!({ "in": "query", "name": name, "schema": { "type": kind } });
            operation(&json!({ "parameters": [parameter("a", a), parameter("b", b)] }))
        };
        let gone = breaks(&parameters("string", "integer"), &parameters("integer", "string")).gone;
        assert_eq!(gone.len(), 2, "{gone:?}");
        let properties = |a: &str, b: &str| {
            let one = |tag: &str, kind: &str| json!({ "properties": { "stream": { "enum": [tag] }, "value": { "type": kind } } });
            schema(&json!({ "oneOf": [one("a", a), one("b", b)] }))
        };
        let gone = breaks(&properties("string", "integer"), &properties("integer", "string")).gone;
        assert_eq!(gone.len(), 2, "{gone:?}");
    }

    #[test]
    fn alternatives_are_known_by_their_tags() {
        let record = |required: &[&str], tags: &[&str]| {
            let one = |tag: &&str| json!({ "required": required, "properties": { "seq": {}, "stream": { "const": tag } } });
            let output = json!({ "allOf": [
                { "$ref": "#/components/schemas/Output" },
                { "type": "object", "properties": { "stream": { "enum": ["stdout"] } } },
            ] });
            let alternatives: Vec<Value> = tags.iter().map(one).chain([output]).collect();
            schema(&json!({ "oneOf": alternatives }))
        };
        let before = record(&["stream"], &["start"]);
        assert_grown(&before, &record(&["stream"], &["end", "start"]));
        let demand = "/components/schemas/A/oneOf/stream=\"start\"/required[] = \"seq\"";
        assert_demands(&before, &record(&["stream", "seq"], &["start"]), &[demand]);
        assert!(!breaks(&before, &record(&["stream"], &["end"])).gone.is_empty());
    }

    #[test]
    fn authentication_that_becomes_required_is_a_change() {
        let open = operation(&json!({ "security": [] }));
        let closed = operation(&json!({ "security": [{ "bearer": [] }] }));
        assert!(!breaks(&open, &closed).gone.is_empty());
        let either = operation(&json!({ "security": [{ "adminToken": [] }, { "bearer": [] }] }));
        assert_grown(&closed, &either);
    }

    #[test]
    #[should_panic(expected = "no-such-document.json")]
    fn a_missing_document_is_an_error() {
        read(Path::new("no-such-document.json"));
    }
}
