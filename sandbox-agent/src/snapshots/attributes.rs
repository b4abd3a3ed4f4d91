//! Extended attributes (xattr(7)) of files and directories.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

use bytes::Bytes;
use prost::Message;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use snapshot_format::tree::Attribute;

/// Maximum size of a list of names, and of a value, in bytes (`XATTR_LIST_MAX`, `XATTR_SIZE_MAX`).
const MAX_BYTES: usize = 64 * 1024;

/// The namespaces that the sandbox's user may write.
fn is_kept(name: &[u8]) -> bool {
    name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_")
}

/// Returns the attributes of an open file or directory, in the order of their names.
pub(super) fn of(file: impl AsFd) -> io::Result<Vec<Attribute>> {
    let mut names = Vec::new();
    match list(&file, &mut names) {
        Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut attributes = Vec::new();
    for name in names.split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        if !is_kept(name.to_bytes()) {
            continue;
        }
        match value_of(&file, name) {
            Ok(value) => attributes.push(Attribute { name: Bytes::copy_from_slice(name.to_bytes()), value }),
            // Removed since the names were listed.
            Err(Errno::NODATA) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let bytes: usize = attributes.iter().map(Message::encoded_len).sum();
    if bytes > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file has too many attributes"));
    }
    attributes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(attributes)
}

/// Whether a file has any. Needs no permission.
pub(super) fn has_any(file: impl AsFd) -> io::Result<bool> {
    match rustix::fs::flistxattr_query(&file) {
        Ok(bytes) => Ok(bytes > 0),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn list(file: impl AsFd, names: &mut Vec<u8>) -> Result<usize, Errno> {
    // Nearly all files have none, and the size costs no memory.
    if rustix::fs::flistxattr_query(&file)? == 0 {
        return Ok(0);
    }
    names.resize(MAX_BYTES, 0);
    let length = rustix::fs::flistxattr(&file, &mut names[..])?;
    names.truncate(length);
    Ok(length)
}

fn value_of(file: impl AsFd, name: &CStr) -> Result<Bytes, Errno> {
    let mut value = vec![0; MAX_BYTES];
    let length = rustix::fs::fgetxattr(file, name, &mut value[..])?;
    value.truncate(length);
    value.shrink_to_fit();
    Ok(value.into())
}

/// Gives an open file exactly these attributes.
pub(super) fn set(file: impl AsFd, attributes: &[Attribute]) -> io::Result<()> {
    let present = of(&file)?;
    for old in &present {
        if !attributes.iter().any(|attribute| attribute.name == old.name) {
            rustix::fs::fremovexattr(&file, &old.name[..])?;
        }
    }
    for attribute in attributes.iter().filter(|attribute| !present.contains(attribute)) {
        rustix::fs::fsetxattr(&file, &attribute.name[..], &attribute.value, XattrFlags::empty())?;
    }
    Ok(())
}
