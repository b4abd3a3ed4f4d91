//! The dependencies in `package.json`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use sandboxd_model::repository::PackageName;
use serde_json::Value;

use super::file::{self, MAX_MANIFEST_BYTES, readable};
use super::specifier::Specifier;

/// Kinds of dependencies. The first one that has the package counts.
pub(super) const KINDS: [&str; 4] =
    ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];

/// What a `package.json` says about a package.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) specifier: Specifier,
    pub(super) file: PathBuf,
}

/// Finds the nearest `package.json` that has the package.
pub(super) fn find(dirs: &[&Path], name: &PackageName) -> Option<Declared> {
    dirs.iter().find_map(|dir| {
        let file = dir.join("package.json");
        let specifier = readable(read(&file, name)).flatten()?;
        Some(Declared { specifier, file })
    })
}

fn read(file: &Path, name: &PackageName) -> anyhow::Result<Option<Specifier>> {
    let Some(content) = file::read(file, MAX_MANIFEST_BYTES)? else { return Ok(None) };
    let manifest: Value = serde_json::from_slice(&content).with_context(|| file.display().to_string())?;
    let text = KINDS.iter().find_map(|kind| manifest.get(kind)?.get(name.as_str())?.as_str());
    Ok(text.map(|text| Specifier::parse(name, text)))
}
