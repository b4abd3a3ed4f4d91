//! Links between operations: a response with an id links to the operations whose path takes the id.

use serde_json::{Map, Value, json};

use super::operations::operations;

/// An operation whose response contains an id.
struct Source {
    operation_id: &'static str,
    /// Path that takes the id. Paths below it take it too.
    path: &'static str,
    /// Parameters of the path, and where to find each.
    parameters: &'static [(&'static str, &'static str)],
}

const SOURCES: [Source; 6] = [
    Source {
        operation_id: "createSandbox",
        path: "/v1/sandboxes/{id}",
        parameters: &[("id", "$response.body#/sandboxId")],
    },
    Source {
        operation_id: "startCommand",
        path: "/v1/sandboxes/{id}/commands/{commandId}",
        parameters: &[("id", "$request.path.id"), ("commandId", "$response.body#/commandId")],
    },
    Source {
        operation_id: "runCommand",
        path: "/v1/sandboxes/{id}/commands/{commandId}",
        parameters: &[("id", "$request.path.id"), ("commandId", "$response.body#/commandId")],
    },
    Source {
        operation_id: "openContext",
        path: "/v1/sandboxes/{id}/contexts/{contextId}",
        parameters: &[("id", "$request.path.id"), ("contextId", "$response.body#/contextId")],
    },
    Source {
        operation_id: "openTerminal",
        path: "/v1/sandboxes/{id}/terminals/{terminalId}",
        parameters: &[("id", "$request.path.id"), ("terminalId", "$response.body#/terminalId")],
    },
    Source {
        operation_id: "createLink",
        path: "/v1/sandboxes/{id}/ports/{port}/links/{linkId}",
        parameters: &[
            ("id", "$request.path.id"),
            ("port", "$request.path.port"),
            ("linkId", "$response.body#/linkId"),
        ],
    },
];

/// Writes the links into the document.
pub(super) fn apply(document: &mut Value) {
    for Source { operation_id, path, parameters } in SOURCES {
        let names: Map<String, Value> =
            parameters.iter().map(|(name, source)| ((*name).to_owned(), (*source).into())).collect();
        let link = |id: String| (id.clone(), json!({ "operationId": id, "parameters": names.clone() }));
        let links: Map<String, Value> =
            below(document, path, parameters.len()).into_iter().map(link).collect();
        for operation in operations(document).filter(|operation| operation["operationId"] == operation_id) {
            operation["responses"]["200"]["links"] = links.clone().into();
        }
    }
}

/// Operations of this path and below it whose path has the same number of parameters.
fn below(document: &Value, root: &str, parameters: usize) -> Vec<String> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let found = paths.filter(|(path, _)| path.starts_with(root) && path.matches('{').count() == parameters);
    let items = found.filter_map(|(_, item)| item.as_object());
    let ids = items.flat_map(|item| item.values().filter_map(|operation| operation["operationId"].as_str()));
    ids.map(str::to_owned).collect()
}
