//! Surfaces, and the toolbox that they offer, are clients of the API: they depend on no crate of the daemon.
//!
//! The dependencies are those of Cargo.lock, which has the ones of tests too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Crates of the workspace that a surface may use, directly or through another one.
const MAY_USE: [&str; 7] =
    ["hop-by-hop", "log-text", "output-text", "sandbox-api", "sandbox-client", "surface-caller", "toolbox"];

type Packages = BTreeMap<String, BTreeSet<String>>;

/// The dependencies of each package.
fn packages(lock: &str) -> Packages {
    let quoted = |line: &str| line.trim().trim_matches(['"', ',']).to_owned();
    let of_package = |package: &str| {
        let name = package.lines().find_map(|line| line.strip_prefix("name = "))?;
        let dependencies = package.lines().filter(|line| line.starts_with(" \"")).map(|line| {
            // A version follows the name if there are several.
            quoted(line).split(' ').next().unwrap_or_default().to_owned()
        });
        Some((quoted(name), dependencies.collect()))
    };
    lock.split("[[package]]").filter_map(of_package).collect()
}

/// The packages of the workspace that `package` depends on, directly or through others.
fn reached(package: &str, packages: &Packages, members: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![package.to_owned()];
    while let Some(package) = open.pop() {
        for dependency in packages.get(&package).into_iter().flatten() {
            if members.contains(dependency) && found.insert(dependency.clone()) {
                open.push(dependency.clone());
            }
        }
    }
    found
}

/// Names of the packages in the folders of the workspace.
fn members(root: &Path, folders: &[&str]) -> BTreeSet<String> {
    let manifests = folders.iter().flat_map(|folder| {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path().join("Cargo.toml")).filter(|path| path.is_file())
    });
    let name = |path: std::path::PathBuf| {
        let manifest = std::fs::read_to_string(path).unwrap();
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).unwrap();
        name.trim_matches('"').to_owned()
    };
    manifests.map(name).collect()
}

fn breaks(surfaces: &BTreeSet<String>, packages: &Packages, members: &BTreeSet<String>) -> Vec<String> {
    let breaks = surfaces.iter().flat_map(|surface| {
        let forbidden = reached(surface, packages, members).into_iter();
        let forbidden = forbidden.filter(|name| !MAY_USE.contains(&name.as_str()));
        forbidden.map(move |name| format!("{surface} depends on {name}"))
    });
    breaks.collect()
}

#[test]
fn surfaces_are_clients() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap();
    let mut surfaces = members(root, &["surfaces"]);
    assert!(surfaces.contains("mcp"));
    surfaces.insert("toolbox".into());
    let members = members(root, &[".", "crates", "sandboxd/crates", "surfaces"]);
    assert!(members.contains("sandboxd") && members.contains("sandboxd-model"));
    assert_eq!(breaks(&surfaces, &packages(&lock), &members), Vec::<String>::new());
}

#[test]
fn a_surface_that_depends_on_the_daemon_is_found() {
    let lock = "[[package]]\nname = \"mcp\"\ndependencies = [\n \"rmcp\",\n \"toolbox 0.1.0\",\n]\n\n\
        [[package]]\nname = \"toolbox\"\ndependencies = [\n \"sandboxd-model\",\n]\n";
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let members: BTreeSet<String> = names(&["mcp", "toolbox", "sandboxd-model"]);
    assert_eq!(breaks(&names(&["mcp"]), &packages(lock), &members), ["mcp depends on sandboxd-model"]);
}
