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
    lower: Option<Lower>,
}

/// What a disk is used over, for its whole life.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lower {
    base: String,
    driver: String,
}

impl Lower {
    /// Hexadecimal digits of a base's name.
    const BASE_CHARS: usize = 64;

    /// Longest name of a volume driver.
    const MAX_DRIVER_BYTES: usize = 128;

    /// Checks both values, because they come from labels. A base is named by 64 hexadecimal digits in lower case.
    pub fn new(base: &str, driver: &str) -> Result<Self, FieldError> {
        if !Self::is_base(base) {
            return Err(FieldError::new("disk.base", "must be 64 hexadecimal digits in lower case"));
        }
        let is_driver = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
        if !((1..=Self::MAX_DRIVER_BYTES).contains(&driver.len()) && driver.bytes().all(is_driver)) {
            let problem = "must be 1 to 128 letters, digits, `-`, `_`, `.`, `:` or `/`";
            return Err(FieldError::new("disk.driver", problem));
        }
        Ok(Self { base: base.to_owned(), driver: driver.to_owned() })
    }

    /// Whether a base can have this name.
    pub fn is_base(name: &str) -> bool {
        name.len() == Self::BASE_CHARS && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }

    /// Name of the base.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The engine's name for the volume driver that mounts the disk over the base. The volume stays with it.
    pub fn driver(&self) -> &str {
        &self.driver
    }
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
        Ok(Self { name: name.to_owned(), uuid: uuid.to_ascii_lowercase(), lower: None })
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

    /// The same disk, used over a base.
    #[must_use]
    pub fn over(self, lower: Lower) -> Self {
        Self { lower: Some(lower), ..self }
    }

    /// What the disk is used over. `None` if it has all files itself.
    pub fn lower(&self) -> Option<&Lower> {
        self.lower.as_ref()
    }
}

/// Name and UUID, and the base and the driver if it has them, separated by colons.
impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.uuid)?;
        match &self.lower {
            Some(Lower { base, driver }) => write!(f, ":{base}:{driver}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Disk {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        // The driver's name may contain colons.
        let mut parts = text.splitn(4, ':');
        let mut next = || parts.next().unwrap_or_default();
        let (disk, base) = (Self::new(next(), next())?, next());
        if base.is_empty() { Ok(disk) } else { Ok(disk.over(Lower::new(base, next())?)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_survives_a_round_trip_and_contains_no_path() {
        let uuid = "3F2504E0-4f89-41d3-9a0c-0305e82c3301";
        let disk = Disk::new("dsk_0123456789abcdef", uuid).unwrap();
        assert_eq!(disk.to_string().parse(), Ok(disk.clone()));
        let base = "0f".repeat(32);
        let over = disk.over(Lower::new(&base, "sandboxd-volumes-12:ab").unwrap());
        assert_eq!(over.to_string().parse(), Ok(over));
        for (base, driver) in [(&base[1..], "a"), (&base, ""), (&base, "a b"), (&base.to_uppercase(), "a")] {
            assert!(Lower::new(base, driver).is_err(), "{base} {driver}");
        }
        for (name, uuid) in [("../x", uuid), ("", uuid), ("a b", uuid), ("a", ""), ("a", "not-a-uuid")] {
            assert!(Disk::new(name, uuid).is_err(), "{name} {uuid}");
        }
    }
}
