//! The permitted dependencies between the parts of the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::parts::parts_used;

/// A part of `sandboxd/src`, or the crate `cli`, and the parts and crates of the daemon that it may use. A line for a
/// module of a part replaces the part's own line there.
const MAY_USE: [(&str, &[&str]); 12] = [
    ("telemetry", &[]),
    ("memory", &["model"]),
    (
        "service",
        &[
            "agent", "audit", "bases", "egress", "engine", "git", "jwt", "memory", "metrics", "model",
            "packs", "schemas", "seam", "sealed", "store",
        ],
    ),
    ("content", &["model", "service"]),
    ("preview", &["content", "model", "service"]),
    ("api", &["content", "metrics", "model", "preview", "service"]),
    ("cli", &["config", "model", "state_dir"]),
    // It checks files of the state dir, also while no daemon runs.
    ("cli/audit", &["audit", "config", "state_dir", "store"]),
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

/// A source file of a part.
struct Source {
    file: PathBuf,
    module: Vec<String>,
    /// The parts that it uses, with their lines.
    used: Vec<(usize, String)>,
}

/// The sources in a folder. They are those of the part, or without one of the parts that the folder consists of.
fn sources_in(root: &Path, part: Option<&str>) -> Vec<Source> {
    let mut files = Vec::new();
    sources(root, &mut files);
    let source = |file: PathBuf| {
        let below = module_of(file.strip_prefix(root).unwrap());
        let module: Vec<String> = part.map(str::to_owned).into_iter().chain(below).collect();
        let text = std::fs::read_to_string(&file).unwrap();
        // The root of a crate stands for the part.
        let text =
            part.map_or_else(|| text.clone(), |part| text.replace("crate::", &format!("crate::{part}::")));
        let used = parts_used(&text, &module).unwrap();
        Source { file, module, used }
    };
    files.into_iter().map(source).collect()
}

/// The sources of all parts. `lib.rs` is none: it connects them.
fn all_sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = sources_in(&root.join("src"), None);
    all.retain(|source| source.module != ["lib"]);
    all.extend(sources_in(&root.join("crates/cli/src"), Some("cli")));
    all
}

#[test]
fn every_part_uses_only_permitted_parts() {
    let mut faults = Vec::new();
    for Source { file, module, used } in all_sources() {
        let part = module[0].as_str();
        let Some((line_of, allowed)) = line_for(&module) else {
            faults.push(format!("{}: the table has no line for {part}", file.display()));
            continue;
        };
        for (line, used) in used {
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
    let mut used: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for source in all_sources() {
        let Some((part, _)) = line_for(&source.module) else { continue };
        used.entry(part).or_default().extend(source.used.into_iter().map(|(_, part)| part));
    }
    for (part, allowed) in MAY_USE {
        for other in allowed {
            let is_used = used.get(part).is_some_and(|used| used.contains(*other));
            assert!(is_used, "{part} does not use {other}: take it out of the table");
        }
    }
}
