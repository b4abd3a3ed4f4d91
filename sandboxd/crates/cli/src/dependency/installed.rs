//! Packages in `node_modules`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use sandboxd_model::repository::PackageName;
use serde_json::Value;

use super::file::{self, MAX_MANIFEST_BYTES, readable};
use super::finding::Finding;
use super::range;

const NODE_MODULES: &str = "node_modules";

/// Looks in `node_modules` of each directory, as Node.js does.
pub(super) fn find(dirs: &[&Path], name: &PackageName) -> Option<(Finding, PathBuf)> {
    dirs.iter().find_map(|dir| {
        let modules = dir.join(NODE_MODULES);
        // The name has no segment that begins with a dot, so it does not lead out of the directory.
        let file = modules.join(name.as_str()).join("package.json");
        let finding = readable(read(&modules, &file, name)).flatten()?;
        Some((finding, file))
    })
}

fn read(modules: &Path, file: &Path, name: &PackageName) -> anyhow::Result<Option<Finding>> {
    let Some(content) = file::read(file, MAX_MANIFEST_BYTES)? else { return Ok(None) };
    let shown = || file.display().to_string();
    let real = fs::canonicalize(file).with_context(shown)?;
    if !is_installed(&real, modules) {
        return Ok(Some(Finding::Elsewhere(format!("linked to {}", real.display()))));
    }
    let manifest: Value = serde_json::from_slice(&content).with_context(shown)?;
    let version = manifest.get("version").and_then(Value::as_str).and_then(range::exact);
    let version = version.with_context(|| format!("{} has no valid version", file.display()))?;
    // Under an alias, the package still has its own name.
    let own_name = manifest.get("name").and_then(Value::as_str).and_then(PackageName::parse);
    Ok(Some(Finding::Registry { package: own_name.unwrap_or_else(|| name.clone()), version }))
}

/// Whether a file is that of an installed package, and not of a directory that `node_modules` links to. pnpm links to a
/// `node_modules` elsewhere.
fn is_installed(real: &Path, modules: &Path) -> bool {
    real.components().any(|part| part.as_os_str() == NODE_MODULES)
        || fs::canonicalize(modules).is_ok_and(|modules| real.starts_with(modules))
}
