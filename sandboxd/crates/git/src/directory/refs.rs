//! Reads the branches and tags of a git repository from its files (gitrepository-layout(5)).
//!
//! Objects are not read, except the beginning of tags in files of their own. A tag that is only in a pack keeps its own hash;
//! git finds its commit when it is fetched.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use flate2::read::ZlibDecoder;
use sandboxd_model::limits;
use sandboxd_model::repository::{Advertisement, CommitHash};

use super::open::{Kind, open_directory, read_small};
use super::walk::{EntryKind, Visited, Walk};
use crate::Error;

/// Folders of refs that are read.
const FOLDERS: [&str; 2] = ["refs/heads", "refs/tags"];

/// How a ref begins that names another one.
const SYMBOLIC: &str = "ref: ";

/// Refs by their full names.
type Refs = BTreeMap<String, CommitHash>;

/// Reads the refs below a directory of git.
pub(super) fn read(git: &OwnedFd, deadline: Instant) -> Result<Advertisement, Error> {
    let mut refs = packed(git)?;
    for folder in FOLDERS {
        add_loose(git, folder, deadline, &mut refs)?;
    }
    let head = read_small(git, &["HEAD"], limits::MAX_LOOSE_REF_BYTES)?.unwrap_or_default();
    let head = String::from_utf8_lossy(&head);
    let (head, head_ref) = match head.trim().strip_prefix(SYMBOLIC) {
        Some(name) => (refs.get(name).cloned(), Some(name.to_owned())),
        None => (hash_of(head.trim())?, None),
    };
    Ok(Advertisement { refs: refs.into_iter().collect(), head, head_ref })
}

/// The refs that git has joined in one file. A line `^<hash>` is the commit of the tag before it.
fn packed(git: &OwnedFd) -> Result<Refs, Error> {
    let text = read_small(git, &["packed-refs"], limits::MAX_LOOK_UP_BYTES)?.unwrap_or_default();
    if text.len() >= limits::MAX_LOOK_UP_BYTES {
        return Err(Error::TooLarge { max: limits::MAX_LOOK_UP_BYTES as u64 });
    }
    let text = String::from_utf8_lossy(&text);
    let mut refs = Refs::new();
    let mut last = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(peeled) = line.strip_prefix('^') {
            if let (Some(name), Some(commit)) = (last.take(), hash_of(peeled)?) {
                refs.insert(name, commit);
            }
            continue;
        }
        last = None;
        let Some((hash, name)) = line.split_once(' ') else { continue };
        if !FOLDERS.iter().any(|folder| Path::new(name).starts_with(folder)) {
            continue;
        }
        if let Some(hash) = hash_of(hash)? {
            add(&mut refs, name.to_owned(), hash)?;
            last = Some(name.to_owned());
        }
    }
    Ok(refs)
}

/// The refs that have files of their own. They precede packed ones.
fn add_loose(git: &OwnedFd, folder: &str, deadline: Instant, refs: &mut Refs) -> Result<(), Error> {
    let open = |parent: &OwnedFd, name: &std::ffi::CStr| match Kind::of(parent, name)? {
        Some(Kind::Directory) => {
            open_directory(parent, name).map(Some).map_err(|source| Error::Directory { source })
        }
        _ => Ok(None),
    };
    let name = if folder == FOLDERS[0] { c"heads" } else { c"tags" };
    let Some(parent) = open(git, c"refs")? else { return Ok(()) };
    let Some(root) = open(&parent, name)? else { return Ok(()) };
    Walk::new(u64::MAX, deadline).visit(&root, &mut |entry| {
        if entry.kind != EntryKind::File {
            return Ok(Visited::Taken);
        }
        // Names of git are UTF-8 in requests. Another name cannot be requested.
        let Some(path) = entry.path.to_str() else { return Ok(Visited::Taken) };
        let Some(content) = entry.open()? else { return Ok(Visited::Skipped) };
        let mut text = Vec::new();
        let read = content.take(limits::MAX_LOOSE_REF_BYTES as u64).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        // A file that is just being written is empty.
        if let (Ok(_), Some(hash)) = (read, hash_of(text.trim())?) {
            add(refs, format!("{folder}/{path}"), peeled(git, hash)?)?;
        }
        Ok(Visited::Taken)
    })?;
    Ok(())
}

fn add(refs: &mut Refs, name: String, hash: CommitHash) -> Result<(), Error> {
    refs.insert(name, hash);
    match refs.len() <= limits::MAX_REFS {
        true => Ok(()),
        false => Err(Error::Malformed("it has too many refs")),
    }
}

/// `None` if the text is something else, such as the name of another ref.
fn hash_of(text: &str) -> Result<Option<CommitHash>, Error> {
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Error::Unsupported("git uses SHA-256 there, which is not supported"));
    }
    Ok(text.parse().ok())
}

/// The commit of a tag whose object has a file of its own. Any other hash is returned as it is.
fn peeled(git: &OwnedFd, hash: CommitHash) -> Result<CommitHash, Error> {
    let mut found = hash;
    for _ in 0..limits::MAX_TAG_DEPTH {
        let (folder, name) = found.as_str().split_at(2);
        let Some(object) = read_small(git, &["objects", folder, name], limits::MAX_LOOSE_REF_BYTES)? else {
            break;
        };
        match named_by_tag(&object) {
            Some(named) => found = named,
            None => break,
        }
    }
    Ok(found)
}

/// What a tag names: `tag <size>\0object <hash>\n…`, deflated. `None` for another object.
fn named_by_tag(object: &[u8]) -> Option<CommitHash> {
    let mut head = Vec::new();
    // The file may be cut. What was inflated before is enough.
    let _ = ZlibDecoder::new(object).take(limits::MAX_LOOSE_REF_BYTES as u64).read_to_end(&mut head);
    let body = head.strip_prefix(b"tag ")?.splitn(2, |byte| *byte == 0).nth(1)?;
    let hash = body.strip_prefix(b"object ")?.get(..40)?;
    std::str::from_utf8(hash).ok()?.parse().ok()
}
