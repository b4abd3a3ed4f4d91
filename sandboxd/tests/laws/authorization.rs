//! No request reaches what belongs to another owner: methods that act for requests take authorized ids, and handlers get
//! the service through the principal only.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{ImplItemFn, PathSegment, Visibility};

use crate::components::service_sources;
use crate::layers::sources;

/// Ids that name what belongs to an owner.
const IDS: [&str; 2] = ["SandboxId", "SnapshotId"];

/// Public methods of the service that take a plain id, and why that is safe.
const PLAIN: [(&str, &str); 4] = [
    ("connect_port", "a visitor has a link, which was checked"),
    ("delete_all_of", "takes the owner too"),
    ("is_deleted", "says nothing to a request that was not authorized before"),
    ("list", "takes the owner too"),
];

/// Methods of the handle that makes authorized ids.
const CHECKS: [&str; 4] = ["reaches", "sandbox", "sandbox_if_any", "snapshot"];

/// Files of the API that reach the service without a principal, and why.
const WITHOUT_PRINCIPAL: [(&str, &str); 8] = [
    ("acts.rs", "records acts of the principal before its handler runs"),
    ("auth/given.rs", "finds the principal of a token"),
    ("auth/mod.rs", "counts failures"),
    ("body.rs", "reads a limit"),
    ("caller.rs", "makes the handle for the principal"),
    ("health.rs", "needs no token and says nothing about sandboxes"),
    ("race.rs", "settles responses to requests that were authorized"),
    ("request_log.rs", "counts requests"),
];

/// Names of the public methods that take a plain id.
#[derive(Default)]
struct Methods(Vec<String>);

impl<'a> Visit<'a> for Methods {
    fn visit_impl_item_fn(&mut self, method: &'a ImplItemFn) {
        let mut ids = PlainIds(false);
        method.sig.inputs.iter().for_each(|input| ids.visit_fn_arg(input));
        if ids.0 && matches!(method.vis, Visibility::Public(_)) {
            self.0.push(method.sig.ident.to_string());
        }
        visit::visit_impl_item_fn(self, method);
    }
}

/// Whether an argument holds an id that nothing has checked.
struct PlainIds(bool);

impl<'a> Visit<'a> for PlainIds {
    fn visit_path_segment(&mut self, segment: &'a PathSegment) {
        self.0 |= IDS.iter().any(|id| segment.ident == id);
        if segment.ident != "Authorized" {
            visit::visit_path_segment(self, segment);
        }
    }
}

fn plain_methods(text: &str) -> Vec<String> {
    let mut methods = Methods::default();
    methods.visit_file(&syn::parse_file(text).unwrap());
    methods.0
}

#[test]
fn a_method_with_a_plain_id_is_found() {
    let found = |arguments: &str| {
        let text = format!("impl X {{ pub async fn act(&self, {arguments}) {{}} }}");
        plain_methods(&text).len()
    };
    for plain in ["id: &SandboxId", "id: SnapshotId", "ids: &[SandboxId]", "id: Option<&SnapshotId>"] {
        assert_eq!(found(plain), 1, "{plain}");
    }
    for checked in ["id: &Authorized<SandboxId>", "id: Option<&Authorized<SnapshotId>>", "id: &CommandId"] {
        assert_eq!(found(checked), 0, "{checked}");
    }
    let inner = "impl X { pub(in crate::service) fn act(&self, id: &SandboxId) {} }";
    assert_eq!(plain_methods(inner), [""; 0]);
}

#[test]
fn methods_for_requests_take_authorized_ids() {
    let (mut faults, mut excepted) = (Vec::new(), BTreeSet::new());
    for (file, module) in service_sources() {
        let text = std::fs::read_to_string(&file).unwrap();
        for name in plain_methods(&text) {
            let is_check = module.get(1).is_some_and(|name| name == "access") && CHECKS.contains(&&*name);
            match PLAIN.iter().find(|(plain, _)| *plain == name) {
                _ if is_check => {}
                Some((plain, _)) => drop(excepted.insert(*plain)),
                None => faults.push(format!("{}: {name}", file.display())),
            }
        }
    }
    assert!(faults.is_empty(), "take `Authorized` in place of the plain id:\n{}\n", faults.join("\n"));
    assert_eq!(excepted, PLAIN.map(|(plain, _)| plain).into(), "the exceptions that are needed");
}

#[test]
fn handlers_reach_the_service_through_the_principal() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api");
    let mut files: Vec<PathBuf> = Vec::new();
    sources(&root, &mut files);
    let reaches = |file: &PathBuf| std::fs::read_to_string(file).unwrap().contains(".service");
    let name = |file: &PathBuf| file.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
    let mut found: Vec<_> = files.iter().filter(|file| reaches(file)).map(name).collect();
    found.sort();
    let known = WITHOUT_PRINCIPAL.map(|(file, _)| file.to_owned());
    assert_eq!(found, known, "take `Reader`, `User` or `Operator` of `caller.rs`");
}
