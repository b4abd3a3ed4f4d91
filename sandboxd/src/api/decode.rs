//! Decodes JSON bodies and reports errors in the API's own terms.
//!
//! The decoder's messages name internal types and repeat input, which may be a script or a secret. Only the kind of
//! error, the field and the expected type are used.

use sandbox_api::object::Object;
use serde::de::DeserializeOwned;
use serde_json::Error;
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};

use crate::model::echo::cut;
use crate::model::{FieldError, limits};

/// Field name of an error that is in no field.
const BODY: &str = "body";

/// Decodes a body, which must be an object.
pub(super) fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, FieldError> {
    let mut decoder = serde_json::Deserializer::from_slice(json);
    let decoded = serde_path_to_error::deserialize(&mut decoder);
    let Object(value) = decoded.map_err(|error| fault(error.path(), error.inner()))?;
    decoder.end().map_err(|error| invalid_json(&error))?;
    Ok(value)
}

/// Like [`decode`], and refuses fields that the type does not have.
pub(super) fn decode_known<T: DeserializeOwned>(json: &[u8]) -> Result<T, FieldError> {
    let mut unknown = None;
    let mut note = |path: serde_ignored::Path<'_>| {
        let _ = unknown.get_or_insert_with(|| path.to_string());
    };
    let mut decoder = serde_json::Deserializer::from_slice(json);
    let decoded = serde_path_to_error::deserialize(serde_ignored::Deserializer::new(&mut decoder, &mut note));
    let Object(value) = decoded.map_err(|error| fault(error.path(), error.inner()))?;
    decoder.end().map_err(|error| invalid_json(&error))?;
    match unknown {
        Some(field) => Err(FieldError::new(cut(&field, limits::MAX_ECHO_BYTES), "is not known")),
        None => Ok(value),
    }
}

fn fault(path: &Path, error: &Error) -> FieldError {
    match error.classify() {
        Category::Data => wrong_value(path, &error.to_string()),
        Category::Eof => FieldError::new(BODY, format!("is cut off {}", position(error))),
        Category::Syntax | Category::Io => invalid_json(error),
    }
}

fn invalid_json(error: &Error) -> FieldError {
    let is_deep = error.to_string().starts_with("recursion limit exceeded");
    let problem = if is_deep { "is nested too deeply" } else { "is not JSON" };
    FieldError::new(BODY, format!("{problem} {}", position(error)))
}

fn position(error: &Error) -> String {
    format!("at line {}, column {}", error.line(), error.column())
}

/// Converts a message of the decoder, such as `missing field `path``, or `invalid type: string "two", expected u64 at
/// line 1 column 5`.
fn wrong_value(path: &Path, message: &str) -> FieldError {
    let object = field_of(path);
    let field = |name: &str| if object.is_empty() { name.to_owned() } else { format!("{object}.{name}") };
    let named = |start: &str| message.strip_prefix(start)?.split('`').next();
    if let Some(name) = named("missing field `") {
        return FieldError::new(field(name), "is missing");
    }
    if let Some(name) = named("duplicate field `") {
        return FieldError::new(field(name), "is given twice");
    }
    let expected = message.rsplit_once(", expected ").map(|(_, expected)| expected).unwrap_or_default();
    let [expected, problem] =
        [expected, message].map(|text| text.split(" at line ").next().unwrap_or_default());
    // The decoder's own messages begin otherwise. This one is of a wire type, and repeats no input.
    let problem = if problem.starts_with("must ") { problem.to_owned() } else { demand(expected) };
    FieldError::new(if object.is_empty() { BODY } else { &object }, problem)
}

/// Requirement of a value, from what the decoder expected.
fn demand(expected: &str) -> String {
    let is = match expected {
        "an object" | "a map" => "an object",
        "a sequence" => "an array",
        "a string" => "a string",
        "a boolean" => "true or false",
        "u64" => return format!("must be a whole number from 0 to {}", u64::MAX),
        "u32" => return format!("must be a whole number from 0 to {}", u32::MAX),
        _ => return "has the wrong type".to_owned(),
    };
    format!("must be {is}")
}

/// Field that a path leads to, in the client's notation. Empty for the body itself.
fn field_of(path: &Path) -> String {
    let mut field = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => field.push_str(&format!("[{index}]")),
            Segment::Map { key: name } | Segment::Enum { variant: name } => {
                let dot = if field.is_empty() { "" } else { "." };
                field.push_str(&format!("{dot}{name}"));
            }
            Segment::Unknown => break,
        }
    }
    field
}

#[cfg(test)]
mod tests {
    use sandbox_api::files::WriteFiles;
    use sandbox_api::quota::ChangeProject;
    use sandbox_api::sandbox::CreateSandbox;

    use super::*;

    fn fault<T: DeserializeOwned>(json: &str) -> String {
        match decode::<T>(json.as_bytes()) {
            Err(fault) => fault.to_string(),
            Ok(_) => panic!("expected a fault in {json}"),
        }
    }

    #[test]
    fn a_fault_names_its_field() {
        let fault = fault::<CreateSandbox>;
        assert_eq!(fault("{}"), "`sessionKey` is missing");
        assert_eq!(fault(r#"{"sessionKey":1}"#), "`sessionKey` must be a string");
        let both =
            r#"{"sessionKey":"k","workspace":{"snapshotId":"snap_0123456789abcdef","repository":"a/b"}}"#;
        assert_eq!(fault(both), "`workspace` must have either snapshotId or repository");
        let number = "must be a whole number from 0 to 18446744073709551615";
        let vcpus = r#"{"sessionKey":"k","resources":{"vcpus":", expected a string at line 1"}}"#;
        assert_eq!(fault(vcpus), format!("`resources.vcpus` {number}"));
        let number = "must be a whole number from 0 to 4294967295";
        assert_eq!(fault(r#"{"sessionKey":"k","ports":[1,"x"]}"#), format!("`ports[1]` {number}"));
        assert_eq!(fault(r#"{"sessionKey":"k","ports":{}}"#), "`ports` must be an array");
        assert_eq!(fault(r#"{"sessionKey":"k","resources":[]}"#), "`resources` must be an object");
        assert_eq!(fault(r#"{"env":{"A":1}}"#), "`env.A` must be a string");
        assert_eq!(fault(r#"{"sessionKey":"k","sessionKey":"k"}"#), "`sessionKey` is given twice");
        let twice = r#"{"sessionKey":"k","resources":{"pids":16,"pids":16}}"#;
        assert_eq!(fault(twice), "`resources.pids` is given twice");
        let files = super::tests::fault::<WriteFiles>;
        assert_eq!(files(r#"{"files":[{"path":"a"}]}"#), "`files[0].contentBase64` is missing");
        assert_eq!(files(r#"{"files":[["a",""]]}"#), "`files[0]` must be an object");
    }

    #[test]
    fn an_unknown_field_is_named_where_it_matters() {
        let fault = |json: &str| match decode_known::<ChangeProject>(json.as_bytes()) {
            Err(fault) => fault.to_string(),
            Ok(found) => panic!("expected a fault in {json}: {found:?}"),
        };
        assert_eq!(
            fault(r#"{"quotas":{"runingSandboxes":2,"vcpus":1}}"#),
            "`quotas.runingSandboxes` is not known"
        );
        assert_eq!(fault(r#"{"quotas":{},"quota":{}}"#), "`quota` is not known");
        // As without it.
        assert_eq!(fault("{}"), "`quotas` is missing");
        assert_eq!(fault(r#"{"quotas":[]}"#), "`quotas` must be an object");
        let number = "must be a whole number from 0 to 18446744073709551615";
        assert_eq!(fault(r#"{"quotas":{"vcpus":"x"}}"#), format!("`quotas.vcpus` {number}"));
        assert_eq!(fault(r#"{"quotas":{}} more"#), "`body` is not JSON at line 1, column 15");
        let long = format!(r#"{{"quotas":{{"{}":1}}}}"#, "x".repeat(5_000));
        assert!(fault(&long).len() < 2 * limits::MAX_ECHO_BYTES);
        assert!(decode_known::<ChangeProject>(br#"{"quotas":{"vcpus":1}}"#).is_ok());
        assert!(decode::<CreateSandbox>(br#"{"sessionKey":"k","of-a-later-version":1}"#).is_ok());
    }

    #[test]
    fn a_fault_outside_of_fields_names_the_body() {
        let fault = fault::<CreateSandbox>;
        assert_eq!(fault("not json"), "`body` is not JSON at line 1, column 2");
        assert_eq!(fault("[]"), "`body` must be an object");
        assert_eq!(fault("null"), "`body` must be an object");
        assert_eq!(fault("\n{\"sessionKey\":\"x\""), "`body` is cut off at line 2, column 17");
        assert_eq!(fault(r#"{"sessionKey":"k"} more"#), "`body` is not JSON at line 1, column 20");
        let deep = format!(r#"{{"sessionKey":{}"#, "[".repeat(1000));
        assert_eq!(fault(&deep), "`sessionKey` must be a string");
    }
}
