//! Access control lists (linux/posix_acl_xattr.h). A list that names a user or group cannot be part of a base, because
//! a base is mapped to another user.

const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
const USER: u16 = 0x02;
const GROUP: u16 = 0x08;

/// Whether an access control list names a user or group, or cannot be read.
pub(crate) fn names_users(value: &[u8]) -> bool {
    let Some((_, entries)) = value.split_at_checked(HEADER_BYTES) else { return true };
    let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
    let is_named =
        |entry: &[u8; ENTRY_BYTES]| matches!(u16::from_le_bytes([entry[0], entry[1]]), USER | GROUP);
    !rest.is_empty() || entries.iter().any(is_named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_users_are_found() {
        let entry = |tag: u16| [&tag.to_le_bytes()[..], &[6, 0, 0xff, 0xff, 0xff, 0xff]].concat();
        let list =
            |tags: &[u16]| [vec![2, 0, 0, 0], tags.iter().flat_map(|tag| entry(*tag)).collect()].concat();
        assert!(!names_users(&list(&[0x01, 0x04, 0x20])));
        assert!(names_users(&list(&[0x01, USER, 0x04, 0x10, 0x20])));
        assert!(names_users(&list(&[0x01, 0x04, GROUP, 0x10, 0x20])));
        assert!(names_users(b"") && names_users(&list(&[0x01])[..9]));
    }
}
