//! What a schema may contain, and its size.

use sandboxd_model::limits::{MAX_SCHEMA_DEPTH, MAX_SCHEMA_PATTERN_BYTES, MAX_SCHEMA_SIZE};
use serde_json::{Map, Value};

/// A schema is not supported, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported(pub String);

/// Versions of JSON Schema that a schema may name.
const DIALECTS: [&str; 3] = [
    "https://json-schema.org/draft/2020-12/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft-07/schema",
];

/// Keywords by which a schema could be named, or refer to one that depends on how it is reached.
const NAMES: [&str; 7] =
    ["$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"];

/// Keywords whose value is a schema.
const SCHEMA: [&str; 13] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "extends",
];
/// Keywords whose value is an array of schemas. `items` may be one, in draft 7.
const SCHEMAS: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords whose value has a schema for each name. In `dependencies`, a name may have a list instead.
const SCHEMAS_BY_NAME: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Number of schemas in a schema, with its references expanded.
pub(super) fn size_of(schema: &Value, patterns_left: &mut usize) -> Result<usize, Unsupported> {
    let mut walk = Walk { root: schema, size: 0, patterns_left, followed: Vec::new() };
    walk.schema(schema, 0)?;
    Ok(walk.size)
}

struct Walk<'a> {
    root: &'a Value,
    size: usize,
    patterns_left: &'a mut usize,
    /// The references that led to the current schema.
    followed: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<(), Unsupported> {
        self.size += 1;
        if self.size > MAX_SCHEMA_SIZE {
            return refused(format!(
                "it has more than {MAX_SCHEMA_SIZE} schemas, with its references expanded"
            ));
        }
        if depth > MAX_SCHEMA_DEPTH {
            return refused(format!("it has more than {MAX_SCHEMA_DEPTH} levels"));
        }
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(_) => return Ok(()),
            _ => return refused("a schema must be an object, true or false"),
        };
        self.names(keywords)?;
        self.patterns(keywords)?;
        for (keyword, value) in keywords {
            let name = keyword.as_str();
            if name == "$ref" {
                self.reference(value, depth)?;
            } else if SCHEMAS_BY_NAME.contains(&name) {
                for inner in value.as_object().into_iter().flatten().map(|(_, inner)| inner) {
                    if !(name == "dependencies" && inner.is_array()) {
                        self.schema(inner, depth + 1)?;
                    }
                }
            } else if let (true, Some(all)) = (SCHEMAS.contains(&name), value.as_array()) {
                for inner in all {
                    self.schema(inner, depth + 1)?;
                }
            } else if SCHEMA.contains(&name) {
                self.schema(value, depth + 1)?;
            }
        }
        Ok(())
    }

    fn names(&self, keywords: &Map<String, Value>) -> Result<(), Unsupported> {
        if let Some(name) = NAMES.iter().find(|name| keywords.contains_key(**name)) {
            return refused(format!("{name} is not supported"));
        }
        match keywords.get("$schema").map(|dialect| dialect.as_str().unwrap_or_default()) {
            Some(dialect) if !DIALECTS.contains(&dialect.trim_end_matches('#')) => {
                refused("$schema must be that of JSON Schema 2020-12 or draft 7")
            }
            _ => Ok(()),
        }
    }

    fn patterns(&mut self, keywords: &Map<String, Value>) -> Result<(), Unsupported> {
        let by_name = keywords.get("patternProperties").and_then(Value::as_object);
        let of_names = by_name.into_iter().flatten().map(|(pattern, _)| pattern.as_str());
        for pattern in keywords.get("pattern").and_then(Value::as_str).into_iter().chain(of_names) {
            if pattern.len() > MAX_SCHEMA_PATTERN_BYTES {
                return refused(format!("a pattern is longer than {MAX_SCHEMA_PATTERN_BYTES} bytes"));
            }
            let Some(left) = self.patterns_left.checked_sub(1) else {
                return refused("the tools have too many patterns");
            };
            *self.patterns_left = left;
        }
        Ok(())
    }

    fn reference(&mut self, value: &'a Value, depth: usize) -> Result<(), Unsupported> {
        let text = value.as_str().unwrap_or_default();
        let pointer = text.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some(pointer) = pointer else {
            return refused("$ref must begin with #/, because a schema can refer only to itself");
        };
        if pointer.is_empty() || self.followed.contains(&pointer) {
            return refused(format!("$ref {text:?} is recursive, which is not supported"));
        }
        let Some(target) = self.root.pointer(pointer) else {
            return refused(format!("$ref {text:?} refers to nothing"));
        };
        self.followed.push(pointer);
        self.schema(target, depth + 1)?;
        self.followed.pop();
        Ok(())
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, Unsupported> {
    Err(Unsupported(why.into()))
}
