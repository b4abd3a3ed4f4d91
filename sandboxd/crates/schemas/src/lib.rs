//! JSON schemas of tools: which are accepted, and whether values match them (JSON Schema 2020-12, and draft 7).
//!
//! A client chooses the schemas of its tools, and code in a sandbox chooses the values, so the cost of a check is bounded:
//! a schema refers only to itself, does not recurse, and has a size with its references expanded ([`bounds`]). Patterns are
//! matched in linear time. A value that would take too many steps is refused.

mod bounds;

use jsonschema::{PatternOptions, Retrieve, Uri, Validator};
use sandboxd_model::limits::{MAX_PATTERN_PROGRAM_BYTES, MAX_SCHEMA_STEPS};
use serde_json::Value;

pub use self::bounds::Unsupported;

/// A schema, ready to check values.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    /// Number of schemas in it, with its references expanded.
    size: usize,
}

/// A value does not match a schema: the first difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch(pub String);

impl Schema {
    /// Prepares a schema. Its patterns count against `patterns_left`.
    pub fn new(schema: &Value, patterns_left: &mut usize) -> Result<Self, Unsupported> {
        let size = bounds::size_of(schema, patterns_left)?;
        let patterns = PatternOptions::regex()
            .size_limit(MAX_PATTERN_PROGRAM_BYTES)
            .dfa_size_limit(MAX_PATTERN_PROGRAM_BYTES);
        // Formats are annotations. Draft 7 would check them, and one of them compiles the value as a pattern.
        let options = jsonschema::options()
            .should_validate_formats(false)
            .with_pattern_options(patterns)
            .with_retriever(Nothing);
        let validator = options.build(schema).map_err(|error| Unsupported(error.to_string()))?;
        Ok(Self { validator, size })
    }

    /// Checks a value.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        if self.size.saturating_mul(size_of(value)) > MAX_SCHEMA_STEPS {
            return Err(Mismatch("the value is too large for the schema".into()));
        }
        self.validator.validate(value).map_err(|error| Mismatch(described(&error)))
    }
}

/// Retrieves no other schema.
struct Nothing;

impl Retrieve for Nothing {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("a schema can refer only to itself".into())
    }
}

fn size_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size_of).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(size_of).sum::<usize>(),
        // A pattern reads all of a text.
        Value::String(text) => 1 + text.len() / 64,
        _ => 1,
    }
}

/// The place and the problem, without the value, which may be long.
fn described(error: &jsonschema::ValidationError<'_>) -> String {
    let problem = error.masked_with("the value").to_string();
    let at = error.instance_path().as_str();
    if at.is_empty() { problem } else { format!("{at}: {problem}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(schema: Value) -> Result<Schema, Unsupported> {
        Schema::new(&schema, &mut 16)
    }

    fn problem(schema: Value) -> String {
        self::schema(schema).unwrap_err().0
    }

    #[test]
    fn values_are_checked() {
        let accepted = schema(json!({
            "type": "object",
            "properties": { "count": { "type": "integer", "minimum": 1 }, "at": { "$ref": "#/$defs/point" } },
            "required": ["count"],
            "additionalProperties": false,
            "$defs": { "point": { "type": "array", "items": { "type": "number" }, "maxItems": 2 } },
        }));
        let accepted = accepted.unwrap();
        assert_eq!(accepted.check(&json!({ "count": 1, "at": [1, 2.5] })), Ok(()));
        for (value, place) in [
            (json!({ "count": 0 }), "/count"),
            (json!({ "count": 1, "at": ["x"] }), "/at/0"),
            (json!({ "count": 1, "more": 1 }), "more"),
            (json!({}), "count"),
            (json!(1), "object"),
        ] {
            let Err(Mismatch(problem)) = accepted.check(&value) else { panic!("{value} matches") };
            assert!(problem.contains(place), "{value}: {problem}");
        }
    }

    #[test]
    fn a_problem_does_not_repeat_a_long_value() {
        let accepted = schema(json!({ "type": "integer" })).unwrap();
        let Err(Mismatch(problem)) = accepted.check(&json!("x".repeat(10_000))) else { panic!("it matches") };
        assert!(problem.len() < 200, "{problem}");
    }

    #[test]
    fn other_documents_are_never_read() {
        for reference in ["https://example.com/a.json", "file:///etc/passwd", "other.json#/a", "#anchor"] {
            let text = problem(json!({ "properties": { "a": { "$ref": reference } } }));
            assert!(text.contains("$ref"), "{text}");
        }
        assert!(problem(json!({ "$id": "https://example.com/", "type": "object" })).contains("$id"));
        assert!(problem(json!({ "$schema": "https://example.com/meta" })).contains("$schema"));
    }

    #[test]
    fn a_schema_that_never_ends_is_refused() {
        assert!(problem(json!({ "$ref": "#" })).contains("recursive"));
        let tree = json!({ "$defs": { "t": { "items": { "$ref": "#/$defs/t" } } }, "$ref": "#/$defs/t" });
        assert!(problem(tree).contains("recursive"));
        // Each definition uses the one before twice.
        let mut definitions = json!({ "d0": { "type": "string" } });
        for level in 1..40 {
            let one = json!({ "$ref": format!("#/$defs/d{}", level - 1) });
            definitions[format!("d{level}")] = json!({ "anyOf": [one, one] });
        }
        assert!(problem(json!({ "$defs": definitions })).contains("schemas"));
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({ "items": deep });
        }
        assert!(problem(deep).contains("levels"));
    }

    #[test]
    fn patterns_are_bounded_and_linear() {
        let slow = schema(json!({ "pattern": "^(a+)+$" })).unwrap();
        let began = std::time::Instant::now();
        assert!(slow.check(&json!(format!("{}b", "a".repeat(100_000)))).is_err());
        assert!(began.elapsed() < std::time::Duration::from_secs(5));
        assert!(schema(json!({ "pattern": "(?:[a-z]{1000}){1000}" })).is_err());
        assert!(schema(json!({ "pattern": "(a)\\1" })).is_err());
        assert!(schema(json!({ "pattern": "^[\\w.-]{1,64}$" })).is_ok());
        let many = json!({ "allOf": vec![json!({ "pattern": "a" }); 17] });
        assert!(problem(many).contains("patterns"));
    }

    #[test]
    fn formats_are_not_checked() {
        let dialect = "http://json-schema.org/draft-07/schema#";
        let regex = schema(json!({ "$schema": dialect, "format": "regex" })).unwrap();
        assert_eq!(regex.check(&json!("(")), Ok(()));
    }

    #[test]
    fn a_value_that_takes_too_many_steps_is_refused() {
        let checks: Vec<Value> = (0..1000).map(|minimum| json!({ "minimum": -minimum })).collect();
        let wide = schema(json!({ "items": { "allOf": checks } })).unwrap();
        assert_eq!(wide.check(&json!([1, 2, 3])), Ok(()));
        assert!(wide.check(&json!(vec![1; 100_000])).is_err());
    }
}
