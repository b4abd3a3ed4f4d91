//! The definition of a volume: which disk, over which base, for which user. Every value is checked before it becomes part of a
//! path.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::limits;

/// Length of a base's digest: the hexadecimal digits of 32 bytes.
const DIGEST_CHARS: usize = 64;

/// The name of a volume. It is never a path: its first character is a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct VolumeName(String);

impl VolumeName {
    pub(crate) fn parse(name: &str) -> Result<Self, Fault> {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let begins_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if begins_well && name.len() <= limits::NAME_BYTES && name.bytes().all(is_inner) {
            return Ok(Self(name.to_owned()));
        }
        let allowed = "of a-z, A-Z, 0-9, _, - and ., and begin with a letter or digit";
        Err(Fault::Name { field: "the volume's name", max: limits::NAME_BYTES, allowed })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The parts of a volume. They never change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Raw")]
pub(crate) struct Definition {
    disk: String,
    base: String,
    uid: u32,
}

/// A definition before its values are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    disk: String,
    base: String,
    uid: u32,
}

impl TryFrom<Raw> for Definition {
    type Error = Fault;

    fn try_from(raw: Raw) -> Result<Self, Fault> {
        Self::new(raw.disk, raw.base, raw.uid)
    }
}

impl Definition {
    /// Reads the options of a create request.
    pub(crate) fn from_options(options: &BTreeMap<String, String>) -> Result<Self, Fault> {
        let option = |name: &'static str| options.get(name).ok_or(Fault::Missing(name));
        let (disk, base, uid) = (option("disk")?, option("base")?, option("uid")?);
        if options.len() > 3 {
            return Err(Fault::Unknown);
        }
        // Only digits, so that one number has one spelling.
        let is_number = uid.bytes().all(|byte| byte.is_ascii_digit());
        let uid = uid.parse().ok().filter(|_| is_number).ok_or(Fault::Uid)?;
        Self::new(disk.clone(), base.clone(), uid)
    }

    fn new(disk: String, base: String, uid: u32) -> Result<Self, Fault> {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !((1..=limits::DISK_NAME_BYTES).contains(&disk.len()) && disk.bytes().all(is_inner)) {
            let allowed = "of a-z, A-Z, 0-9 and _";
            return Err(Fault::Name { field: "disk", max: limits::DISK_NAME_BYTES, allowed });
        }
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if !(base.len() == DIGEST_CHARS && base.bytes().all(is_digit)) {
            let allowed = "and exactly 64, of 0-9 and a-f";
            return Err(Fault::Name { field: "base", max: DIGEST_CHARS, allowed });
        }
        if !(1..=limits::MAX_UID).contains(&uid) {
            return Err(Fault::Uid);
        }
        Ok(Self { disk, base, uid })
    }

    pub(crate) fn disk(&self) -> &str {
        &self.disk
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(disk: &str, base: &str, uid: &str) -> BTreeMap<String, String> {
        [("disk", disk), ("base", base), ("uid", uid)].map(|(a, b)| (a.to_owned(), b.to_owned())).into()
    }

    #[test]
    fn a_name_cannot_leave_its_directory() {
        assert!(VolumeName::parse("sandboxd-sbx_0123456789abcdef").is_ok());
        let long = "x".repeat(limits::NAME_BYTES + 1);
        for name in ["", ".", "..", ".new", "a/b", "/a", "a b", "a\0", "-a", "ä", &long] {
            assert!(VolumeName::parse(name).is_err(), "{name}");
        }
    }

    #[test]
    fn options_are_checked() {
        let base = "0f".repeat(32);
        let good = options("dsk_1", &base, "20000");
        let definition = Definition::from_options(&good).unwrap();
        assert_eq!((definition.disk(), definition.base(), definition.uid()), ("dsk_1", &*base, 20_000));
        for bad in [
            options("../x", &base, "20000"),
            options("", &base, "20000"),
            options("dsk_1", &base.to_uppercase(), "20000"),
            options("dsk_1", "0f", "20000"),
            options("dsk_1", &base, "0"),
            options("dsk_1", &base, "+20000"),
            options("dsk_1", &base, "65534"),
            options("dsk_1", &base, "4294967296"),
        ] {
            assert!(Definition::from_options(&bad).is_err(), "{bad:?}");
        }
        for name in ["disk", "base", "uid"] {
            let mut fewer = good.clone();
            fewer.remove(name);
            assert!(
                matches!(Definition::from_options(&fewer), Err(Fault::Missing(missing)) if missing == name)
            );
        }
        let mut more = good;
        more.insert("o".to_owned(), "suid".to_owned());
        assert!(matches!(Definition::from_options(&more), Err(Fault::Unknown)));
    }

    #[test]
    fn a_stored_definition_is_checked_too() {
        let base = "0f".repeat(32);
        let text = format!(r#"{{"disk":"dsk_1","base":"{base}","uid":20000}}"#);
        let definition: Definition = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&definition).unwrap(), text);
        for (from, to) in [("dsk_1", "../x"), ("20000", "0"), ("0f", "0F"), ("\"uid\"", "\"gid\"")] {
            assert!(serde_json::from_str::<Definition>(&text.replace(from, to)).is_err(), "{to}");
        }
    }
}
