//! Lock files of all package managers.

use std::path::{Path, PathBuf};

use anyhow::Context;
use sandboxd_model::repository::PackageName;

use super::file::{self, MAX_LOCK_FILE_BYTES, readable};
use super::finding::Finding;
use super::manifest::Declared;
use super::wanted::Wanted;
use super::{bun, bun_binary, npm, pnpm, yarn};

type Reader = fn(&[u8], &Wanted) -> anyhow::Result<Option<Finding>>;

/// The lock files and their readers. In a directory with several, the first one that has the package counts.
const READERS: [(&str, Reader); 6] = [
    // It precedes the other one for npm.
    ("npm-shrinkwrap.json", npm::find),
    ("package-lock.json", npm::find),
    ("bun.lock", bun::find),
    ("bun.lockb", bun_binary::find),
    ("pnpm-lock.yaml", pnpm::find),
    ("yarn.lock", yarn::find),
];

/// Finds the package in the lock files of the nearest directory that has it.
pub(super) fn find(
    dirs: &[&Path],
    name: &PackageName,
    declared: Option<&Declared>,
) -> Option<(Finding, PathBuf)> {
    let specifier = declared.map(|declared| &declared.specifier);
    dirs.iter().find_map(|dir| {
        let wanted = Wanted { name, specifier, members: members(dirs.first()?, dir) };
        READERS.iter().find_map(|(file, reader)| {
            let file = dir.join(file);
            let finding = readable(read(&file, *reader, &wanted)).flatten()?;
            Some((finding, file))
        })
    })
}

fn read(file: &Path, reader: Reader, wanted: &Wanted) -> anyhow::Result<Option<Finding>> {
    let Some(content) = file::read(file, MAX_LOCK_FILE_BYTES)? else { return Ok(None) };
    reader(&content, wanted).with_context(|| file.display().to_string())
}

/// A path that is not Unicode is not that of a workspace.
fn members<'a>(current: &'a Path, dir: &Path) -> Vec<&'a str> {
    let relative = current.strip_prefix(dir).unwrap_or(Path::new(""));
    relative.ancestors().filter_map(Path::to_str).collect()
}
