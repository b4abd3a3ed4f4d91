//! The permitted dependencies between the parts of the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::paths::parts_used;

/// A part of `sandboxd/src`, and the parts and crates of the daemon that it may use.
const MAY_USE: [(&str, &[&str]); 9] = [
    // The types of settings.
    ("config", &["egress", "engine", "model"]),
    ("state_dir", &["model", "store"]),
    ("telemetry", &[]),
    ("memory", &["model"]),
    ("service", &["agent", "egress", "engine", "memory", "metrics", "model", "seam", "store"]),
    ("preview", &["model", "service"]),
    ("api", &["metrics", "model", "preview", "service"]),
    // `doctor` and `accept-engine` work without a daemon.
    ("cli", &["config", "engine", "model", "state_dir", "store"]),
    ("main", &["cli", "config", "engine", "model", "service", "state_dir", "store", "telemetry"]),
];

pub(crate) fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// `api` of `api/files/mod.rs`, and the modules below it: `["api", "files"]`.
pub(crate) fn module_of(path: &Path) -> Vec<String> {
    let path = path.with_extension("");
    let names = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    names.filter(|name| name != "mod").collect()
}

#[test]
fn every_part_uses_only_permitted_parts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let may_use: BTreeMap<&str, BTreeSet<&str>> =
        MAY_USE.iter().map(|(part, others)| (*part, others.iter().copied().collect())).collect();
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut faults = Vec::new();
    for file in files {
        let module = module_of(file.strip_prefix(&root).unwrap());
        let part = module[0].as_str();
        // It connects all parts.
        if part == "lib" {
            continue;
        }
        let Some(allowed) = may_use.get(part) else {
            faults.push(format!("{}: the table has no line for {part}", file.display()));
            continue;
        };
        let text = std::fs::read_to_string(&file).unwrap();
        for (line, used) in parts_used(&text, &module).unwrap() {
            if used != part && !allowed.contains(used.as_str()) {
                faults.push(format!("{}:{line}: {part} may not use {used}", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// An unused line would permit the next violation.
#[test]
fn every_permission_is_needed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let module = module_of(file.strip_prefix(&root).unwrap());
        let text = std::fs::read_to_string(&file).unwrap();
        let parts = parts_used(&text, &module).unwrap().into_iter().map(|(_, part)| part);
        used.entry(module[0].clone()).or_default().extend(parts);
    }
    for (part, allowed) in MAY_USE {
        for other in allowed {
            let is_used = used.get(part).is_some_and(|used| used.contains(*other));
            assert!(is_used, "{part} does not use {other}: take it out of the table");
        }
    }
}
