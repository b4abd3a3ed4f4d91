//! Faults of entries that an image cannot have.

use crate::{MAX_NODES, MAX_TEXT_BYTES};

/// Why an image cannot have a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A name that no directory can have.
    #[error("a name must have 1 to 255 bytes, no slash and no NUL, and be neither . nor ..")]
    Name,
    /// Two entries of a directory have the same name.
    #[error("a directory has two entries of the same name")]
    Duplicate,
    /// A target that no link can have.
    #[error("the target of a symbolic link must have 1 to 4095 bytes and no NUL")]
    Target,
    /// The parent of an entry is not a directory, or a hard link leads to one.
    #[error("an entry has a parent that is not a directory, or a hard link leads to a directory")]
    Kind,
    /// Mode or time are out of range.
    #[error("a mode has unknown bits, or a time a second of nanoseconds")]
    Attributes,
    /// An attribute of another namespace, or too many bytes of them.
    #[error("a file has an extended attribute of an unknown namespace, or more than 64 KiB of them")]
    Xattr,
    /// An access control list that names a user or group.
    #[error("an access control list names a user or group")]
    NamedUser,
    /// A file is too large.
    #[error("a file is larger than 16 TiB")]
    FileTooLarge,
    /// The tree has too many files.
    #[error("the tree has more than {MAX_NODES} files")]
    TooManyNodes,
    /// The tree has too many bytes of names.
    #[error("the names, links and attributes of the tree have more than {MAX_TEXT_BYTES} bytes")]
    TooMuchText,
    /// The image would have more blocks than a number of 32 bits can count.
    #[error("the image would be larger than 16 TiB")]
    ImageTooLarge,
}
