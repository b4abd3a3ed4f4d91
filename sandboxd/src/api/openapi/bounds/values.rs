//! Bounds of values.

use serde_json::{Value, json};

use super::kinds::Row;
use crate::model::limits::*;

pub(super) fn rows() -> Vec<Row> {
    vec![
        ("listValues", "limit", value_keys()),
        ("listValues", "prefix", value_prefix()),
        ("getValue", "key", value_key()),
        ("putValue", "key", value_key()),
        ("deleteValue", "key", value_key()),
    ]
}

fn value_keys() -> Value {
    json!({ "minimum": 1, "maximum": MAX_KEY_PAGE, "default": DEFAULT_KEY_PAGE })
}

fn value_prefix() -> Value {
    json!({ "maxLength": MAX_VALUE_KEY_BYTES, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$" })
}

fn value_key() -> Value {
    let not_dots = r"^(?!\.{1,2}$)[^\x00-\x1f\x7f-\x9f]+$";
    json!({ "minLength": 1, "maxLength": MAX_VALUE_KEY_BYTES, "pattern": not_dots })
}
