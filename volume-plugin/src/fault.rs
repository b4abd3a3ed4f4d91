//! Why a request failed. The texts reach the operator through the engine's messages.

use std::io;

use crate::limits;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The request cannot be decoded.
    #[error("the request is not valid")]
    Request(#[source] serde_json::Error),
    /// A name that could be part of another path, or that is too long.
    #[error("{field} must have 1 to {max} characters {allowed}")]
    Name {
        /// The field.
        field: &'static str,
        /// Its maximum length.
        max: usize,
        /// Its allowed characters.
        allowed: &'static str,
    },
    /// An option is missing.
    #[error("the option {0} is missing: disk, base and uid are required")]
    Missing(&'static str),
    /// An unknown option.
    #[error("the option is not known: only disk, base and uid are")]
    Unknown,
    /// The user id is not in range.
    #[error("uid must be a number from 1 to {max}", max = limits::MAX_UID)]
    Uid,
    /// There are as many volumes as allowed.
    #[error("there are {max} volumes already, which is the limit", max = limits::VOLUMES)]
    TooMany,
    /// More containers use the volume than allowed.
    #[error("{max} containers use the volume already, which is the limit", max = limits::USERS)]
    TooManyUsers,
    /// No volume has this name.
    #[error("there is no volume of this name")]
    Absent,
    /// A volume has this name and other options.
    #[error("a volume of this name exists with other options")]
    Different,
    /// A definition's file cannot be decoded.
    #[error("the volume's definition cannot be read")]
    Definition(#[source] serde_json::Error),
    /// No image has the base's digest.
    #[error("there is no base {0}")]
    NoBase(String),
    /// The disk has files that belong over another base.
    #[error("the disk was used over another base, {0}")]
    OtherBase(String),
    /// The disk has no link to a device, so it is not attached.
    #[error("the disk {0} is not attached")]
    NotAttached(String),
    /// The device that the link names has another file than the disk's image.
    #[error("the link of the disk {0} does not lead to the disk's device")]
    OtherDevice(String),
    /// The kernel rejected a mount. Its explanation may be empty.
    #[error("the kernel cannot mount {what}{explanation}")]
    Mount {
        /// Which layer.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
        /// The kernel's explanation, with a separator before it.
        explanation: String,
    },
    /// A system call failed.
    #[error("cannot {step}")]
    Io {
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Fault {
    /// Returns a function that adds the step to an error.
    pub(crate) fn io<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { step, source: source.into() }
    }
}

/// Returns an error with its causes, as one line.
pub(crate) fn one_line(fault: &Fault) -> String {
    let mut text = fault.to_string();
    let mut next = std::error::Error::source(fault);
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    text.replace(['\n', '\r'], " ")
}
