//! Splits long replies into messages.

use crate::limits::MESSAGE_BYTES;

/// Splits items into messages of limited size.
pub(super) fn in_messages<T>(items: Vec<T>, bytes_of: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut messages = vec![Vec::new()];
    let mut bytes = 0;
    for item in items {
        bytes += bytes_of(&item);
        if bytes > MESSAGE_BYTES {
            bytes = bytes_of(&item);
            messages.push(Vec::new());
        }
        if let Some(message) = messages.last_mut() {
            message.push(item);
        }
    }
    messages
}
