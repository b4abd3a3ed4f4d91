//! Paths of packs in the object store.

use object_store::path::Path;
use snapshot_format::Hash;

/// Prefix of the paths of packs.
pub(crate) const PACKS: &str = "packs";

/// Prefix of the paths of packs that a check has set aside.
pub(crate) const QUARANTINE: &str = "quarantine";

/// The first two hexadecimal digits of a name, which are the directory of a pack.
pub(crate) fn prefix_of_byte(byte: u8) -> String {
    format!("{byte:02x}")
}

/// Path of a pack: `packs/<2 digits>/<64 digits>`.
pub(crate) fn pack_path(name: Hash) -> Path {
    let prefix = prefix_of_byte(name.as_bytes()[0]);
    Path::from_iter([PACKS, &prefix, &name.to_string()])
}

/// Path of a pack in quarantine.
pub(crate) fn quarantine_path(name: Hash) -> Path {
    Path::from_iter([QUARANTINE, &name.to_string()])
}

/// Name of the pack at a path. `None` if it is not a pack's path.
pub(crate) fn pack_name(path: &Path) -> Option<Hash> {
    let digits = path.filename()?;
    let mut bytes = [0; Hash::BYTES];
    if digits.len() != 2 * bytes.len() || !digits.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    let name = Hash::from_bytes(bytes);
    (pack_path(name) == *path).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_is_found_by_its_path() {
        let name = Hash::of(b"");
        assert!(pack_path(name).as_ref().starts_with("packs/af/af1349b9"));
        assert_eq!(pack_name(&pack_path(name)), Some(name));
        for other in
            ["packs/af/x", "packs/00/af1349", &format!("packs/00/{name}"), &format!("packs/af/{name}/a")]
        {
            assert_eq!(pack_name(&Path::from(other)), None, "{other}");
        }
    }
}
