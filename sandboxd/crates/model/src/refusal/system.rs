//! Errors of the system as texts.

/// The system's message for an error number. Some errors have no number.
pub(super) fn system_message(errno: i32) -> String {
    if errno == 0 {
        "the system gave no reason".into()
    } else {
        std::io::Error::from_raw_os_error(errno).to_string()
    }
}
