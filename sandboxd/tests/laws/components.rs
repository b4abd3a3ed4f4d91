//! The components of the service: which one may use which, and that each keeps its state to itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::layers::{module_of, sources};
use crate::paths::{ROOT, paths_used};

/// A component: its folder, its struct, and the components it may use. Each line names only components above it, so the
/// arrows between them form no circle.
const COMPONENTS: [(&str, &str, &[&str]); 9] = [
    ("ownership", "Ownership", &[]),
    ("storage", "Storage", &["ownership"]),
    ("history", "History", &[]),
    ("egress", "Egress", &[]),
    ("lifecycle", "Lifecycle", &["egress", "history", "ownership", "storage"]),
    ("commands", "Commands", &["history", "lifecycle"]),
    ("terminals", "Terminals", &["lifecycle"]),
    ("files", "Files", &["lifecycle", "storage"]),
    ("previews", "Previews", &["egress", "lifecycle"]),
];

/// What every component may use of the service itself.
const SHARED: [&str; 5] = ["clock", "tasks", "Context", "Error", "Setup"];

/// Stands for the service as a whole, from which every component can be reached.
const WHOLE: &str = "the service as a whole";

fn service_sources() -> Vec<(PathBuf, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root.join("service"), &mut files);
    let module = |file: &PathBuf| module_of(file.strip_prefix(&root).unwrap());
    files.into_iter().map(|file| (file.clone(), module(&file))).collect()
}

/// What a component's files name of the service outside of the component, with file and line.
fn uses_of(component: &str) -> Vec<(String, String)> {
    let mut uses = Vec::new();
    for (file, module) in service_sources() {
        if module.get(1).is_none_or(|name| name != component) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let of_file = uses_in(&text, &module).into_iter();
        uses.extend(of_file.map(|(line, used)| (format!("{}:{line}", file.display()), used)));
    }
    uses
}

/// What a file of a component names of the service outside of the component, with the line.
fn uses_in(text: &str, module: &[String]) -> Vec<(usize, String)> {
    let used = |(line, path): (usize, Vec<String>)| match path.as_slice() {
        [] => Some((line, ROOT.to_owned())),
        [first] if first == "service" => Some((line, WHOLE.to_owned())),
        [first, second, ..] if first == "service" && *second != module[1] => Some((line, second.clone())),
        _ => None,
    };
    paths_used(text, module).unwrap().into_iter().filter_map(used).collect()
}

#[test]
fn a_glob_or_an_alias_of_the_service_is_found() {
    let module = ["service", "commands", "feed"].map(str::to_owned);
    for import in [
        "use crate::service;",
        "use crate::service::*;",
        "use crate::service as s;",
        "use crate::service::{self, commands};",
        "use crate::service::{self as s};",
        "use super::super::*;",
        "use super::super::{self as s};",
        "mod inner { use super::super::super::*; }",
        "wrap! { use crate::service; }",
        "wrap! { use crate::service::*; }",
    ] {
        let uses: Vec<_> = uses_in(import, &module).into_iter().map(|(_, used)| used).collect();
        assert_eq!(uses, [WHOLE], "{import}");
    }
    assert_eq!(uses_in("use super::*; mod tests { use super::*; use super::super::*; }", &module), []);
    assert_eq!(uses_in("use crate::*;", &module), [(1, ROOT.to_owned())]);
    let group = "wrap! { use crate::service::{lifecycle, commands}; }";
    assert_eq!(uses_in(group, &module), [(1, "lifecycle".to_owned())]);
}

#[test]
fn a_component_uses_only_what_it_may() {
    let mut faults = Vec::new();
    for (component, _, may_use) in COMPONENTS {
        for (place, used) in uses_of(component) {
            if !may_use.contains(&used.as_str()) && !SHARED.contains(&used.as_str()) {
                faults.push(format!("{place}: {component} may not use {used}"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_permission_of_a_component_is_needed() {
    for (component, _, may_use) in COMPONENTS {
        let used: BTreeSet<String> = uses_of(component).into_iter().map(|(_, used)| used).collect();
        for other in may_use {
            assert!(used.contains(*other), "{component} does not use {other}: take it out of the table");
        }
    }
}

#[test]
fn the_components_form_no_circle() {
    for (at, (component, _, may_use)) in COMPONENTS.iter().enumerate() {
        let above: Vec<&str> = COMPONENTS[..at].iter().map(|(name, ..)| *name).collect();
        for other in *may_use {
            assert!(above.contains(other), "{component} may use {other}, which is not above it in the table");
        }
    }
}

#[test]
fn every_folder_of_the_service_is_a_component() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/service");
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    let known: BTreeSet<&str> = COMPONENTS.iter().map(|(name, ..)| *name).chain(["error"]).collect();
    for folder in folders {
        let name = folder.file_name().into_string().unwrap();
        assert!(known.contains(name.as_str()), "{name} is not in the table of components");
    }
}

/// The structs of a file, with the types of their fields as written, and whether each field is private.
fn structs_of(text: &str) -> BTreeMap<String, Vec<(String, bool)>> {
    let file = syn::parse_file(text).unwrap();
    let structs = file.items.into_iter().filter_map(|item| match item {
        syn::Item::Struct(item) => Some(item),
        _ => None,
    });
    let fields = |item: &syn::ItemStruct| -> Vec<(String, bool)> {
        let field = |field: &syn::Field| {
            let mut names = Names::default();
            syn::visit::Visit::visit_type(&mut names, &field.ty);
            (names.0.join(" "), matches!(field.vis, syn::Visibility::Inherited))
        };
        item.fields.iter().map(field).collect()
    };
    structs.map(|item| (item.ident.to_string(), fields(&item))).collect()
}

/// The names in a type.
#[derive(Default)]
struct Names(Vec<String>);

impl<'ast> syn::visit::Visit<'ast> for Names {
    fn visit_ident(&mut self, ident: &'ast proc_macro2::Ident) {
        self.0.push(ident.to_string());
    }
}

fn names_component(field: &str) -> bool {
    field.split(' ').any(|name| COMPONENTS.iter().any(|(_, component, _)| *component == name))
}

#[test]
fn the_fields_of_a_component_are_private() {
    for (component, name, _) in COMPONENTS {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/service");
        let text = std::fs::read_to_string(root.join(component).join("mod.rs")).unwrap();
        let fields = structs_of(&text).remove(name).unwrap();
        assert!(fields.iter().all(|(_, is_private)| *is_private), "a field of {name} is not private");
    }
}

#[test]
fn only_the_service_and_components_hold_several_components() {
    for (file, _) in service_sources() {
        let text = std::fs::read_to_string(&file).unwrap();
        for (name, fields) in structs_of(&text) {
            let is_component = COMPONENTS.iter().any(|(_, component, _)| *component == name);
            let held = fields.iter().filter(|(names, _)| names_component(names)).count();
            assert!(
                held < 2 || is_component || name == "Service",
                "{}: {name} bundles {held} components",
                file.display()
            );
        }
    }
}
