//! The name of a base.

use std::fmt;

use prost::Message;
use snapshot_format::Content;

/// Part of every name. Another version of the images must have another one.
const VERSION: &str = "sandboxd base 1";

/// The name of a base: the hash of the tree that it is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BaseName([u8; 32]);

impl BaseName {
    /// The name of the base of a snapshot with this root directory.
    #[must_use]
    pub fn of(root: &Content) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(VERSION);
        hasher.update(&root.encode_to_vec());
        Self(*hasher.finalize().as_bytes())
    }

    /// The UUID of the image's file system.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&self.0[..16]);
        uuid
    }
}

/// 64 hexadecimal digits in lower case.
impl fmt::Display for BaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
