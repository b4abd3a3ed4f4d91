//! A remote store of snapshots: where it is, and the keys that protect it.

use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretBox, SecretString};

use crate::limits;

/// Size of a master key in bytes.
pub const MASTER_KEY_BYTES: usize = 32;

/// A bucket of an S3-compatible server, and what it takes to use it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RemoteStore {
    /// The bucket, and the folder in it.
    pub location: RemoteLocation,
    /// URL of the server. `None` is that of AWS in the region.
    pub endpoint: Option<String>,
    /// Name of the region.
    pub region: String,
    /// Id of the access key.
    pub access_key_id: String,
    /// The access key's secret.
    pub secret_access_key: SecretString,
    /// The keys that protect the keys of the objects.
    pub master_keys: MasterKeys,
}

/// A bucket and a folder in it: `s3://bucket/folder`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteLocation {
    bucket: String,
    folder: String,
}

impl RemoteLocation {
    /// Parses `s3://bucket` or `s3://bucket/folder`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fault = |problem: &str| format!("must be s3://BUCKET or s3://BUCKET/FOLDER; {problem}");
        let rest = text.strip_prefix("s3://").ok_or_else(|| fault("it does not begin with s3://"))?;
        let (bucket, folder) = rest.split_once('/').unwrap_or((rest, ""));
        let folder = folder.trim_end_matches('/');
        if !is_bucket(bucket) {
            return Err(fault("the bucket must have 3 to 63 letters, digits, dots and dashes"));
        }
        if !folder.is_empty() && !folder.split('/').all(is_folder) {
            return Err(fault("the folder may have letters, digits, dots, dashes and underscores"));
        }
        if folder.len() > limits::MAX_REMOTE_FOLDER {
            let most = limits::MAX_REMOTE_FOLDER;
            return Err(fault(&format!("the folder must have at most {most} characters")));
        }
        Ok(Self { bucket: bucket.to_owned(), folder: folder.to_owned() })
    }

    /// Name of the bucket.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Path of the folder, without a slash at either end. Empty is the bucket itself.
    pub fn folder(&self) -> &str {
        &self.folder
    }
}

impl fmt::Display for RemoteLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.folder.is_empty() { "" } else { "/" };
        write!(f, "s3://{}{separator}{}", self.bucket, self.folder)
    }
}

fn is_bucket(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
    (3..=63).contains(&name.len()) && name.bytes().all(is_legal)
}

fn is_folder(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && name != "." && name != ".." && name.bytes().all(is_legal)
}

/// Master keys. The first one protects new keys, and the others still open what they have protected. Never empty. Cheap to
/// clone.
#[derive(Clone)]
pub struct MasterKeys(Arc<[SecretBox<[u8; MASTER_KEY_BYTES]>]>);

impl MasterKeys {
    /// Parses the content of a file: one key per line, as 64 hexadecimal digits. Empty lines and lines that begin with `#` are
    /// skipped. The error names the line, and never shows it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut keys: Vec<SecretBox<[u8; MASTER_KEY_BYTES]>> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fault = || format!("line {number} must have {} hexadecimal digits", 2 * MASTER_KEY_BYTES);
            let key = parse_key(line).ok_or_else(fault)?;
            if keys.iter().any(|known| known.expose_secret() == key.expose_secret()) {
                return Err(format!("line {number} repeats the key of an earlier line"));
            }
            keys.push(key);
        }
        match keys.len() {
            0 => Err("must have at least one key, such as the output of `openssl rand -hex 32`".into()),
            count if count > limits::MAX_MASTER_KEYS => {
                Err(format!("must have at most {} keys", limits::MAX_MASTER_KEYS))
            }
            _ => Ok(Self(keys.into())),
        }
    }

    /// The keys, the current one first.
    pub fn iter(&self) -> impl Iterator<Item = &SecretBox<[u8; MASTER_KEY_BYTES]>> {
        self.0.iter()
    }
}

impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} keys]", self.0.len())
    }
}

fn parse_key(digits: &str) -> Option<SecretBox<[u8; MASTER_KEY_BYTES]>> {
    if digits.len() != 2 * MASTER_KEY_BYTES || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut key = Box::new([0; MASTER_KEY_BYTES]);
    for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    Some(SecretBox::new(key))
}

/// Why the store of snapshots cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// It does not answer, or fails.
    Unavailable,
    /// It is being opened, and its index may have to be built.
    Opening,
    /// It rejects the access key.
    Denied,
    /// No master key opens its data key.
    WrongKey,
    /// It does not have the data key of the recorded snapshots.
    LostKey,
    /// Its data key or the name of its owner is damaged.
    DamagedKey,
    /// Another installation uses it.
    Owned,
    /// The recorded snapshots are in another store.
    OtherStore,
    /// The index of its chunks, or the system, fails.
    Failed,
}

impl StoreFault {
    /// The fault as responses name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "store_unavailable",
            Self::Opening => "store_opening",
            Self::Denied => "store_denied",
            Self::WrongKey => "key_wrong",
            Self::LostKey => "key_lost",
            Self::DamagedKey => "key_damaged",
            Self::Owned => "store_owned",
            Self::OtherStore => "store_changed",
            Self::Failed => "store_failed",
        }
    }

    /// The fault as a sentence for a client.
    pub fn message(self) -> &'static str {
        match self {
            Self::Unavailable => "the store of snapshots does not answer; try again later",
            Self::Opening => "the store of snapshots is being opened; try again later",
            Self::Denied => "the store of snapshots rejects the daemon's access key",
            Self::WrongKey => {
                "no key of the daemon opens the store of snapshots; see SANDBOXD_SNAPSHOT_KEY_FILE"
            }
            Self::LostKey => {
                "the store of snapshots does not have their key; it was emptied, or SANDBOXD_SNAPSHOT_STORE is another one"
            }
            Self::DamagedKey => "the key in the store of snapshots is damaged",
            Self::Owned => "another installation uses the store of snapshots",
            Self::OtherStore => "the snapshots are in another store than SANDBOXD_SNAPSHOT_STORE says",
            Self::Failed => "the store of snapshots cannot be opened",
        }
    }

    /// What an operator can do, if that is known.
    pub fn advice(self) -> Option<&'static str> {
        match self {
            Self::Unavailable | Self::Opening | Self::Failed => None,
            Self::Denied => Some(
                "check SANDBOXD_SNAPSHOT_ACCESS_KEY_ID, SANDBOXD_SNAPSHOT_SECRET_ACCESS_KEY and the rights of the key",
            ),
            Self::WrongKey => {
                Some("add the key that the error names to SANDBOXD_SNAPSHOT_KEY_FILE and start again")
            }
            Self::LostKey => Some(
                "check SANDBOXD_SNAPSHOT_STORE and restore the objects below `keys`; nothing is removed meanwhile",
            ),
            Self::DamagedKey => Some("restore the object that the error names from a copy"),
            Self::Owned => Some(
                "give each installation a folder of its own; if the other one is permanently lost, delete the object that the error names",
            ),
            Self::OtherStore => Some(
                "set SANDBOXD_SNAPSHOT_STORE as before, or delete the snapshots before the store is changed",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_bucket_and_a_folder() {
        let location = |text| {
            RemoteLocation::parse(text).map(|location| (location.bucket.clone(), location.folder.clone()))
        };
        assert_eq!(location("s3://snapshots"), Ok(("snapshots".into(), String::new())));
        assert_eq!(location("s3://snap-1/a/b_c/"), Ok(("snap-1".into(), "a/b_c".into())));
        assert_eq!(RemoteLocation::parse("s3://snap-1/a/").unwrap().to_string(), "s3://snap-1/a");
        let long = format!("s3://abc/{}", "x".repeat(limits::MAX_REMOTE_FOLDER + 1));
        for bad in
            ["", "abc", "http://abc", "s3://", "s3://ab", "s3://a b c", "s3://abc/../d", "s3://abc//d", &long]
        {
            assert!(location(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_are_read_in_order_and_never_shown() {
        let (one, two) = ("0f".repeat(32), "F0".repeat(32));
        let keys = MasterKeys::parse(&format!("# current\n{one}\n\n{two}\n")).unwrap();
        let first: Vec<u8> = keys.iter().map(|key| key.expose_secret()[0]).collect();
        assert_eq!(first, [0x0f, 0xf0]);
        assert_eq!(format!("{keys:?}"), "[2 keys]");
        let problem = |text: &str| MasterKeys::parse(text).unwrap_err();
        assert!(problem("# none").contains("openssl rand -hex 32"));
        assert!(problem(&format!("{one}\n{one}")).starts_with("line 2 repeats"));
        for bad in [&one[1..], &format!("{one}0"), &"zz".repeat(32)] {
            let problem = problem(bad);
            assert!(problem.starts_with("line 1 must") && !problem.contains(bad), "{problem}");
        }
        let many: Vec<String> = (0..=limits::MAX_MASTER_KEYS).map(|n| format!("{n:064x}")).collect();
        assert!(problem(&many.join("\n")).starts_with("must have at most"));
    }
}
