//! Constraints of schemas. A request that was valid stays valid, so the schemas of requests get no new constraint. A
//! client can rely on what a response is, so the schemas of responses keep theirs.
//!
//! A constraint that is gone or has another value is already a fact that is gone. This module finds what is only new. A
//! new `enum` value in a response is allowed: clients must expect values that they do not know.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Keywords that each exclude values, by being there at all.
const KEYWORDS: [&str; 25] = [
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "contentEncoding",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "propertyNames",
    "type",
    "uniqueItems",
];

/// Keywords whose value is one schema.
const SCHEMAS: [&str; 3] = ["additionalProperties", "items", "propertyNames"];

/// Keywords whose value is a set of schemas, by name or by key.
const SETS: [&str; 4] = ["allOf", "anyOf", "oneOf", "properties"];

/// Constraints that are new in a keyed document.
pub(super) struct Changes {
    /// JSON pointers of constraints that exclude values from requests.
    pub(super) narrowed: BTreeSet<String>,
    /// JSON pointers of types that responses did not have.
    pub(super) widened: BTreeSet<String>,
}

/// Compares the schemas of all operations of the published document.
pub(super) fn changes(published: &Value, document: &Value) -> Changes {
    let mut requests = Comparison::new(published, document, narrow);
    let mut responses = Comparison::new(published, document, widen);
    let operations = fields(&published["paths"]).flat_map(|(path, item)| {
        fields(item).map(move |(method, _)| format!("/paths/{}/{method}", escape(path)))
    });
    for operation in operations {
        requests.compare_holders(&format!("{operation}/parameters"));
        requests.compare_holder(&format!("{operation}/requestBody"));
        responses.compare_holders(&format!("{operation}/responses"));
    }
    Changes { narrowed: requests.found, widened: responses.found }
}

/// Compares two schemas without their parts, and adds the pointers of what changed.
type Rule = fn(&Value, &Value, &str, &mut BTreeSet<String>);

/// Adds the constraints that `after` has and `before` does not.
fn narrow(before: &Value, after: &Value, pointer: &str, found: &mut BTreeSet<String>) {
    let is_new = |keyword: &str| {
        before.get(keyword).is_none_or(|before| !excludes(keyword, before))
            && after.get(keyword).is_some_and(|after| excludes(keyword, after))
    };
    let new = KEYWORDS.into_iter().filter(|keyword| is_new(keyword));
    found.extend(new.map(|keyword| format!("{pointer}/{keyword}")));
}

/// Whether a constraint excludes anything.
fn excludes(keyword: &str, constraint: &Value) -> bool {
    match keyword {
        "const" => true,
        "uniqueItems" => constraint == true,
        "minItems" | "minLength" | "minProperties" => constraint != 0,
        _ => constraint != true && !constraint.as_object().is_some_and(Map::is_empty),
    }
}

/// Adds the types that `after` has in addition.
fn widen(before: &Value, after: &Value, pointer: &str, found: &mut BTreeSet<String>) {
    let (Some(before), Some(after)) = (before["type"].as_array(), after["type"].as_array()) else { return };
    let new = after.iter().filter(|name| !before.contains(name));
    found.extend(new.map(|name| format!("{pointer}/type[] = {name}")));
}

struct Comparison<'a> {
    published: &'a Value,
    document: &'a Value,
    rule: Rule,
    found: BTreeSet<String>,
    /// References that were followed. Schemas may refer to each other in circles.
    followed: BTreeSet<String>,
}

impl<'a> Comparison<'a> {
    fn new(published: &'a Value, document: &'a Value, rule: Rule) -> Self {
        Self { published, document, rule, found: BTreeSet::new(), followed: BTreeSet::new() }
    }

    fn compare_holders(&mut self, pointer: &str) {
        for (name, _) in self.published.pointer(pointer).into_iter().flat_map(fields) {
            self.compare_holder(&format!("{pointer}/{}", escape(name)));
        }
    }

    /// Compares the schemas of a parameter, a body, a response or a header, or of what it refers to.
    fn compare_holder(&mut self, pointer: &str) {
        let (Some(before), Some(after)) = (self.published.pointer(pointer), self.document.pointer(pointer))
        else {
            return;
        };
        if let Some(target) = self.common_target(before, after) {
            self.compare_holder(&target);
        }
        self.compare(&before["schema"], &after["schema"], &format!("{pointer}/schema"));
        for (kind, media) in fields(&before["content"]) {
            let schema = &after["content"][kind]["schema"];
            let pointer = format!("{pointer}/content/{}/schema", escape(kind));
            self.compare(&media["schema"], schema, &pointer);
        }
        self.compare_holders(&format!("{pointer}/headers"));
    }

    /// The pointer of what both refer to, unless it was compared already.
    fn common_target(&mut self, before: &Value, after: &Value) -> Option<String> {
        let target = before["$ref"].as_str().filter(|target| after["$ref"] == *target)?.strip_prefix('#')?;
        self.followed.insert(target.to_owned()).then(|| target.to_owned())
    }

    fn compare(&mut self, before: &'a Value, after: &Value, pointer: &str) {
        if !before.is_object() || !after.is_object() {
            return;
        }
        (self.rule)(before, after, pointer, &mut self.found);
        if let Some(target) = self.common_target(before, after) {
            let both = (self.published.pointer(&target), self.document.pointer(&target));
            if let (Some(before), Some(after)) = both {
                self.compare(before, after, &target);
            }
        }
        for keyword in SCHEMAS {
            self.compare(&before[keyword], &after[keyword], &format!("{pointer}/{keyword}"));
        }
        for keyword in SETS {
            for (name, part) in fields(&after[keyword]) {
                let pointer = format!("{pointer}/{keyword}/{}", escape(name));
                match before[keyword].get(name) {
                    Some(before) => self.compare(before, part, &pointer),
                    // A new part constrains what the schema already describes.
                    None if keyword == "allOf" => self.compare_part(before, part, &pointer),
                    None => {}
                }
            }
        }
    }

    /// Compares a schema with a new part of its `allOf`.
    fn compare_part(&mut self, before: &'a Value, part: &Value, pointer: &str) {
        (self.rule)(before, part, pointer, &mut self.found);
        for (name, schema) in fields(&part["properties"]) {
            if let Some(before) = self.property(before, name, 0) {
                self.compare(before, schema, &format!("{pointer}/properties/{}", escape(name)));
            }
        }
    }

    /// The published schema of a property, which a schema has itself, by reference, or in a part.
    fn property(&self, schema: &'a Value, name: &str, depth: usize) -> Option<&'a Value> {
        const MAX_DEPTH: usize = 16;
        if depth > MAX_DEPTH {
            return None;
        }
        let target =
            schema["$ref"].as_str().and_then(|target| self.published.pointer(target.strip_prefix('#')?));
        let parts = fields(&schema["allOf"]).map(|(_, part)| part).chain(target);
        let own = schema["properties"].get(name);
        own.or_else(|| parts.into_iter().find_map(|part| self.property(part, name, depth + 1)))
    }
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

mod tests {
    use serde_json::json;

    use super::super::breaks;
    use super::*;

    /// A document with one operation: a parameter, a body by reference, and a response by reference.
    fn document(parameter: &Value, body: &Value, response: &Value) -> Value {
        let content = |name: &str| json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{name}") } } });
        json!({
            "paths": { "/v1/a": { "post": {
                "parameters": [{ "in": "query", "name": "q", "schema": parameter }],
                "requestBody": { "content": content("Body") },
                "responses": {
                    "200": { "content": content("Response") },
                    "404": { "$ref": "#/components/responses/Refused" },
                },
            } } },
            "components": {
                "schemas": { "Body": body, "Response": response },
                "responses": { "Refused": {
                    "content": content("Response"),
                    "headers": { "retry-after": { "schema": response } },
                } },
            },
        })
    }

    fn with(schema: &Value, keyword: &str, constraint: &Value) -> Value {
        let mut schema = schema.clone();
        schema[keyword] = constraint.clone();
        schema
    }

    /// A schema for each of these keywords, and a constraint that it does not have.
    fn new_constraints() -> Vec<(Value, &'static str, Value)> {
        let (text, number, list) =
            (json!({ "type": "string" }), json!({ "type": "integer" }), json!({ "type": "array" }));
        let object = json!({ "type": "object", "properties": { "a": {} } });
        vec![
            (text.clone(), "minLength", json!(1)),
            (text.clone(), "maxLength", json!(9)),
            (text.clone(), "pattern", json!("^a$")),
            (text.clone(), "format", json!("date-time")),
            (text.clone(), "enum", json!(["a"])),
            (text.clone(), "const", json!("a")),
            (text.clone(), "contentEncoding", json!("base64")),
            (text.clone(), "not", json!({ "const": "a" })),
            (text.clone(), "anyOf", json!([{ "const": "a" }])),
            (text, "oneOf", json!([{ "const": "a" }])),
            (number.clone(), "minimum", json!(0)),
            (number.clone(), "maximum", json!(9)),
            (number.clone(), "exclusiveMinimum", json!(0)),
            (number.clone(), "exclusiveMaximum", json!(9)),
            (number, "multipleOf", json!(2)),
            (list.clone(), "minItems", json!(1)),
            (list.clone(), "maxItems", json!(9)),
            (list.clone(), "uniqueItems", json!(true)),
            (list, "items", json!({ "type": "string" })),
            (object.clone(), "minProperties", json!(1)),
            (object.clone(), "maxProperties", json!(9)),
            (object.clone(), "propertyNames", json!({ "maxLength": 9 })),
            (object, "additionalProperties", json!(false)),
            (json!({}), "type", json!("string")),
            (json!({}), "type", json!(["string", "null"])),
        ]
    }

    #[test]
    fn a_new_constraint_of_a_parameter_is_a_break() {
        for (schema, keyword, constraint) in new_constraints() {
            let [before, after] = [&schema, &with(&schema, keyword, &constraint)]
                .map(|schema| document(schema, &json!({}), &json!({})));
            let expected = format!("/paths/~1v1~1a/post/parameters/query:q/schema/{keyword}");
            assert_eq!(breaks(&before, &after).narrowed, [expected], "{constraint}");
        }
    }

    #[test]
    fn a_new_constraint_of_a_body_is_a_break_at_any_depth() {
        /// Puts a schema inside of another one.
        type Wrap = fn(&Value) -> Value;
        let inside: [(&str, Wrap); 6] = [
            ("", Value::clone),
            ("/properties/pattern", |schema| json!({ "properties": { "pattern": schema } })),
            ("/items", |schema| json!({ "items": schema })),
            ("/additionalProperties", |schema| json!({ "additionalProperties": schema })),
            (
                "/oneOf/tag=\"x\"/properties/value",
                |schema| json!({ "oneOf": [{ "properties": { "tag": { "const": "x" }, "value": schema } }] }),
            ),
            (
                "/allOf/tag=\"x\"/properties/value",
                |schema| json!({ "allOf": [{ "properties": { "tag": { "const": "x" }, "value": schema } }] }),
            ),
        ];
        for (schema, keyword, constraint) in new_constraints() {
            for (pointer, outer) in inside {
                let [before, after] = [&schema, &with(&schema, keyword, &constraint)]
                    .map(|schema| document(&json!({}), &outer(schema), &json!({})));
                let narrowed = breaks(&before, &after).narrowed;
                // `{}` excludes nothing, so a schema that replaces it is itself the new constraint.
                let is_whole = schema == json!({}) && matches!(pointer, "/items" | "/additionalProperties");
                let expected = if is_whole { pointer.to_owned() } else { format!("{pointer}/{keyword}") };
                assert!(
                    narrowed.contains(&format!("/components/schemas/Body{expected}")),
                    "{keyword}: {narrowed:?}"
                );
            }
        }
    }

    #[test]
    fn a_new_part_of_a_body_constrains_its_properties() {
        let base = json!({ "$ref": "#/components/schemas/Response" });
        let part =
            json!({ "type": "object", "properties": { "a": { "maxLength": 9 }, "b": { "maxLength": 9 } } });
        let response = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
        let before = document(&json!({}), &json!({ "type": "object", "allOf": [base] }), &response);
        let after = document(&json!({}), &json!({ "type": "object", "allOf": [base, part] }), &response);
        let expected = "/components/schemas/Body/allOf/\"object\"/properties/a/maxLength";
        assert_eq!(breaks(&before, &after).narrowed, [expected], "`b` is a new property");
    }

    #[test]
    fn fewer_enum_values_and_another_type_or_limit_of_a_body_are_breaks() {
        let changes = [
            (json!({ "enum": ["a", "b"] }), json!({ "enum": ["a"] })),
            (json!({ "type": ["string", "null"] }), json!({ "type": ["string"] })),
            (json!({ "type": "string" }), json!({ "type": "integer" })),
            (json!({ "format": "int64" }), json!({ "format": "int32" })),
            (json!({ "maxLength": 9 }), json!({ "maxLength": 8 })),
            (json!({ "additionalProperties": true }), json!({ "additionalProperties": false })),
        ];
        for (before, after) in changes {
            let [before, after] = [before, after].map(|body| document(&json!({}), &body, &json!({})));
            assert!(!breaks(&before, &after).gone.is_empty(), "{after}");
        }
    }

    #[test]
    fn a_new_constraint_of_a_response_alone_is_allowed() {
        for (schema, keyword, constraint) in new_constraints() {
            let [before, after] = [&schema, &with(&schema, keyword, &constraint)]
                .map(|schema| document(&json!({}), &json!({}), schema));
            let found = breaks(&before, &after);
            assert!(found.narrowed.is_empty() && found.widened.is_empty(), "{keyword}: {:?}", found.narrowed);
        }
    }

    #[test]
    fn a_constraint_that_a_response_loses_is_a_break() {
        for (schema, keyword, constraint) in new_constraints() {
            let [before, after] = [&with(&schema, keyword, &constraint), &schema]
                .map(|schema| document(&json!({}), &json!({}), schema));
            assert!(!breaks(&before, &after).gone.is_empty(), "{keyword}");
        }
    }

    #[test]
    fn a_new_type_of_a_response_is_a_break_and_a_new_enum_value_is_not() {
        let response = |types: &[&str], values: &[&str]| {
            let fields = json!({ "properties": { "a": { "type": types }, "b": { "enum": values } } });
            document(&json!({}), &json!({}), &fields)
        };
        let before = response(&["string", "null"], &["a"]);
        let wider = breaks(&before, &response(&["string", "null", "integer"], &["a"])).widened;
        let schemas =
            ["/components/responses/Refused/headers/retry-after/schema", "/components/schemas/Response"];
        assert_eq!(wider, schemas.map(|schema| format!("{schema}/properties/a/type[] = \"integer\"")));
        let grown = breaks(&before, &response(&["string", "null"], &["a", "b"]));
        assert!(grown.gone.is_empty() && grown.narrowed.is_empty() && grown.widened.is_empty());
    }

    #[test]
    fn a_request_may_accept_more() {
        let body = |types: &[&str], values: &[&str]| json!({ "type": types, "enum": values });
        let [before, after] =
            [body(&["string", "null"], &["a"]), body(&["string", "null", "integer"], &["a", "b"])]
                .map(|body| document(&json!({}), &body, &json!({})));
        let found = breaks(&before, &after);
        assert!(found.gone.is_empty() && found.narrowed.is_empty() && found.widened.is_empty());
        let [before, after] = [
            json!({ "oneOf": [{ "const": 1, "type": "a" }] }),
            json!({ "oneOf": [{ "const": 1, "type": "a" }, { "type": "b" }] }),
        ]
        .map(|body| document(&json!({}), &body, &json!({})));
        assert!(breaks(&before, &after).narrowed.is_empty());
    }

    #[test]
    fn a_schema_of_requests_and_responses_follows_both_rules() {
        let shared = |schema: &Value| {
            let reference = json!({ "$ref": "#/components/schemas/Shared" });
            let mut document = document(&json!({}), &reference, &reference);
            document["components"]["schemas"]["Shared"] = schema.clone();
            document
        };
        let before = shared(&json!({ "type": ["string", "null"] }));
        let after = shared(&json!({ "type": ["string", "null", "integer"], "maxLength": 9 }));
        let found = breaks(&before, &after);
        assert_eq!(found.narrowed, ["/components/schemas/Shared/maxLength"]);
        assert_eq!(found.widened, ["/components/schemas/Shared/type[] = \"integer\""]);
    }

    #[test]
    fn a_schema_that_refers_to_itself_is_compared_once() {
        let body = |limit: &Value| json!({ "properties": { "a": { "$ref": "#/components/schemas/Body" }, "b": limit } });
        let [before, after] =
            [json!({}), json!({ "maximum": 1 })].map(|limit| document(&json!({}), &body(&limit), &json!({})));
        assert_eq!(breaks(&before, &after).narrowed, ["/components/schemas/Body/properties/b/maximum"]);
    }
}
