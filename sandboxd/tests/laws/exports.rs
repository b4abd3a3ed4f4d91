//! What the service shows to the parts above it: its own types and those of `model`. A type of another crate in a
//! signature would make its callers depend on that crate without naming it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{ImplItem, Item, Visibility};

use crate::components::service_sources;
use crate::parts::{depth_of, from_root};
use crate::paths::{imports_of, is_test};

/// Types of the service that may show types of these parts.
const MAY_SHOW: [(&str, &[&str]); 6] = [
    // The causes of an error, for the log.
    ("Error", &["agent", "audit", "engine", "jwt", "store"]),
    ("RepositoryError", &["git"]),
    ("PackageError", &["git"]),
    // `lib.rs` creates it from these.
    ("Service", &["engine", "metrics", "store"]),
    ("SpecError", &["engine"]),
    ("StdinError", &["agent"]),
];

/// A part that an item of the service shows.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    place: String,
    /// Name of the item. A method belongs to its type.
    item: String,
    part: String,
}

/// Names in a module of the service.
#[derive(Default)]
struct Scope {
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    aliases: BTreeMap<String, Vec<Vec<String>>>,
}

/// The modules of the service, by their paths from the root.
#[derive(Default)]
struct Scopes(BTreeMap<Vec<String>, Scope>);

impl Scopes {
    fn add(&mut self, items: &[Item], module: &[String]) {
        let mut scope = Scope::default();
        for item in items.iter().filter(|item| !is_of_tests(item)) {
            match item {
                Item::Use(item) => {
                    for mut import in imports_of(&item.tree) {
                        match import.name.as_str() {
                            "*" => {
                                import.path.pop();
                                scope.globs.push(import.path);
                            }
                            _ => drop(scope.imports.insert(import.name, import.path)),
                        }
                    }
                }
                Item::ExternCrate(item) => {
                    let name = item.rename.as_ref().map_or(&item.ident, |(_, name)| name);
                    scope.imports.insert(name.to_string(), vec![item.ident.to_string()]);
                }
                Item::Type(item) => {
                    let paths = paths_in(|paths| paths.visit_type(&item.ty));
                    scope.aliases.insert(item.ident.to_string(), paths);
                }
                Item::Mod(item) => {
                    let child = [module, &[item.ident.to_string()]].concat();
                    item.content.iter().for_each(|(_, items)| self.add(items, &child));
                }
                _ => {}
            }
        }
        self.0.insert(module.to_vec(), scope);
    }

    /// The parts that a path of a module leads to, through imports, globs and aliases. Those that the service may show
    /// are not among them.
    fn parts_of(&self, path: &[String], module: &[String]) -> BTreeSet<String> {
        self.follow(path, module, 0)
    }

    fn follow(&self, path: &[String], module: &[String], steps: usize) -> BTreeSet<String> {
        // An import may have the name of the crate that it imports.
        if steps > 20 {
            return BTreeSet::new();
        }
        let Some(path) = from_root(path, module) else {
            return self.follow_name(path, module, steps);
        };
        match path.first().map(String::as_str) {
            Some("service") => self.follow_name(&path[1..], &path[..1], steps),
            Some("model") | None => BTreeSet::new(),
            Some(part) => BTreeSet::from([part.to_owned()]),
        }
    }

    /// Follows a path whose first name is one of this module's.
    fn follow_name(&self, path: &[String], module: &[String], steps: usize) -> BTreeSet<String> {
        let (Some(scope), [name, rest @ ..]) = (self.0.get(module), path) else {
            return BTreeSet::new();
        };
        if let Some(import) = scope.imports.get(name) {
            return self.follow(&[import, rest].concat(), module, steps + 1);
        }
        if let Some(paths) = scope.aliases.get(name) {
            return paths.iter().flat_map(|path| self.follow(path, module, steps + 1)).collect();
        }
        let child = [module, std::slice::from_ref(name)].concat();
        if self.0.contains_key(&child) {
            return self.follow_name(rest, &child, steps + 1);
        }
        let through_globs = scope.globs.iter().map(|glob| [glob, path].concat());
        through_globs.flat_map(|path| self.follow(&path, module, steps + 1)).collect()
    }
}

fn is_of_tests(item: &Item) -> bool {
    match item {
        Item::Impl(item) => is_test(&item.attrs),
        Item::Mod(item) => is_test(&item.attrs),
        Item::Use(item) => is_test(&item.attrs),
        _ => false,
    }
}

/// Collects paths.
#[derive(Default)]
struct Paths(Vec<Vec<String>>);

impl<'ast> Visit<'ast> for Paths {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}

fn paths_in(visit: impl FnOnce(&mut Paths)) -> Vec<Vec<String>> {
    let mut paths = Paths::default();
    visit(&mut paths);
    paths.0
}

/// Finds what the items of one file show.
struct Finder<'a> {
    scopes: &'a Scopes,
    file: String,
    module: Vec<String>,
    shown: BTreeSet<Shown>,
}

impl Finder<'_> {
    /// Whether something is visible outside of the service.
    fn is_visible(&self, visibility: &Visibility) -> bool {
        depth_of(visibility, &self.module) < 1
    }

    fn add(&mut self, line: usize, item: &str, paths: Vec<Vec<String>>) {
        let parts = paths.iter().flat_map(|path| self.scopes.parts_of(path, &self.module));
        let place = format!("{}:{line}", self.file);
        let shown = parts.map(|part| Shown { place: place.clone(), item: item.to_owned(), part });
        self.shown.extend(shown.collect::<Vec<_>>());
    }

    fn items(&mut self, items: &[Item]) {
        for item in items.iter().filter(|item| !is_of_tests(item)) {
            self.item(item);
        }
    }

    fn item(&mut self, item: &Item) {
        let line = item.span().start().line;
        match item {
            Item::Use(item) if self.is_visible(&item.vis) => {
                for mut import in imports_of(&item.tree) {
                    import.path.pop_if(|name| name == "*");
                    self.add(import.line, &import.name, vec![import.path]);
                }
            }
            Item::ExternCrate(item) if self.is_visible(&item.vis) => {
                self.add(line, &item.ident.to_string(), vec![vec![item.ident.to_string()]]);
            }
            Item::Type(item) if self.is_visible(&item.vis) => {
                self.add(line, &item.ident.to_string(), paths_in(|paths| paths.visit_item_type(item)));
            }
            Item::Const(item) if self.is_visible(&item.vis) => {
                self.add(line, &item.ident.to_string(), paths_in(|paths| paths.visit_type(&item.ty)));
            }
            Item::Static(item) if self.is_visible(&item.vis) => {
                self.add(line, &item.ident.to_string(), paths_in(|paths| paths.visit_type(&item.ty)));
            }
            Item::Fn(item) if self.is_visible(&item.vis) => {
                let paths = paths_in(|paths| paths.visit_signature(&item.sig));
                self.add(line, &item.sig.ident.to_string(), paths);
            }
            Item::Trait(item) if self.is_visible(&item.vis) => {
                self.add(line, &item.ident.to_string(), paths_in(|paths| paths.visit_item_trait(item)));
            }
            Item::Struct(item) if self.is_visible(&item.vis) => {
                let name = item.ident.to_string();
                self.add(line, &name, paths_in(|paths| paths.visit_generics(&item.generics)));
                for field in &item.fields {
                    if self.is_visible(&field.vis) {
                        let line = field.span().start().line;
                        self.add(line, &name, paths_in(|paths| paths.visit_type(&field.ty)));
                    }
                }
            }
            Item::Enum(item) if self.is_visible(&item.vis) => {
                self.add(line, &item.ident.to_string(), paths_in(|paths| paths.visit_item_enum(item)));
            }
            Item::Impl(item) => self.implementation(item),
            Item::Mod(item) => {
                self.module.push(item.ident.to_string());
                item.content.iter().for_each(|(_, items)| self.items(items));
                self.module.pop();
            }
            // What a macro defines is not known here.
            Item::Macro(item) if defines_items(&item.mac.tokens) => {
                self.add(line, "a macro", vec![vec!["crate".to_owned(), "a macro".to_owned()]]);
            }
            _ => {}
        }
    }

    fn implementation(&mut self, item: &syn::ItemImpl) {
        let paths_of_type = paths_in(|paths| paths.visit_type(&item.self_ty));
        let name = paths_of_type.first().and_then(|path| path.last()).cloned().unwrap_or_default();
        for part in &item.items {
            let paths = match part {
                ImplItem::Fn(part) if self.is_visible(&part.vis) => {
                    paths_in(|paths| paths.visit_signature(&part.sig))
                }
                ImplItem::Const(part) if self.is_visible(&part.vis) => {
                    paths_in(|paths| paths.visit_type(&part.ty))
                }
                // As visible as the trait and the type.
                ImplItem::Type(part) => paths_in(|paths| paths.visit_type(&part.ty)),
                _ => continue,
            };
            self.add(part.span().start().line, &name, paths);
        }
    }
}

/// Whether the tokens of a macro may define something that other modules see.
fn defines_items(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => defines_items(&group.stream()),
        TokenTree::Ident(name) => name == "pub" || name == "type",
        _ => false,
    })
}

/// What the modules of the service show, each given by its path, its file and its text.
fn shown_by(modules: &[(Vec<String>, String, String)]) -> BTreeSet<Shown> {
    let parse = |text: &str| syn::parse_file(text).unwrap();
    let mut scopes = Scopes::default();
    for (module, _, text) in modules {
        scopes.add(&parse(text).items, module);
    }
    let mut shown = BTreeSet::new();
    for (module, file, text) in modules {
        let mut finder =
            Finder { scopes: &scopes, file: file.clone(), module: module.clone(), shown: BTreeSet::new() };
        finder.items(&parse(text).items);
        shown.append(&mut finder.shown);
    }
    shown
}

fn shown_by_the_service() -> BTreeSet<Shown> {
    let sources = service_sources().into_iter();
    let modules = sources.map(|(file, module)| {
        let text = std::fs::read_to_string(&file).unwrap();
        (module, file.display().to_string(), text)
    });
    shown_by(&modules.collect::<Vec<_>>())
}

#[test]
fn the_service_shows_only_its_own_types_and_those_of_the_model() {
    let is_permitted = |shown: &Shown| {
        MAY_SHOW.iter().any(|(item, parts)| *item == shown.item && parts.contains(&shown.part.as_str()))
    };
    let faults: Vec<String> = shown_by_the_service()
        .iter()
        .filter(|shown| !is_permitted(shown))
        .map(|Shown { place, item, part }| format!("{place}: {item} shows {part}"))
        .collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_permission_to_show_a_part_is_needed() {
    let shown = shown_by_the_service();
    for (item, parts) in MAY_SHOW {
        for part in parts {
            let is_shown = shown.iter().any(|shown| shown.item == item && shown.part == *part);
            assert!(is_shown, "{item} does not show {part}: take it out of the table");
        }
    }
}

/// The parts that the service shows if it has these modules, with the names of the items.
fn shown_in(modules: &[(&str, &str)]) -> Vec<(String, String)> {
    let modules = modules.iter().map(|(path, text)| {
        let module = path.split("::").map(str::to_owned).collect();
        (module, (*path).to_owned(), (*text).to_owned())
    });
    let shown = shown_by(&modules.collect::<Vec<_>>());
    shown.into_iter().map(|Shown { item, part, .. }| (item, part)).collect()
}

#[test]
fn a_re_export_is_found_in_every_form() {
    for text in [
        "pub use crate::agent::Tunnel;",
        "pub(crate) use crate::agent::Tunnel;",
        "pub(super) use crate::agent::Tunnel;",
        "pub(in crate) use crate::agent::Tunnel;",
        "pub use sandboxd_agents::Tunnel;",
        "pub use crate::model::{self, Refusal}; pub use crate::{agent::Tunnel};",
        "use crate::agent as other; pub use other::Tunnel;",
        "use crate::agent as other; pub use self::other::Tunnel;",
        "use super::agent; pub use agent::Tunnel;",
        "mod inner { pub(super) use crate::agent as other; } pub use inner::other::Tunnel;",
        "mod inner { use crate::agent as other; pub use other::Tunnel; }",
        "pub type Tunnel = crate::agent::Tunnel;",
        "use crate::agent::Tunnel as Other; pub type Tunnel = Box<dyn Fn(Vec<Other>)>;",
        "type Other = crate::agent::Tunnel; pub type Tunnel = Other;",
        "use sandboxd_agents as other; pub type Tunnel = other::Tunnel;",
        "extern crate sandboxd_agents as other; pub use other::Tunnel;",
    ] {
        assert_eq!(shown_in(&[("service", text)]), [("Tunnel".to_owned(), "agent".to_owned())], "{text}");
    }
    let found = |text: &str| shown_in(&[("service", text)]);
    assert_eq!(found("pub use crate::agent::*;"), [("*".to_owned(), "agent".to_owned())]);
    assert_eq!(found("pub use crate::agent;"), [("agent".to_owned(), "agent".to_owned())]);
    assert_eq!(found("pub extern crate sandboxd_agents;").len(), 1);
    assert_eq!(found("wrap! { pub use crate::agent::Tunnel; }").len(), 1);
}

#[test]
fn a_re_export_is_found_through_other_modules() {
    let root = "mod files; mod names; pub use files::Tunnel; pub use self::names::*;";
    let names =
        "pub(super) use super::files::other::Tunnel as Renamed; use super::files::*; pub use Own as Shown;";
    let files =
        "pub(super) use crate::agent as other; pub use other::Tunnel; use crate::engine::Seccomp as Own;";
    let found = shown_in(&[("service", root), ("service::files", files), ("service::names", names)]);
    let expected = [("Tunnel", "agent"), ("Tunnel", "agent"), ("Shown", "engine")];
    assert_eq!(found, expected.map(|(item, part)| (item.to_owned(), part.to_owned())));
}

#[test]
fn a_type_is_found_in_every_visible_position() {
    for text in [
        "pub struct A { pub a: Option<Tunnel> }",
        "pub struct A(pub Tunnel);",
        "pub enum A { One(Tunnel) }",
        "pub struct A; impl A { pub fn a(self) -> Result<Tunnel, Error> { todo!() } }",
        "pub struct A; impl A { pub async fn a(self, b: impl Into<Tunnel>) {} }",
        "pub struct A; impl Stream for A { type Item = Tunnel; fn next(self) {} }",
        "pub trait A { fn a(self) -> Tunnel; }",
        "pub const A: Tunnel = Tunnel::NEW;",
        "type Own = Vec<Tunnel>; pub fn A() -> Own {}",
    ] {
        let text = format!("use crate::agent::Tunnel; {text}");
        let expected = [("A".to_owned(), "agent".to_owned())];
        assert_eq!(shown_in(&[("service::files", &text)]), expected, "{text}");
    }
}

#[test]
fn what_no_other_part_sees_is_not_shown() {
    for text in [
        "use crate::agent::Tunnel; pub struct A { a: Tunnel } impl A { fn a(self) -> Tunnel { self.a } }",
        "pub(super) use crate::agent::Tunnel; pub(in crate::service) type A = Tunnel;",
        "use crate::model::Refusal; pub use crate::model::Resource; pub fn a(b: Refusal) {}",
        "pub use self::own::Own; pub use bytes::Bytes; mod own { pub struct Own; }",
        "pub fn a() { crate::agent::connect(); }",
        "use crate::agent; pub struct A; impl From<agent::Error> for A { fn from(a: agent::Error) -> A { A } }",
        "#[cfg(test)] mod tests { pub use crate::agent::Tunnel; }",
    ] {
        assert_eq!(shown_in(&[("service::files", text)]), [], "{text}");
    }
}
