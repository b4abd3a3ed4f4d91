//! `package-lock.json` and `npm-shrinkwrap.json`, versions 1 to 3.

use serde_json::Value;

use super::finding::Finding;
use super::range;
use super::specifier::locked;
use super::wanted::Wanted;
use sandboxd_model::repository::PackageName;

/// Finds the package that Node.js would find in the directory of a workspace.
pub(super) fn find(content: &[u8], wanted: &Wanted) -> anyhow::Result<Option<Finding>> {
    let lock: Value = serde_json::from_slice(content)?;
    match lock.get("packages") {
        Some(packages) => Ok(in_packages(packages, wanted)),
        None => Ok(in_dependencies(&lock, wanted)),
    }
}

/// Versions 2 and 3: by the paths at which packages are installed.
fn in_packages(packages: &Value, wanted: &Wanted) -> Option<Finding> {
    let name = wanted.name.as_str();
    let entry = wanted.members.iter().find_map(|member| match *member {
        "" => packages.get(format!("node_modules/{name}")),
        member => packages.get(format!("{member}/node_modules/{name}")),
    })?;
    let text = |field| entry.get(field).and_then(Value::as_str);
    let resolved = text("resolved").unwrap_or_default();
    let is_link = entry.get("link").and_then(Value::as_bool) == Some(true);
    let is_web = resolved.is_empty() || resolved.starts_with("https://") || resolved.starts_with("http://");
    if is_link || !is_web {
        return Some(Finding::Elsewhere(resolved.to_owned()));
    }
    // An alias has the package's own name.
    let package = text("name").and_then(PackageName::parse).unwrap_or_else(|| wanted.name.clone());
    Some(Finding::Registry { package, version: range::exact(version(entry)?)? })
}

/// Version 1: by names. A workspace is a dependency too, with its directory as its version.
fn in_dependencies(lock: &Value, wanted: &Wanted) -> Option<Finding> {
    let dependencies = lock.get("dependencies")?.as_object()?;
    let of_member = |member: &&str| {
        let directory = format!("file:{member}");
        let is_it = |entry: &&Value| version(entry) == Some(directory.as_str());
        dependencies.values().find(is_it)?.get("dependencies")?.get(wanted.name.as_str())
    };
    let entry =
        wanted.members.iter().find_map(of_member).or_else(|| dependencies.get(wanted.name.as_str()))?;
    Some(locked(wanted.name, version(entry)?))
}

fn version(entry: &Value) -> Option<&str> {
    entry.get("version")?.as_str()
}
