//! Finds the parts of the daemon, and the crates below it, that a source file uses. Checks that the list of these crates is
//! complete, and that each of them depends only on the crates that ARCHITECTURE.md permits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::TokenStream;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::paths::{Import, TokenPath, imports_of, paths_of_tokens};

/// The crates below `sandboxd/crates`, by the names under which `lib.rs` re-exports them.
const CRATES: [(&str, &str); 17] = [
    ("sandboxd_agents", "agent"),
    ("sandboxd_audit", "audit"),
    ("sandboxd_bases", "bases"),
    ("sandboxd_cli", "cli"),
    ("sandboxd_config", "config"),
    ("sandboxd_egress", "egress"),
    ("sandboxd_engine", "engine"),
    ("sandboxd_git", "git"),
    ("sandboxd_jwt", "jwt"),
    ("sandboxd_metrics", "metrics"),
    ("sandboxd_model", "model"),
    ("sandboxd_packs", "packs"),
    ("sandboxd_schemas", "schemas"),
    ("sandboxd_sealed", "sealed"),
    ("sandboxd_seam", "seam"),
    ("sandboxd_state_dir", "state_dir"),
    ("sandboxd_store", "store"),
];

/// Names at the root that are not parts: they belong to `lib.rs` or to other crates. Any other name that `lib.rs` imports
/// would hide the part that it comes from.
const NO_PARTS: [&str; 3] = ["Error", "listen", "run"];

/// The parts that a file of this module names, with their lines.
pub(crate) fn parts_used(text: &str, module: &[String]) -> syn::Result<Vec<(usize, String)>> {
    let paths = paths_used(text, module)?.into_iter();
    Ok(paths.filter_map(|(line, path)| Some((line, part_of(&path, module)?))).collect())
}

/// The paths of this crate and of the crates below it that a file of this module names, from the root of the crate, with
/// their lines.
pub(crate) fn paths_used(text: &str, module: &[String]) -> syn::Result<Vec<(usize, Vec<String>)>> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder { module: module.to_vec(), found: Vec::new() };
    finder.visit_file(&file);
    Ok(finder.found)
}

/// Stands for the root of the crate where a file imports it as a whole. Names behind such an import would not be found, so
/// no part may use it.
pub(crate) const ROOT: &str = "the root of the crate as a whole";

/// The part that a path from the root leads to, if that is another one.
fn part_of(path: &[String], module: &[String]) -> Option<String> {
    let Some(part) = path.first() else { return Some(ROOT.to_owned()) };
    (module.first() != Some(part) && !NO_PARTS.contains(&part.as_str())).then(|| part.clone())
}

/// A path of a module from the root of the crate, where the crates below have their short names. `None` if the path
/// begins with another crate or with a name of the module.
pub(crate) fn from_root(path: &[String], module: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    if let Some((_, part)) = CRATES.iter().find(|(name, _)| name == first) {
        return Some([&[(*part).to_owned()], rest].concat());
    }
    match first.as_str() {
        "crate" | "sandboxd" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let up = path.iter().take_while(|name| *name == "super").count();
            let above = module.len().checked_sub(up)?;
            Some([&module[..above], &path[up..]].concat())
        }
        _ => None,
    }
}

/// Number of names in the path of the module in which an item of `module` is visible: 0 for the whole crate.
pub(crate) fn depth_of(visibility: &syn::Visibility, module: &[String]) -> usize {
    let syn::Visibility::Restricted(restricted) = visibility else {
        return if matches!(visibility, syn::Visibility::Public(_)) { 0 } else { module.len() };
    };
    let path: Vec<_> = restricted.path.segments.iter().map(|part| part.ident.to_string()).collect();
    let up = path.iter().take_while(|name| *name == "super").count();
    match path[0].as_str() {
        "self" => module.len(),
        "super" => module.len() - up + (path.len() - up),
        // The path is `crate`, or one from it.
        _ => path.len() - 1,
    }
}

struct Finder {
    /// The module of the visitor, below the root of the crate.
    module: Vec<String>,
    found: Vec<(usize, Vec<String>)>,
}

impl Finder {
    /// Records a path, if it starts at the root, at a crate below, or above its own module.
    fn note(&mut self, line: usize, segments: &[String]) {
        self.found.extend(from_root(segments, &self.module).map(|path| (line, path)));
    }

    /// Finds paths among the tokens of a macro, which are not parsed.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let mut found = Vec::new();
        paths_of_tokens(tokens, &mut found);
        for TokenPath { line, mut path, is_renamed } in found {
            // A single `crate` or `super` may belong to a visibility.
            if path.len() > 1 || is_renamed {
                path.pop_if(|name| name == "*");
                self.note(line, &path);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        for Import { line, mut path, .. } in imports_of(&item.tree) {
            // A glob stands for the module whose names it imports.
            path.pop_if(|name| name == "*");
            self.note(line, &path);
        }
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        let name = if item.ident == "self" { "crate".to_owned() } else { item.ident.to_string() };
        self.note(item.ident.span().start().line, &[name]);
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {
        // `pub(super)` uses nothing.
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(path.span().start().line, &segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.note_tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.note_tokens(list.tokens.clone());
        }
        visit::visit_attribute(self, attribute);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }
}

#[test]
fn a_path_is_found_in_every_position() {
    let text = "
use crate::engine::{Engine, labels};
use super::super::store;
fn f(x: crate::agent::Error) -> Vec<sandboxd_egress::Gate> {
    let y = crate::metrics::Metrics::new();
    info!(code = crate::config::NAME, \"text\");
    super::helper()
}
#[utoipa::path(responses((status = 200, body = crate::preview::Body)))]
mod inner { use super::super::super::cli; use super::own; }
use crate::{service, Error};
";
    let module = ["api".to_owned(), "files".to_owned()];
    let found: Vec<_> = parts_used(text, &module).unwrap().into_iter().map(|(_, part)| part).collect();
    let expected =
        ["engine", "engine", "store", "agent", "egress", "metrics", "config", "preview", "cli", "service"];
    assert_eq!(found, expected);
}

fn parts_in(text: &str) -> Vec<String> {
    let module = ["api".to_owned(), "files".to_owned()];
    parts_used(text, &module).unwrap().into_iter().map(|(_, part)| part).collect()
}

#[test]
fn a_glob_or_an_alias_of_the_root_is_found() {
    for import in [
        "use crate::*;",
        "use super::super::*;",
        "use crate as root;",
        "use crate::{self as root};",
        "use super::super as root;",
        "pub(crate) use super::super::{self as root};",
        "use sandboxd::*;",
        "extern crate self as root;",
        "mod inner { use super::super::super::*; }",
        "wrap! { use crate::*; }",
        "wrap! { use crate as root; }",
        "wrap! { use crate::{self as root}; }",
        "wrap! { use super::super::*; }",
    ] {
        assert_eq!(parts_in(import), [ROOT], "{import}");
    }
}

#[test]
fn a_path_below_the_root_does_not_import_the_root() {
    for text in [
        "pub(crate) struct A { pub(super) a: u8, pub(in crate::api) b: u8 }",
        "wrap! { pub(crate) struct A { pub(super) a: u8 } }",
        "mod tests { use super::*; }",
        "use super::*;",
        "use crate::Error;",
    ] {
        assert_eq!(parts_in(text), [""; 0], "{text}");
    }
}

#[test]
fn a_name_that_the_root_imports_is_found() {
    assert_eq!(parts_in("use crate::Engine; fn f(_: super::super::Store) {}"), ["Engine", "Store"]);
}

#[test]
fn groups_in_macros_are_found() {
    let text = "wrap! { use crate::{engine, store::{self, Store}, agent as other, model::*}; f(); }";
    assert_eq!(parts_in(text), ["engine", "store", "store", "agent", "model"]);
    assert_eq!(parts_in("m!(super::super::{service, Error}, crate::cli::f::<u8>());"), ["service", "cli"]);
}

/// The rooms of the crates below `sandboxd/crates` in ARCHITECTURE.md, each with the crates that it may use.
fn rooms(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let room = |line: &str| {
        let mut cells = line.strip_prefix("| `sandboxd/crates/")?.split('|');
        let name = cells.next()?.trim().strip_suffix('`')?;
        let names = cells.nth(1)?.split(',').map(|name| name.trim().trim_matches('`'));
        let may_use = names.filter(|name| !name.is_empty()).map(str::to_owned);
        Some((name.to_owned(), may_use.collect()))
    };
    text.lines().filter_map(room).collect()
}

/// The crates below `sandboxd/crates` that each of them depends on, from Cargo.lock, which has them under their own
/// names and with the dependencies of their tests.
fn dependencies(lock: &str) -> BTreeMap<String, BTreeSet<String>> {
    let of_package = |package: &str| {
        let name =
            |line: &str| Some(line.trim().trim_matches(['"', ',']).strip_prefix("sandboxd-")?.to_owned());
        let own = package.lines().find_map(|line| name(line.strip_prefix("name = ")?))?;
        Some((own, package.lines().filter_map(name).collect()))
    };
    lock.split("[[package]]").filter_map(of_package).collect()
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn the_crates_are_those_of_the_folder_and_of_the_root() {
    let folders = std::fs::read_dir(workspace().join("sandboxd/crates")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let folders: BTreeSet<_> = folders.map(|name| format!("sandboxd_{}", name.replace('-', "_"))).collect();
    let known: BTreeSet<_> = CRATES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(known, folders, "CRATES, and the folders of sandboxd/crates");
    let root = std::fs::read_to_string(workspace().join("sandboxd/src/lib.rs")).unwrap();
    let imports = syn::parse_file(&root).unwrap().items.into_iter().filter_map(|item| match item {
        syn::Item::Use(item) => Some(imports_of(&item.tree)),
        _ => None,
    });
    let of_crates = imports.flatten().filter(|import| import.path[0].starts_with("sandboxd_"));
    let passed_on: BTreeSet<_> = of_crates.map(|import| (import.path.join("::"), import.name)).collect();
    let known = CRATES.map(|(name, short)| (name.to_owned(), short.to_owned()));
    assert_eq!(BTreeSet::from(known), passed_on, "CRATES, and the names in lib.rs");
}

#[test]
fn each_crate_depends_on_the_crates_of_its_room() {
    let text = std::fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let lock = std::fs::read_to_string(workspace().join("Cargo.lock")).unwrap();
    let rooms = rooms(&text);
    assert_eq!(rooms.len(), CRATES.len(), "a crate has no room in ARCHITECTURE.md");
    assert_eq!(
        rooms,
        dependencies(&lock),
        "the rooms of ARCHITECTURE.md, and the dependencies of the crates"
    );
}

#[test]
fn a_dependency_that_no_room_permits_is_found() {
    let text = "| room | owns |\n| `sandboxd/crates/store` | state | `model` |\n| `sandboxd/src/api` | x | `store` |";
    let lock =
        "[[package]]\nname = \"sandboxd-store\"\ndependencies = [\n \"serde\",\n \"sandboxd-model\",\n]\n\n";
    let further = lock.replace("serde", "sandboxd-engine");
    assert_eq!(rooms(text), dependencies(lock));
    assert_ne!(rooms(text), dependencies(&further));
}
