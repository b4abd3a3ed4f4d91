//! The modules of a folder form no circle, in any crate of the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use crate::paths::{Import, UsedPath, imports_of, is_test, paths_of_file};

/// A module of a crate.
struct Module {
    /// Its path below the root of the crate, whose own path is empty.
    path: Vec<String>,
    file_path: PathBuf,
    file: syn::File,
    used: Vec<UsedPath>,
}

impl Module {
    fn read(file_path: PathBuf, path: &[String]) -> Self {
        let file = syn::parse_file(&std::fs::read_to_string(&file_path).unwrap()).unwrap();
        let used = paths_of_file(&file);
        Self { path: path.to_vec(), file_path, file, used }
    }

    /// The names of the modules that it declares, without those of tests.
    fn declared(&self) -> impl Iterator<Item = String> {
        self.file.items.iter().filter_map(|item| match item {
            syn::Item::Mod(item) if item.content.is_none() && !is_test(&item.attrs) => {
                Some(item.ident.to_string())
            }
            _ => None,
        })
    }
}

/// The modules that a folder of sources holds for the module that declares them, and that module.
fn modules(module: Module, folder: &Path, found: &mut Vec<Module>) {
    for name in module.declared() {
        let path = [&module.path[..], std::slice::from_ref(&name)].concat();
        let files = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
        let file = files.into_iter().find(|file| file.exists()).unwrap();
        modules(Module::read(file, &path), &folder.join(name), found);
    }
    found.push(module);
}

/// The modules of a crate. A crate with a library and a program has the program as a further crate, which is one file.
fn modules_of_crate(sources: &Path) -> Vec<Module> {
    let files = [sources.join("lib.rs"), sources.join("main.rs")];
    let root = files.into_iter().find(|file| file.exists()).unwrap();
    let mut found = Vec::new();
    modules(Module::read(root, &[]), sources, &mut found);
    found
}

/// A folder's own module, such as `mod.rs`, and its children.
struct Folder<'a> {
    own: &'a Module,
    /// The own module and every module below it.
    modules: Vec<&'a Module>,
    children: BTreeSet<String>,
    names: BTreeMap<String, Node>,
}

/// Where a name in a folder's own module comes from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Own,
    Child(String),
    Elsewhere,
}

impl<'a> Folder<'a> {
    /// The folder of a module; none if it has no children.
    fn of(own: &'a Module, all: &'a [Module]) -> Option<Self> {
        let modules: Vec<_> = all.iter().filter(|module| module.path.starts_with(&own.path)).collect();
        let depth = own.path.len();
        let children: BTreeSet<_> =
            modules.iter().filter_map(|module| module.path.get(depth).cloned()).collect();
        let mut folder = Self { own, modules, children, names: BTreeMap::new() };
        folder.names = folder.names();
        (!folder.children.is_empty()).then_some(folder)
    }

    /// What the own module makes of the names in it.
    fn names(&self) -> BTreeMap<String, Node> {
        let mut names: BTreeMap<_, _> =
            self.own.file.items.iter().filter_map(defined_name).map(|name| (name, Node::Own)).collect();
        let imports = self.own.file.items.iter().filter_map(|item| match item {
            syn::Item::Use(item) => Some(imports_of(&item.tree)),
            _ => None,
        });
        for Import { name, path, .. } in imports.flatten() {
            let child = self.absolute_from_own(&path).and_then(|path| self.child(&path));
            match (child, name.as_str()) {
                (Some(child), "*") => {
                    let names_of_child = self.items_of(&child).filter_map(defined_name);
                    names.extend(names_of_child.map(|name| (name, Node::Child(child.clone()))));
                }
                (Some(child), _) => drop(names.insert(name, Node::Child(child))),
                (None, _) => drop(names.insert(name, Node::Elsewhere)),
            }
        }
        names
    }

    fn items_of(&self, child: &str) -> impl Iterator<Item = &syn::Item> {
        let depth = self.own.path.len();
        let module = self.modules.iter().find(|module| module.path[depth..] == [child]);
        module.into_iter().flat_map(|module| &module.file.items)
    }

    /// The child to which a path from the root leads by its name.
    fn child(&self, path: &[String]) -> Option<String> {
        let rest = path.strip_prefix(&self.own.path[..])?;
        rest.first().filter(|first| self.children.contains(*first)).cloned()
    }

    /// The absolute path of a path in the own module, which may name a child without `self`.
    fn absolute_from_own(&self, path: &[String]) -> Option<Vec<String>> {
        match path {
            [first, _, ..] if self.children.contains(first) => Some([&self.own.path[..], path].concat()),
            _ => absolute(path, &self.own.path),
        }
    }

    /// The node that a path of a module leads to, if it is in this folder.
    fn target(&self, module: &Module, used: &UsedPath) -> Option<Node> {
        let is_own = module.path == self.own.path;
        let path =
            if is_own { self.absolute_from_own(&used.path) } else { absolute(&used.path, &module.path) };
        let Some(path) = path else {
            // A name that the own module passes on is a use of the child where the own module needs it too.
            return self.names.get(used.path.first()?).filter(|_| is_own).cloned();
        };
        if let Some(child) = self.child(&path) {
            // The own module passes a child's name on.
            return (!is_own || !used.is_re_export).then_some(Node::Child(child));
        }
        let first = path.strip_prefix(&self.own.path[..])?.first()?;
        if first == "*" { Some(Node::Own) } else { self.names.get(first).cloned() }
    }

    /// The node that a module belongs to.
    fn node_of(&self, module: &Module) -> Node {
        module.path.get(self.own.path.len()).cloned().map_or(Node::Own, Node::Child)
    }

    /// Which node uses which, each with one path that shows it.
    fn arrows(&self) -> BTreeMap<(Node, Node), String> {
        let mut arrows = BTreeMap::new();
        for module in &self.modules {
            let from = self.node_of(module);
            for used in &module.used {
                let to = self.target(module, used).filter(|to| *to != from && *to != Node::Elsewhere);
                let cause =
                    || format!("{}:{}: {}", module.file_path.display(), used.line, used.path.join("::"));
                if let Some(to) = to {
                    arrows.entry((from.clone(), to)).or_insert_with(cause);
                }
            }
        }
        arrows
    }

    fn circles(&self) -> Vec<Circle> {
        let arrows = self.arrows();
        let mut circles = Vec::new();
        let mut nodes: BTreeSet<Node> = arrows.keys().map(|(from, _)| from.clone()).collect();
        while let Some(node) = nodes.pop_first() {
            let members: BTreeSet<Node> = reached_from(&node, &arrows)
                .into_iter()
                .filter(|other| reached_from(other, &arrows).contains(&node))
                .collect();
            nodes.retain(|node| !members.contains(node));
            if !members.is_empty() {
                let is_inside = |(from, to): &(Node, Node)| members.contains(from) && members.contains(to);
                let inside = arrows.iter().filter(|(arrow, _)| is_inside(arrow));
                let arrows = inside
                    .map(|((from, to), cause)| format!("{} uses {}: {cause}", self.name(from), self.name(to)))
                    .collect();
                let members = members.iter().map(|node| self.name(node)).collect();
                circles.push(Circle { members, arrows });
            }
        }
        circles
    }

    fn name(&self, node: &Node) -> String {
        match node {
            Node::Child(child) => [&self.own.path[..], std::slice::from_ref(child)].concat().join("::"),
            Node::Own | Node::Elsewhere if self.own.path.is_empty() => "crate".to_owned(),
            Node::Own | Node::Elsewhere => self.own.path.join("::"),
        }
    }
}

/// The nodes to which one or more arrows lead from a node.
fn reached_from(node: &Node, arrows: &BTreeMap<(Node, Node), String>) -> BTreeSet<Node> {
    let mut reached = BTreeSet::new();
    let mut open = vec![node.clone()];
    while let Some(node) = open.pop() {
        for (_, to) in arrows.keys().filter(|(from, _)| *from == node) {
            if reached.insert(to.clone()) {
                open.push(to.clone());
            }
        }
    }
    reached
}

/// The name of what an item defines in its module.
fn defined_name(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        // Any other is a child.
        syn::Item::Mod(item) if item.content.is_some() => &item.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The absolute path of a path in a module; none if it is not written from the root, from `self` or from `super`.
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

/// Modules of one folder, each of which uses every other one, directly or through further ones.
struct Circle {
    members: Vec<String>,
    /// Which member uses which, and where.
    arrows: Vec<String>,
}

impl Display for Circle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.members.join(", "))?;
        self.arrows.iter().try_for_each(|arrow| write!(f, "\n    {arrow}"))
    }
}

/// The circles among the modules of a crate.
fn circles(sources: &Path) -> Vec<Circle> {
    let all = modules_of_crate(sources);
    all.iter().filter_map(|own| Folder::of(own, &all)).flat_map(|folder| folder.circles()).collect()
}

/// The folders of the workspace's crates, by their paths in the workspace.
fn crates() -> BTreeMap<String, PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = manifest.split("members = [").nth(1).unwrap().split(']').next().unwrap();
    let members = members.split('"').skip(1).step_by(2);
    members.map(|member| (member.to_owned(), root.join(member))).collect()
}

#[test]
fn no_modules_form_a_circle() {
    let crates = crates();
    for one in ["sandboxd", "sandboxd/crates/model", "crates/toolbox", "surfaces/mcp", "chat"] {
        assert!(crates.contains_key(one), "{one} is not checked");
    }
    let mut faults = Vec::new();
    for (name, folder) in crates {
        let circles = circles(&folder.join("src"));
        faults.extend(circles.iter().map(|circle| format!("{name}: {circle}")));
    }
    assert!(faults.is_empty(), "these modules form a circle:\n{}\n", faults.join("\n"));
}

/// The circles in a crate of these files: the members of each, and its arrows with the files named from the root.
fn circles_of(files: &[(&str, &str)]) -> Vec<(String, Vec<String>)> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = dir.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let place = format!("{}/", dir.path().display());
    let shown = |circle: Circle| {
        let arrows = circle.arrows.iter().map(|arrow| arrow.replace(&place, ""));
        (circle.members.join(" "), arrows.collect())
    };
    let mut circles: Vec<_> = circles(dir.path()).into_iter().map(shown).collect();
    circles.sort();
    circles
}

fn members_of(files: &[(&str, &str)]) -> Vec<String> {
    circles_of(files).into_iter().map(|(members, _)| members).collect()
}

#[test]
fn a_circle_is_found_by_any_path() {
    let found = members_of(&[
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
    ]);
    assert_eq!(found, ["crate apart", "folder one", "folder::inner folder::other"]);
}

#[test]
fn a_circle_of_three_is_named_with_its_paths() {
    let found = circles_of(&[
        ("main.rs", "mod first; mod second; mod third; mod user;"),
        ("first.rs", "\nuse crate::second::Second as Other;"),
        // A folder beside its module.
        ("second.rs", "mod deep; pub struct Second;"),
        ("second/deep.rs", "#[derive(Serialize)]\nstruct Deep { third: super::super::third::Third }"),
        ("third.rs", "#[path(body = crate::first::First)]\npub struct Third;"),
        // It uses the circle and is not in it.
        ("user.rs", "use crate::first::*;"),
    ]);
    let arrows = [
        "first uses second: first.rs:2: crate::second::Second",
        "second uses third: second/deep.rs:2: super::super::third::Third",
        "third uses first: third.rs:1: crate::first::First",
    ];
    assert_eq!(found, [("first second third".to_owned(), arrows.map(str::to_owned).to_vec())]);
}

#[test]
fn a_name_that_is_passed_on_leads_to_its_module() {
    let found = members_of(&[
        // It needs what it passes on from `one`, and gives all that `all` has.
        (
            "lib.rs",
            "mod all; mod called; mod one; mod user; mod variable; \
             pub use all::*; pub use called::call; pub use one::One; pub use variable::local; \
             fn root(_: One, local: u8) { call(local); }",
        ),
        ("all.rs", "pub struct All; use crate::user;"),
        ("one.rs", "use super::root;"),
        ("called.rs", "use super::root;"),
        // Its function is not called: `local` is a variable there.
        ("variable.rs", "use super::root;"),
        // Passing on a neighbor's name is a use of it.
        ("user.rs", "pub use super::All;"),
    ]);
    assert_eq!(found, ["all user", "crate called one"]);
}

#[test]
fn code_of_tests_and_paths_out_of_the_crate_close_no_circle() {
    let found = members_of(&[
        ("lib.rs", "mod one; mod two; #[cfg(test)] mod tests;"),
        ("one.rs", "use crate::two::Two; pub struct One;"),
        (
            "two.rs",
            "pub struct Two; use other::one::One; #[cfg(test)] use crate::one; \
             impl Two { #[cfg(test)] fn one() -> crate::one::One { todo!() } }",
        ),
        ("tests.rs", "use crate::one::One;"),
    ]);
    assert_eq!(found, Vec::<String>::new());
}
