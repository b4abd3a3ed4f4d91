//! No two modules of the same folder use each other, in any crate of the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::paths::{is_test, names_of_tree, paths_of_file};

/// Pairs that may use each other, with the reason.
const MAY_USE_EACH_OTHER: [(&str, &str, &str); 0] = [];

/// A module of a crate: its path below the root, and its source. The root's path is empty.
struct Module {
    path: Vec<String>,
    file: syn::File,
}

/// The modules below a folder of sources, without those of tests.
fn modules(dir: &Path, path: &[String], found: &mut Vec<Module>) {
    let own = ["lib.rs", "mod.rs"].map(|name| dir.join(name)).into_iter().find(|file| file.exists());
    let text = own.map(|file| std::fs::read_to_string(file).unwrap()).unwrap_or_default();
    let file = syn::parse_file(&text).unwrap();
    let tests: BTreeSet<String> = file.items.iter().filter_map(test_module).collect();
    found.push(Module { path: path.to_vec(), file });
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        let name = entry.file_stem().unwrap().to_string_lossy().into_owned();
        let is_module = entry.is_dir() || entry.extension().is_some_and(|extension| extension == "rs");
        if !is_module || tests.contains(&name) || ["lib", "mod", "main"].contains(&name.as_str()) {
            continue;
        }
        let path = [path, &[name]].concat();
        if entry.is_dir() {
            // A folder beside a file of the same name holds the file's modules, which are tests where it has only one.
            let is_beside_file = entry.with_extension("rs").exists();
            if !is_beside_file {
                modules(&entry, &path, found);
            }
        } else {
            let file = syn::parse_file(&std::fs::read_to_string(&entry).unwrap()).unwrap();
            found.push(Module { path, file });
        }
    }
}

/// The name of a module that is only compiled for tests.
fn test_module(item: &syn::Item) -> Option<String> {
    match item {
        syn::Item::Mod(item) if is_test(&item.attrs) => Some(item.ident.to_string()),
        _ => None,
    }
}

/// What a folder's own module makes of the names in it: a name's module, or none for what it defines itself.
fn names_of(module: &Module) -> BTreeMap<String, Option<String>> {
    let mut names = BTreeMap::new();
    for item in &module.file.items {
        match item {
            syn::Item::Use(item) => {
                for path in names_of_tree(&item.tree) {
                    let path: Vec<_> = path.iter().skip_while(|name| *name == "self").cloned().collect();
                    if let [first, .., last] = path.as_slice() {
                        names.insert(last.clone(), Some(first.clone()));
                    }
                }
            }
            syn::Item::Struct(item) => drop(names.insert(item.ident.to_string(), None)),
            syn::Item::Enum(item) => drop(names.insert(item.ident.to_string(), None)),
            syn::Item::Fn(item) => drop(names.insert(item.sig.ident.to_string(), None)),
            syn::Item::Const(item) => drop(names.insert(item.ident.to_string(), None)),
            syn::Item::Static(item) => drop(names.insert(item.ident.to_string(), None)),
            syn::Item::Type(item) => drop(names.insert(item.ident.to_string(), None)),
            syn::Item::Trait(item) => drop(names.insert(item.ident.to_string(), None)),
            _ => {}
        }
    }
    names
}

/// A path from the root, for a path in a module; none if it leaves the crate.
fn absolute(path: &[String], module: &[String]) -> Option<Vec<String>> {
    let (up, rest) = match path.first()?.as_str() {
        "crate" => (module.len(), &path[1..]),
        "self" => (0, &path[1..]),
        "super" => {
            let up = path.iter().take_while(|name| *name == "super").count();
            (up, &path[up..])
        }
        _ => return None,
    };
    let base = module.len().checked_sub(up)?;
    Some([&module[..base], rest].concat())
}

/// The module of a folder that a path leads to: a child, or the empty text for the folder's own module.
fn target(
    path: &[String],
    folder: &[String],
    children: &BTreeSet<String>,
    names: &BTreeMap<String, Option<String>>,
) -> Option<String> {
    let rest = path.strip_prefix(folder)?;
    let first = rest.first()?;
    if children.contains(first) {
        return Some(first.clone());
    }
    match names.get(first)? {
        Some(child) if children.contains(child) => Some(child.clone()),
        // It comes from elsewhere.
        Some(_) => None,
        None => Some(String::new()),
    }
}

/// The pairs of modules in one crate that use each other.
fn circles(root: &Path) -> BTreeSet<(String, String)> {
    let mut all = Vec::new();
    modules(root, &[], &mut all);
    let mut found = BTreeSet::new();
    let folders = all.iter().filter(|module| {
        all.iter()
            .any(|other| other.path.len() == module.path.len() + 1 && other.path.starts_with(&module.path))
    });
    for folder in folders {
        let depth = folder.path.len();
        let inside: Vec<_> = all
            .iter()
            .filter(|module| module.path.len() > depth && module.path.starts_with(&folder.path))
            .collect();
        let children: BTreeSet<String> = inside.iter().map(|module| module.path[depth].clone()).collect();
        let names = names_of(folder);
        let mut uses = BTreeSet::new();
        for module in inside.iter().chain([&folder]) {
            let from = module.path.get(depth).cloned().unwrap_or_default();
            for path in paths_of_file(&module.file) {
                // The folder's own module may name a child without `self`.
                let child = (from.is_empty() && path.len() > 1 && children.contains(&path[0]))
                    .then(|| [&folder.path[..], &path].concat());
                let path = child.or_else(|| absolute(&path, &module.path));
                let to = path.and_then(|path| target(&path, &folder.path, &children, &names));
                if let Some(to) = to.filter(|to| *to != from) {
                    uses.insert((from.clone(), to));
                }
            }
        }
        let circle = |(from, to): &&(String, String)| uses.contains(&(to.clone(), from.clone()));
        for (from, to) in uses.iter().filter(circle) {
            let name = |child: &String| {
                let path = [&folder.path[..], std::slice::from_ref(child)].concat();
                path.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join("::")
            };
            let crate_name = root.parent().unwrap().file_name().unwrap().to_string_lossy();
            let pair = BTreeSet::from([name(from), name(to)]);
            let mut pair = pair.into_iter().map(|name| format!("{crate_name}::{name}"));
            found.insert((pair.next().unwrap(), pair.next().unwrap()));
        }
    }
    found
}

#[test]
fn no_two_modules_use_each_other() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let roots = std::fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let found: BTreeSet<_> = roots.flat_map(|root| circles(&root)).collect();
    let excused: BTreeSet<_> =
        MAY_USE_EACH_OTHER.iter().map(|(one, other, _)| ((*one).to_owned(), (*other).to_owned())).collect();
    let new: Vec<_> = found.difference(&excused).map(|(one, other)| format!("{one} and {other}")).collect();
    assert!(new.is_empty(), "these use each other:\n{}\n", new.join("\n"));
    let unneeded: Vec<_> = excused.difference(&found).collect();
    assert!(unneeded.is_empty(), "these do not use each other any more: {unneeded:?}");
}

#[test]
fn a_circle_is_found_by_any_path() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("src");
    std::fs::create_dir_all(root.join("folder")).unwrap();
    let sources = [
        // It uses what `apart` defines, and only re-exports `one`.
        ("lib.rs", "mod apart; mod folder; mod one; pub use one::One; pub struct Root(apart::Apart);"),
        ("apart.rs", "pub struct Apart; fn use_it() { super::Root; }"),
        ("one.rs", "pub struct One; fn use_it() -> crate::folder::Two { todo!() }"),
        (
            "folder/mod.rs",
            "mod inner; mod other; pub struct Two; #[cfg(test)] mod tests { use crate::apart; }",
        ),
        ("folder/inner.rs", "use super::other; use crate::{One, Root};"),
        ("folder/other.rs", "fn use_it() { println!(\"{}\", super::inner::NAME); }"),
    ];
    for (name, text) in sources {
        std::fs::write(root.join(name), text).unwrap();
    }
    let crate_name = dir.path().file_name().unwrap().to_string_lossy();
    let pair = |one: &str, other: &str| (format!("{crate_name}::{one}"), format!("{crate_name}::{other}"));
    let expected = [pair("", "apart"), pair("folder", "one"), pair("folder::inner", "folder::other")];
    assert_eq!(circles(&root), expected.into());
}
