//! The OpenAPI document of the tools. Names and parameters are those of open-terminal.

use serde_json::{Map, Value, json};

use crate::operations::operations;

/// Returns the document (OpenAPI 3.1). Paths are relative to the server's URL.
pub(crate) fn document() -> Value {
    let mut paths = Map::new();
    for (method, path, operation) in operations() {
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[method] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "sandboxd",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A Linux sandbox for each chat: commands, files and searches.",
        },
        "paths": paths,
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
        "security": [{ "token": [] }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_have_the_names_of_open_terminal() {
        let operations = operations();
        let names: Vec<&str> =
            operations.iter().map(|(.., body)| body["operationId"].as_str().unwrap()).collect();
        let expected = [
            "run_command",
            "list_processes",
            "get_process_status",
            "send_process_input",
            "kill_process",
            "list_files",
            "read_file",
            "display_file",
            "write_file",
            "replace_file_content",
            "grep_search",
            "glob_search",
        ];
        assert_eq!(names, expected);
        let document = document();
        let paths = document["paths"].as_object().unwrap().values();
        let count = paths.map(|path| path.as_object().unwrap().len());
        assert_eq!(count.sum::<usize>(), expected.len());
    }

    #[test]
    fn each_parameter_of_a_path_is_described() {
        for (_, path, operation) in operations() {
            let described =
                operation["parameters"].as_array().unwrap().iter().filter(|param| param["in"] == "path");
            assert_eq!(path.contains('{'), described.count() == 1, "{path}");
        }
    }
}
