//! Operations of the document.

use serde_json::Value;

/// Iterates over every operation.
pub(super) fn operations(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let items = document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    items.filter_map(Value::as_object_mut).flat_map(|item| item.values_mut())
}
