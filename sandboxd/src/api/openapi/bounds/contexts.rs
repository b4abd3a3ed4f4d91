//! Bounds of contexts.

use super::kinds::{Row, any_number, map, text, variable, with_default};
use crate::model::limits::*;

pub(super) fn rows() -> Vec<Row> {
    vec![
        ("OpenContext", "cwd", text(0, MAX_PATH_BYTES)),
        ("OpenContext", "env", map(MAX_ENV_ENTRIES, variable())),
        ("RunCode", "code", text(0, MAX_CODE_BYTES)),
        ("RunCode", "timeoutMs", with_default(any_number(), DEFAULT_COMMAND_TIMEOUT.as_millis() as u64)),
    ]
}
