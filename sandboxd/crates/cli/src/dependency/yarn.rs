//! `yarn.lock`: that of Yarn 1, which has a format of its own, and that of later versions, which is YAML.

use sandboxd_model::repository::PackageName;
use serde_json::Value;

use super::finding::Finding;
use super::specifier::{Specifier, alias};
use super::wanted::Wanted;
use super::{range, yaml};

/// Every lock file of Yarn 2 and later begins with this entry.
const METADATA: &str = "__metadata";

/// An entry: what was asked for, as `name@range`, separated by commas, and the version.
struct Entry {
    descriptors: String,
    version: String,
}

/// Finds the entry for the range in `package.json`. If there is none, the highest version of the package counts.
pub(super) fn find(content: &[u8], wanted: &Wanted) -> anyhow::Result<Option<Finding>> {
    let content = std::str::from_utf8(content)?;
    let entries = match content.contains(METADATA) {
        true => later(content)?,
        false => first(content),
    };
    let range = wanted.specifier.map(written);
    let mut highest: Option<Finding> = None;
    for Entry { descriptors, version } in &entries {
        for descriptor in descriptors.split(',') {
            let Some((name, asked)) = alias(descriptor.trim().trim_matches('"')) else { continue };
            if name != *wanted.name {
                continue;
            }
            let specifier = Specifier::parse(&name, asked);
            let found = finding(&specifier, &name, version);
            if range.is_some() && range == Some(written(&specifier)) {
                return Ok(Some(found));
            }
            if highest.as_ref().is_none_or(|highest| found.rank() > highest.rank()) {
                highest = Some(found);
            }
        }
    }
    Ok(highest)
}

/// What an entry stands for. A range of a patched package is that of the package.
fn finding(specifier: &Specifier, name: &PackageName, version: &str) -> Finding {
    let package = match specifier {
        Specifier::Registry { package, .. } => package,
        Specifier::Deferred(_) => name,
        Specifier::Elsewhere(text) => return Finding::Elsewhere(text.clone()),
    };
    match range::exact(version) {
        Some(version) => Finding::Registry { package: package.clone(), version },
        None => Finding::Elsewhere(version.to_owned()),
    }
}

/// A specifier in the spelling that both formats share.
fn written(specifier: &Specifier) -> (Option<&PackageName>, &str) {
    match specifier {
        Specifier::Registry { package, range } => (Some(package), range),
        Specifier::Elsewhere(text) | Specifier::Deferred(text) => (None, text),
    }
}

/// Entries of Yarn 1: a line that ends with a colon, and below it `version "1.2.3"`.
fn first(content: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut descriptors = None;
    for line in content.lines() {
        if !line.starts_with([' ', '#']) {
            descriptors = line.strip_suffix(':');
        } else if let Some(version) = line.strip_prefix("  version ")
            && let Some(descriptors) = descriptors.take()
        {
            entries.push(Entry {
                descriptors: descriptors.to_owned(),
                version: version.trim_matches('"').to_owned(),
            });
        }
    }
    entries
}

fn later(content: &str) -> anyhow::Result<Vec<Entry>> {
    let documents = yaml::documents(content)?;
    let entries = documents.iter().filter_map(Value::as_object).flatten();
    let entries = entries.filter_map(|(descriptors, entry)| {
        let version = entry.get("version")?.as_str()?.to_owned();
        Some(Entry { descriptors: descriptors.clone(), version })
    });
    Ok(entries.collect())
}
