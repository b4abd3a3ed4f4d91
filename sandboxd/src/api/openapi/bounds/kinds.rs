//! What the bounds of several subjects have in common.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use crate::model::limits::*;

/// A schema or operation, a field or parameter (empty for the schema itself), and its constraint.
pub(super) type Row = (&'static str, &'static str, Value);

pub(super) fn range(range: RangeInclusive<u64>) -> Value {
    json!({ "minimum": range.start(), "maximum": range.end() })
}

/// Any number, because the daemon clamps it to its own range.
pub(super) fn any_number() -> Value {
    json!({ "minimum": 0, "maximum": u64::MAX, "format": "uint64" })
}

pub(super) fn with_default(mut bound: Value, default: impl Into<Value>) -> Value {
    bound["default"] = default.into();
    bound
}

pub(super) fn one_of<const N: usize>(names: [&str; N], default: &str) -> Value {
    json!({ "enum": names.as_slice(), "default": default })
}

/// Text without NUL, with a length in bytes. A schema counts characters, of which there are never more than bytes.
pub(super) fn text(min: usize, max: usize) -> Value {
    json!({ "minLength": min, "maxLength": max, "pattern": "^[^\\u0000]*$" })
}

/// Python packages with versions.
pub(super) fn packages() -> Value {
    json!({ "maxItems": MAX_PACKAGES, "items": typed("string", text(1, MAX_REQUIREMENT_BYTES)) })
}

pub(super) fn argument() -> Value {
    let mut argument = text(0, MAX_SCRIPT_BYTES);
    argument["type"] = "string".into();
    argument
}

/// A constraint with its type, for the items of an array.
pub(super) fn typed(kind: &str, mut bound: Value) -> Value {
    bound["type"] = kind.into();
    bound
}

pub(super) fn map(max: usize, names: Value) -> Value {
    let values = json!({ "type": "string", "pattern": "^[^\\u0000]*$" });
    json!({ "maxProperties": max, "propertyNames": names, "additionalProperties": values })
}

pub(super) fn name() -> Value {
    json!({ "minLength": 1, "pattern": "^[^\\u0000]*$" })
}

pub(super) fn variable() -> Value {
    json!({ "minLength": 1, "pattern": "^[^=\\u0000]*$" })
}

/// Base64 in the form of RFC 4648 section 4, without stray bits.
pub(super) fn base64() -> Value {
    json!({
        "contentEncoding": "base64",
        "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$",
    })
}

pub(super) fn null_only() -> Value {
    json!({ "type": "null" })
}

/// Length of a page of a list.
pub(super) fn page() -> Value {
    json!({ "minimum": 1, "maximum": MAX_PAGE, "default": DEFAULT_PAGE })
}
