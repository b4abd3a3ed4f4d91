//! Disks: file systems of a fixed size, one for each workspace. The size is the quota.

use std::fmt;
use std::str::FromStr;

use super::FieldError;

/// Whether workspaces must have a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiskQuota {
    /// If the engine's machine supports it. Otherwise each sandbox reports that it has no quota.
    #[default]
    Auto,
    /// The daemon does not start without it.
    Required,
    /// Never.
    Off,
}

impl DiskQuota {
    /// Reads a setting.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "required" => Some(Self::Required),
            "off" => Some(Self::Off),
            _ => None,
        }
    }
}

/// A disk: a file system image in the daemon's volume of disks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Disk {
    name: String,
    uuid: String,
}

impl Disk {
    /// Longest name.
    const MAX_NAME_BYTES: usize = 64;

    /// Characters of a UUID in its usual form (RFC 9562 section 4).
    const UUID_CHARS: usize = 36;

    /// Checks both values, because they come from labels and from a helper. A name consists of letters, digits and
    /// `_`.
    pub fn new(name: &str, uuid: &str) -> Result<Self, FieldError> {
        if !Self::is_name(name) {
            return Err(FieldError::new("disk.name", "must be 1 to 64 letters, digits or `_`"));
        }
        if uuid.len() != Self::UUID_CHARS
            || !uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        {
            return Err(FieldError::new("disk.uuid", "must be a UUID"));
        }
        Ok(Self { name: name.to_owned(), uuid: uuid.to_ascii_lowercase() })
    }

    /// Whether a disk can have this name. Such a name contains no path and no line break.
    pub fn is_name(name: &str) -> bool {
        (1..=Self::MAX_NAME_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    }

    /// Name of the disk, unique among the disks of its daemon.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// UUID of the file system, in lower case.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.uuid)
    }
}

impl FromStr for Disk {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let (name, uuid) = text.split_once(':').unwrap_or((text, ""));
        Self::new(name, uuid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_survives_a_round_trip_and_contains_no_path() {
        let uuid = "3F2504E0-4f89-41d3-9a0c-0305e82c3301";
        let disk = Disk::new("dsk_0123456789abcdef", uuid).unwrap();
        assert_eq!(disk.to_string().parse(), Ok(disk));
        for (name, uuid) in [("../x", uuid), ("", uuid), ("a b", uuid), ("a", ""), ("a", "not-a-uuid")] {
            assert!(Disk::new(name, uuid).is_err(), "{name} {uuid}");
        }
    }
}
