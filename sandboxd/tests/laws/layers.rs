//! The permitted dependencies between the parts of the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::parts::parts_used;

/// A part of `sandboxd/src`, and the parts and crates of the daemon that it may use. A line for a module of a part
/// replaces the part's own line there.
const MAY_USE: [(&str, &[&str]); 13] = [
    ("config", &["model"]),
    ("state_dir", &["model", "store"]),
    ("telemetry", &[]),
    ("memory", &["model"]),
    (
        "service",
        &[
            "agent", "bases", "egress", "engine", "memory", "metrics", "model", "packs", "seam", "sealed",
            "store",
        ],
    ),
    ("content", &["model", "service"]),
    ("preview", &["content", "model", "service"]),
    ("api", &["content", "metrics", "model", "preview", "service"]),
    ("cli", &["config", "model", "state_dir"]),
    // It looks for what keeps a daemon from starting, so it works without one.
    ("cli/doctor", &["config", "engine", "model", "state_dir"]),
    // It changes what the database says of the engine, which must happen while no daemon runs.
    ("cli/accept_engine", &["config", "engine", "state_dir", "store"]),
    ("program", &["cli", "config", "engine", "model", "service", "state_dir", "store", "telemetry"]),
    ("main", &["program"]),
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

/// The line of the table for a module: the one with the longest path.
fn line_for(module: &[String]) -> Option<&'static (&'static str, &'static [&'static str])> {
    let path = format!("{}/", module.join("/"));
    let lines = MAY_USE.iter().filter(|(part, _)| path.starts_with(&format!("{part}/")));
    lines.max_by_key(|(part, _)| part.len())
}

#[test]
fn every_part_uses_only_permitted_parts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
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
        let Some((line_of, allowed)) = line_for(&module) else {
            faults.push(format!("{}: the table has no line for {part}", file.display()));
            continue;
        };
        let text = std::fs::read_to_string(&file).unwrap();
        for (line, used) in parts_used(&text, &module).unwrap() {
            if used != part && !allowed.contains(&used.as_str()) {
                faults.push(format!("{}:{line}: {line_of} may not use {used}", file.display()));
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
    let mut used: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let module = module_of(file.strip_prefix(&root).unwrap());
        let text = std::fs::read_to_string(&file).unwrap();
        let parts = parts_used(&text, &module).unwrap().into_iter().map(|(_, part)| part);
        let Some((part, _)) = line_for(&module) else { continue };
        used.entry(part).or_default().extend(parts);
    }
    for (part, allowed) in MAY_USE {
        for other in allowed {
            let is_used = used.get(part).is_some_and(|used| used.contains(*other));
            assert!(is_used, "{part} does not use {other}: take it out of the table");
        }
    }
}
