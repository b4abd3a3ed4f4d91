//! `pnpm-lock.yaml`, versions 5 to 9.

use sandboxd_model::repository::PackageName;
use serde_json::Value;

use super::finding::Finding;
use super::manifest::KINDS;
use super::specifier::locked;
use super::wanted::Wanted;
use super::{range, yaml};

/// Finds the dependency of the nearest workspace, or else the highest version of a dependency's dependency.
pub(super) fn find(content: &[u8], wanted: &Wanted) -> anyhow::Result<Option<Finding>> {
    let documents = yaml::documents(std::str::from_utf8(content)?)?;
    let chosen = documents.iter().find_map(|lock| chosen(lock, wanted));
    let found = chosen.map(|text| finding(wanted.name, text));
    Ok(found.or_else(|| documents.iter().find_map(|lock| indirect(lock, wanted.name))))
}

/// All packages have a key such as `name@1.2.3`, as aliases do.
fn indirect(lock: &Value, name: &PackageName) -> Option<Finding> {
    let keys = lock.get("packages")?.as_object()?.keys();
    let found = keys.filter(|key| key.contains(name.as_str())).map(|key| finding(name, key));
    let is_it = |finding: &Finding| matches!(finding, Finding::Registry { package, .. } if package == name);
    found.filter(is_it).max_by_key(Finding::rank)
}

fn chosen<'a>(lock: &'a Value, wanted: &Wanted) -> Option<&'a str> {
    let of_importer = |importer: &'a Value| {
        let entry = KINDS.iter().find_map(|kind| importer.get(kind)?.get(wanted.name.as_str()))?;
        // Up to version 5 only the version, since then with what `package.json` says.
        entry.as_str().or_else(|| entry.get("version")?.as_str())
    };
    let Some(importers) = lock.get("importers") else {
        // Without workspaces, versions 5 and 6 have the dependencies at the top.
        return of_importer(lock);
    };
    let importer =
        |member: &&str| if member.is_empty() { importers.get(".") } else { importers.get(*member) };
    wanted.members.iter().filter_map(importer).find_map(of_importer)
}

/// Reads `1.2.3`, or an alias: `name@1.2.3`, `/name@1.2.3` or `/name/1.2.3`. What follows it, in parentheses or after `_`,
/// are the versions of its peers.
fn finding(name: &PackageName, text: &str) -> Finding {
    let bare = text.split('(').next().unwrap_or(text);
    let bare = bare.strip_prefix('/').unwrap_or(bare);
    if let Some((package, version)) = bare.rsplit_once('/')
        && let Some(package) = PackageName::parse(package)
        && let Some(version) = range::exact(without_peers(version))
    {
        return Finding::Registry { package, version };
    }
    match locked(name, without_peers(bare)) {
        Finding::Elsewhere(_) => match locked(name, bare) {
            Finding::Elsewhere(_) => Finding::Elsewhere(text.to_owned()),
            found => found,
        },
        found => found,
    }
}

/// Versions have no underscores, but names may.
fn without_peers(version: &str) -> &str {
    version.split('_').next().unwrap_or(version)
}
