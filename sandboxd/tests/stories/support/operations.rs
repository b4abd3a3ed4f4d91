//! The operations of the API, from its OpenAPI document.

use serde_json::{Value, json};

use crate::support::http::HttpClient;

/// Valid ids of resources that do not exist.
pub(crate) const NO_SANDBOX: &str = "sbx_0000000000000000";

pub(crate) const NO_COMMAND: &str = "cmd_0000000000000000";

pub(crate) const NO_TERMINAL: &str = "trm_0000000000000000";

pub(crate) const NO_CONTEXT: &str = "ctx_0000000000000000";

pub(crate) const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// One operation of the document.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) method: String,
    /// The path with ids of resources that do not exist.
    pub(crate) path: String,
    pub(crate) said: Value,
}

impl Operation {
    pub(crate) fn is_open(&self) -> bool {
        self.said["security"] == json!([])
    }
}

/// All operations of the document, in order of their paths.
pub(crate) async fn operations(api: &HttpClient) -> Vec<Operation> {
    let document = api.get("/openapi.json").await.json();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, said) in item.as_object().unwrap() {
            let (method, path) = (method.to_uppercase(), filled(path));
            operations.push(Operation { method, path, said: said.clone() });
        }
    }
    operations
}

fn filled(path: &str) -> String {
    let named = [
        ("{id}", NO_SANDBOX),
        ("{commandId}", NO_COMMAND),
        ("{terminalId}", NO_TERMINAL),
        ("{contextId}", NO_CONTEXT),
        ("{call}", "1"),
        ("{port}", "3000"),
        ("{linkId}", "lnk_0000000000000000"),
        ("{denialId}", "den_0000000000000000"),
        ("{snapshotId}", "snap_0000000000000000"),
        ("{file}", "page.js"),
        ("{name}", "nothing"),
        ("{key}", "no-such-key"),
        ("{project}", "no-such-project"),
        ("{tokenId}", "tok_0000000000000000"),
    ];
    let path = named.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
    assert!(!path.contains('{'), "a parameter without a test value: {path}");
    path
}
