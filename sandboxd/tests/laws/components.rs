//! The components of the service: which one may use which, and that each keeps its state to itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::Ident;
use syn::visit::Visit;
use syn::{Field, Visibility};

use crate::layers::{module_of, sources};
use crate::parts::{ROOT, depth_of, paths_used};
use crate::paths::imports_of;

/// A component: its folder, its struct, and the components it may use. Each line names only components above it, so the
/// arrows between them form no circle.
const COMPONENTS: [(&str, &str, &[&str]); 19] = [
    ("audit", "Audit", &[]),
    ("projects", "Projects", &[]),
    ("ownership", "Ownership", &[]),
    ("storage", "Storage", &["ownership"]),
    ("history", "History", &[]),
    ("egress", "Egress", &["audit"]),
    ("quotas", "Quotas", &[]),
    ("lifecycle", "Lifecycle", &["audit", "egress", "history", "ownership", "quotas", "storage"]),
    ("snapshots", "Snapshots", &["audit", "lifecycle", "quotas", "storage"]),
    ("repositories", "Repositories", &["egress", "lifecycle", "quotas", "snapshots"]),
    ("packages", "Packages", &["egress", "lifecycle", "quotas", "snapshots"]),
    ("commands", "Commands", &["history", "lifecycle", "quotas", "snapshots"]),
    ("contexts", "Contexts", &["history", "lifecycle", "quotas", "snapshots"]),
    ("terminals", "Terminals", &["lifecycle"]),
    ("values", "Values", &["lifecycle", "quotas"]),
    ("files", "Files", &["lifecycle", "snapshots", "storage"]),
    ("downloads", "Downloads", &["audit", "files", "lifecycle"]),
    ("previews", "Previews", &["audit", "egress", "lifecycle", "quotas"]),
    ("mcp_servers", "McpServers", &["lifecycle"]),
];

/// What every component may use of the service itself.
const SHARED: [&str; 18] = [
    "clock",
    "run_to_end",
    "tasks",
    "Authorized",
    "BaseFault",
    "ByOperator",
    "Context",
    "Error",
    "McpServerError",
    "OwnershipError",
    "Recorded",
    "QuotaError",
    "RepositoryError",
    "PackageError",
    "Setup",
    "SnapshotError",
    "SpecError",
    "StdinError",
];

/// The files of the service itself, which belong to no component.
const FILES: [&str; 10] =
    ["access", "authorized", "clock", "context", "mod", "run_to_end", "setup", "start", "tasks", "upkeep"];

/// Types that hold state which changes behind a shared reference.
const STATE: [&str; 11] = [
    "CancellationToken",
    "Cell",
    "Mutex",
    "Notify",
    "OnceCell",
    "OnceLock",
    "RefCell",
    "RwLock",
    "Semaphore",
    "Sender",
    "UnboundedSender",
];

/// Stands for the service as a whole, from which every component can be reached.
const WHOLE: &str = "the service as a whole";

pub(crate) fn service_sources() -> Vec<(PathBuf, Vec<String>)> {
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
fn every_file_of_the_service_belongs_to_a_component_or_is_known() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/service");
    let folders = COMPONENTS.iter().map(|(name, ..)| format!("{name}/"));
    let files = FILES.iter().map(|name| format!("{name}.rs"));
    let known: BTreeSet<String> = folders.chain(files).chain(["error/".to_owned()]).collect();
    let entry = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        let end = if entry.file_type().unwrap().is_dir() { "/" } else { "" };
        format!("{}{end}", entry.file_name().into_string().unwrap())
    };
    let found: BTreeSet<String> = std::fs::read_dir(root).unwrap().map(entry).collect();
    assert_eq!(known, found, "the components and FILES, and the folder of the service");
}

/// A type that a file defines.
struct Type {
    line: usize,
    name: String,
    /// The names in the types of its fields.
    names: Vec<String>,
    /// Whether the type and one of its fields are visible outside of the component.
    is_open: bool,
}

impl Type {
    /// The components that it holds. One that it holds twice counts twice.
    fn components(&self) -> usize {
        self.names.iter().filter(|name| is_component(name)).count()
    }

    fn holds_state(&self) -> bool {
        self.names.iter().any(|name| STATE.contains(&name.as_str()) || name.starts_with("Atomic"))
    }
}

/// The types of a file of this module, also those in its functions and in its inline modules.
fn types_of(text: &str, module: &[String]) -> Vec<Type> {
    let mut types = Types { module: module.to_vec(), found: Vec::new() };
    types.visit_file(&syn::parse_file(text).unwrap());
    types.found
}

struct Types {
    module: Vec<String>,
    found: Vec<Type>,
}

impl Types {
    /// Whether something is visible outside of the component, whose module has two names.
    fn is_open(&self, visibility: &Visibility) -> bool {
        depth_of(visibility, &self.module) < 2
    }

    fn add<'a>(
        &mut self,
        name: &Ident,
        visibility: &Visibility,
        fields: impl Iterator<Item = &'a Field>,
        is_enum: bool,
    ) {
        let (mut names, mut has_open_field) = (Names::default(), false);
        for field in fields {
            names.visit_type(&field.ty);
            has_open_field |= is_enum || self.is_open(&field.vis);
        }
        let is_open = has_open_field && self.is_open(visibility);
        self.found.push(Type {
            line: name.span().start().line,
            name: name.to_string(),
            names: names.0,
            is_open,
        });
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident, &item.vis, item.fields.iter(), false);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        let fields = item.variants.iter().flat_map(|variant| &variant.fields);
        self.add(&item.ident, &item.vis, fields, true);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.add(&item.ident, &item.vis, item.fields.named.iter(), false);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        let mut names = Names::default();
        names.visit_type(&item.ty);
        let (line, name) = (item.ident.span().start().line, item.ident.to_string());
        self.found.push(Type { line, name, names: names.0, is_open: false });
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        syn::visit::visit_item_mod(self, item);
        self.module.pop();
    }
}

/// The names in a type.
#[derive(Default)]
struct Names(Vec<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_ident(&mut self, ident: &'ast Ident) {
        self.0.push(ident.to_string());
    }
}

fn is_component(name: &str) -> bool {
    COMPONENTS.iter().any(|(_, component, _)| *component == name)
}

/// Values without state may have fields that other components read.
#[test]
fn fields_of_types_with_state_are_private_to_their_component() {
    let mut faults = Vec::new();
    for (file, module) in service_sources() {
        if module.get(1).is_none_or(|name| !COMPONENTS.iter().any(|(component, ..)| component == name)) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        for found in types_of(&text, &module) {
            if found.is_open && (found.components() > 0 || found.holds_state() || is_component(&found.name)) {
                faults.push(format!("{}:{}: {} has a visible field", file.display(), found.line, found.name));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_component_has_its_type() {
    for (component, name, _) in COMPONENTS {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/service");
        let text = std::fs::read_to_string(root.join(component).join("mod.rs")).unwrap();
        let types = types_of(&text, &["service".to_owned(), component.to_owned()]);
        assert!(types.iter().any(|found| found.name == name), "{component} does not define {name}");
    }
}

#[test]
fn only_the_service_and_components_hold_several_components() {
    for (file, module) in service_sources() {
        let text = std::fs::read_to_string(&file).unwrap();
        for found in types_of(&text, &module) {
            let (name, held) = (&found.name, found.components());
            assert!(
                held < 2 || is_component(name) || name == "Service",
                "{}:{}: {name} bundles {held} components",
                file.display(),
                found.line
            );
        }
    }
}

/// The test of bundles knows components by their names.
#[test]
fn no_component_has_an_alias() {
    for (file, _) in service_sources() {
        let parsed = syn::parse_file(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let aliases = aliases_of(&parsed);
        assert!(aliases.is_empty(), "{}: {aliases:?}", file.display());
    }
}

/// The other names that the imports of a file give to components.
fn aliases_of(file: &syn::File) -> Vec<String> {
    struct Imports(Vec<String>);
    impl<'ast> Visit<'ast> for Imports {
        fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
            let imports = imports_of(&item.tree).into_iter();
            let aliases = imports.filter(|import| {
                import.path.last().is_some_and(|name| is_component(name) && *name != import.name)
            });
            self.0.extend(aliases.map(|import| import.name));
        }
    }
    let mut imports = Imports(Vec::new());
    imports.visit_file(file);
    imports.0
}

#[test]
fn bundles_and_visible_state_are_found() {
    let inside = ["service", "commands", "feed"].map(str::to_owned);
    let root = ["service", "commands"].map(str::to_owned);
    let held = |text: &str| -> Vec<usize> { types_of(text, &inside).iter().map(Type::components).collect() };
    assert_eq!(held("struct B((Arc<Lifecycle>, Arc<Commands>));"), [2]);
    assert_eq!(held("struct B { a: Lifecycle, b: Vec<super::Commands> }"), [2]);
    assert_eq!(held("enum B { One(Arc<Lifecycle>), Two { files: Files } }"), [2]);
    assert_eq!(held("type B = (Arc<Lifecycle>, Arc<Commands>);"), [2]);
    assert_eq!(held("mod inner { struct B(Arc<Lifecycle>, Arc<Commands>); }"), [2]);
    assert_eq!(held("fn f() { struct B(Arc<Lifecycle>, Arc<Commands>); }"), [2]);
    assert_eq!(held("struct B(Arc<Lifecycle>, LifecycleView);"), [1]);
    let is_open = |text: &str, module: &[String]| types_of(text, module)[0].is_open;
    for text in [
        "pub struct A { pub(in crate::service) a: u8 }",
        "pub(crate) struct A { b: u8, pub(crate) a: u8 }",
        "pub(in crate::service) enum A { One(u8) }",
        "pub struct A(pub u8);",
    ] {
        assert!(is_open(text, &root) && is_open(text, &inside), "{text}");
    }
    for text in [
        "pub struct A { a: u8 }",
        "struct A { pub a: u8 }",
        "pub struct A { pub(self) a: u8, pub(in crate::service::commands) b: u8 }",
    ] {
        assert!(!is_open(text, &root) && !is_open(text, &inside), "{text}");
    }
    let above = "pub struct A { pub(super) a: u8 }";
    assert!(is_open(above, &root) && !is_open(above, &inside));
    assert!(is_open("pub struct A { pub(in super::super) a: u8 }", &inside));
    let state = |text: &str| types_of(text, &inside)[0].holds_state();
    assert!(state("struct A(Arc<std::sync::Mutex<u8>>);") && state("struct A(AtomicU64);"));
    assert!(!state("struct A(Arc<str>);"));
    let import = syn::parse_file("use crate::service::Lifecycle as Other; use super::Lifecycle;").unwrap();
    assert_eq!(aliases_of(&import), ["Other"]);
}
