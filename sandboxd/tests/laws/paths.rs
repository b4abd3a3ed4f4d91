//! Finds the paths in a source file: in `use` lines, expressions, types, attributes and the tokens of macros.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Whether attributes say that an item is only compiled for tests.
pub(crate) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

/// A path in a file, with the line on which it stands. `super` counts from the module of the file.
#[derive(Clone)]
pub(crate) struct UsedPath {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
    /// Whether it is in a `use` that other modules see, and thus only passes a name on.
    pub(crate) is_re_export: bool,
}

/// A name that a `use` brings into a module, and the path of what it stands for. Both end with `*` for a glob.
pub(crate) struct Import {
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) path: Vec<String>,
}

/// Every path that a file names outside of its tests.
pub(crate) fn paths_of_file(file: &syn::File) -> Vec<UsedPath> {
    let mut collector = Collector::default();
    collector.visit_file(file);
    collector.found
}

/// The names that a `use` brings into its module.
pub(crate) fn imports_of(tree: &syn::UseTree) -> Vec<Import> {
    fn walk(tree: &syn::UseTree, before: &[String], found: &mut Vec<Import>) {
        let line = tree.span().start().line;
        let with = |name: String| [before, &[name]].concat();
        let import = match tree {
            syn::UseTree::Path(path) => return walk(&path.tree, &with(path.ident.to_string()), found),
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| walk(tree, before, found));
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                Import { line, name: before.last().cloned().unwrap_or_default(), path: before.to_vec() }
            }
            syn::UseTree::Name(name) => {
                Import { line, name: name.ident.to_string(), path: with(name.ident.to_string()) }
            }
            syn::UseTree::Rename(rename) if rename.ident == "self" => {
                Import { line, name: rename.rename.to_string(), path: before.to_vec() }
            }
            syn::UseTree::Rename(rename) => {
                Import { line, name: rename.rename.to_string(), path: with(rename.ident.to_string()) }
            }
            syn::UseTree::Glob(_) => Import { line, name: "*".to_owned(), path: with("*".to_owned()) },
        };
        found.push(import);
    }
    let mut found = Vec::new();
    walk(tree, &[], &mut found);
    found
}

#[derive(Default)]
struct Collector {
    /// How many modules of the file the visitor is in.
    depth: usize,
    found: Vec<UsedPath>,
}

impl Collector {
    /// Adds a path as the file's own module would write it.
    fn add(&mut self, line: usize, path: Vec<String>, is_re_export: bool) {
        let up = path.iter().take_while(|name| *name == "super").count();
        let is_of_file = up == 0 || up > self.depth;
        if is_of_file {
            let path = path[up.min(self.depth)..].to_vec();
            self.found.push(UsedPath { line, path, is_re_export });
        }
    }

    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut found = Vec::new();
        paths_of_tokens(tokens, &mut found);
        for TokenPath { line, path, .. } in found {
            self.add(line, path, false);
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_re_export = !matches!(item.vis, syn::Visibility::Inherited);
        for import in imports_of(&item.tree) {
            self.add(import.line, import.path, is_re_export);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add(path.span().start().line, names, false);
        visit::visit_path(self, path);
    }

    fn visit_expr_path(&mut self, expression: &'ast syn::ExprPath) {
        // A single name in lower case that is not called is most likely a variable.
        if !is_lower_case_name(&expression.path) {
            visit::visit_expr_path(self, expression);
        }
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(function) = &*call.func
            && is_lower_case_name(&function.path)
        {
            visit::visit_expr_path(self, function);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {
        // `pub(super)` uses nothing.
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.add_tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.add_tokens(list.tokens.clone());
        }
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes = match item {
            syn::ImplItem::Const(item) => &item.attrs,
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            _ => return visit::visit_impl_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.depth += 1;
        visit::visit_item_mod(self, item);
        self.depth -= 1;
    }
}

fn is_lower_case_name(path: &syn::Path) -> bool {
    path.get_ident()
        .is_some_and(|name| name.to_string().starts_with(|first: char| first.is_ascii_lowercase()))
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// A path in the tokens of a macro. It ends with `*` for a glob.
pub(crate) struct TokenPath {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
    /// Whether `as` follows it.
    pub(crate) is_renamed: bool,
}

/// Collects the paths in tokens, with those in the groups of a `use`.
pub(crate) fn paths_of_tokens(tokens: TokenStream, found: &mut Vec<TokenPath>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut rest = tokens.as_slice();
    while let [token, after @ ..] = rest {
        rest = match token {
            TokenTree::Group(group) => {
                paths_of_tokens(group.stream(), found);
                after
            }
            TokenTree::Ident(_) => path_from(rest, &[], found),
            _ => after,
        };
    }
}

/// Collects the paths that begin with the first token: `a::b`, `a::*` or those of `a::{b, c::d}`. Returns the tokens after
/// them.
fn path_from<'a>(tokens: &'a [TokenTree], before: &[String], found: &mut Vec<TokenPath>) -> &'a [TokenTree] {
    let line = tokens.first().map_or(0, |token| token.span().start().line);
    let mut path = before.to_vec();
    let mut rest = tokens;
    loop {
        match rest {
            [TokenTree::Ident(ident), after @ ..] => {
                path.push(ident.to_string());
                rest = after;
            }
            [TokenTree::Punct(star), after @ ..] if star.as_char() == '*' => {
                path.push("*".to_owned());
                rest = after;
                break;
            }
            [TokenTree::Group(group), after @ ..] if group.delimiter() == Delimiter::Brace => {
                let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
                let is_comma =
                    |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
                for tokens in tokens.split(is_comma).filter(|tokens| !tokens.is_empty()) {
                    path_from(tokens, &path, found);
                }
                return after;
            }
            _ => break,
        }
        rest = match rest {
            [TokenTree::Punct(one), TokenTree::Punct(two), after @ ..]
                if one.as_char() == ':' && one.spacing() == Spacing::Joint && two.as_char() == ':' =>
            {
                after
            }
            _ => break,
        };
    }
    // `{self}` stands for the path before it.
    if !before.is_empty() && path.last().is_some_and(|name| name == "self") {
        path.pop();
    }
    let is_renamed = matches!(rest, [TokenTree::Ident(ident), ..] if ident == "as");
    found.push(TokenPath { line, path, is_renamed });
    rest
}
