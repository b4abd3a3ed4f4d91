//! Names of objects in the store.
//!
//! A name is the path of the object, encrypted: 16 bytes of its keyed BLAKE3, and the path combined with the keystream that
//! another keyed BLAKE3 makes of these 16 bytes. (This is a synthetic nonce, as in RFC 5297.) So the same path always has the
//! same name and is found without a list, and a list of names can be read with the key, and only with it. The first part of a
//! path, such as `packs`, becomes a group, so that the packs are listed without the manifests.

use blake3::Hasher;
use object_store::path::Path;
use secrecy::{ExposeSecret, SecretBox};

use crate::key::{KEY_BYTES, Key, hex, parse_hex};

const TAG_BYTES: usize = 16;

/// Encrypts and decrypts names with one key.
#[derive(Debug)]
pub(crate) struct Names {
    groups: SecretBox<[u8; KEY_BYTES]>,
    tags: SecretBox<[u8; KEY_BYTES]>,
    streams: SecretBox<[u8; KEY_BYTES]>,
}

impl Names {
    pub(crate) fn new(key: &Key) -> Self {
        Self {
            groups: key.derive("sandboxd 2026 snapshots: groups of names"),
            tags: key.derive("sandboxd 2026 snapshots: tags of names"),
            streams: key.derive("sandboxd 2026 snapshots: keystreams of names"),
        }
    }

    /// The group of all paths with this first part.
    pub(crate) fn group(&self, first: &str) -> String {
        hex(&tag(&self.groups, first.as_bytes()))
    }

    /// The name of a path.
    pub(crate) fn seal(&self, path: &Path) -> String {
        let tag = tag(&self.tags, path.as_ref().as_bytes());
        let mut bytes = path.as_ref().as_bytes().to_vec();
        self.combine(&tag, &mut bytes);
        hex(&tag) + &hex(&bytes)
    }

    /// The path of a name. `None` if it is not a name that this key has made.
    pub(crate) fn open(&self, name: &str) -> Option<Path> {
        let bytes = parse_hex(name)?;
        let (found, sealed) = bytes.split_first_chunk::<TAG_BYTES>()?;
        let mut path = sealed.to_vec();
        self.combine(found, &mut path);
        let path = String::from_utf8(path).ok()?;
        (tag(&self.tags, path.as_bytes()) == *found).then(|| Path::parse(&path).ok())?
    }

    /// Encrypts or decrypts the bytes of a path.
    fn combine(&self, tag: &[u8; TAG_BYTES], bytes: &mut [u8]) {
        let mut stream = vec![0; bytes.len()];
        Hasher::new_keyed(self.streams.expose_secret()).update(tag).finalize_xof().fill(&mut stream);
        bytes.iter_mut().zip(stream).for_each(|(byte, key)| *byte ^= key);
    }
}

fn tag(key: &SecretBox<[u8; KEY_BYTES]>, text: &[u8]) -> [u8; TAG_BYTES] {
    let hash = blake3::keyed_hash(key.expose_secret(), text);
    let mut tag = [0; TAG_BYTES];
    tag.copy_from_slice(&hash.as_bytes()[..TAG_BYTES]);
    tag
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(key: u8) -> Names {
        Names::new(&Key::new([key; KEY_BYTES]))
    }

    #[test]
    fn a_name_is_read_only_with_its_key() {
        let path = Path::from("manifests/snap_1");
        let name = names(1).seal(&path);
        assert_eq!(name, names(1).seal(&path));
        assert_eq!(names(1).open(&name), Some(path.clone()));
        assert_eq!(names(2).open(&name), None);
        assert_ne!(names(2).seal(&path), name);
        assert_ne!(names(1).group("packs"), names(1).group("manifests"));
        assert_ne!(names(1).group("packs"), names(2).group("packs"));
    }

    /// Stores keep these names. Other implementations of the algorithms make the same.
    #[test]
    fn a_name_is_fixed() {
        let name = names(1).seal(&Path::from("packs/00/abc"));
        assert_eq!(name, "8864e81d8b53359dbc37fbc1488b128e695329adfe4715a50d0c6944");
    }

    /// S3 allows 1024 bytes. The longest path is that of a pack.
    #[test]
    fn the_longest_key_is_not_too_long_for_s3() {
        let pack = Path::from(format!("packs/00/{}", "0".repeat(64)));
        let folder = sandboxd_model::limits::MAX_REMOTE_FOLDER;
        let key =
            folder + "/default/objects//".len() + names(1).group("packs").len() + names(1).seal(&pack).len();
        assert!(key < 1024, "{key}");
    }

    proptest! {
        #[test]
        fn a_changed_name_is_not_read(at: prop::sample::Index, digit in 0..16_u8) {
            let name = names(1).seal(&Path::from("packs/00/abc"));
            let mut changed = name.clone().into_bytes();
            let at = at.index(changed.len());
            changed[at] = char::from_digit(digit.into(), 16).unwrap() as u8;
            let changed = String::from_utf8(changed).unwrap();
            prop_assert_eq!(names(1).open(&changed).is_some(), changed == name);
        }

        #[test]
        fn any_name_is_read_without_a_panic(name: String) {
            drop(names(1).open(&name));
        }
    }
}
