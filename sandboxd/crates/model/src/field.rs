//! Checks of single fields of a request.

use std::ops::RangeInclusive;

use crate::FieldError;

/// Returns `value` if it is in `range`.
pub fn checked(field: &str, value: u64, range: RangeInclusive<u64>) -> Result<u64, FieldError> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(FieldError::new(field, format!("must be {} to {}", range.start(), range.end())))
}
