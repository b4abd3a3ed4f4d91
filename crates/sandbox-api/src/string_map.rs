//! Names with a text each.

use std::collections::BTreeMap;

/// String pairs, sorted by name.
pub type StringMap = BTreeMap<String, String>;
