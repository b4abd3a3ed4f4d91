//! The tools as operations of the OpenAPI document: method, path and description of each.

use serde_json::{Value, json};

/// Every operation.
pub(crate) fn operations() -> Vec<(&'static str, &'static str, Value)> {
    [commands(), files(), searches()].into_iter().flatten().collect()
}

fn commands() -> Vec<(&'static str, &'static str, Value)> {
    let id = || {
        param("process_id", "path", true, "string", "Id of the command, from run_command or list_processes.")
    };
    let wait = || {
        let mut wait = query(
            "wait",
            "number",
            "Seconds to wait for the command to end, 0 to 300. The response comes \
            earlier if it ends. Without it, the response comes at once.",
        );
        wait["schema"]["minimum"] = 0.into();
        wait["schema"]["maximum"] = 300.into();
        wait
    };
    let tail = || query("tail", "integer", "Returns only the last N entries of the output.");
    let run = json!({ "type": "object", "required": ["command"], "properties": {
        "command": text("Script for bash. It may have several lines, pipes and redirections."),
        "cwd": text("Working directory. Default: that of the chat."),
        "env": { "type": "object", "additionalProperties": { "type": "string" },
            "description": "Environment variables in addition to the sandbox's own." },
    }});
    let input = json!({ "type": "object", "required": ["input"], "properties": {
        "input": text("Text for the command's standard input. End a line with a line feed. \\x03 alone sends SIGINT, \
            and \\x04 alone closes the input."),
    }});
    vec![
        (
            "post",
            "/execute",
            operation(
                "run_command",
                "Run a command",
                "Runs a script with bash in the sandbox of this chat. It runs in the background: set `wait` to get its \
             output, and call get_process_status with `next_offset` for more. If `truncated` is true, the whole output \
             may be in the file `log_path`.",
                vec![wait(), tail()],
                Some(run),
            ),
        ),
        (
            "get",
            "/execute",
            operation(
                "list_processes",
                "List commands",
                "Lists the commands of this chat, newest first: running, done or killed.",
                vec![],
                None,
            ),
        ),
        (
            "get",
            "/execute/{process_id}/status",
            operation(
                "get_process_status",
                "Get a command's status and output",
                "Returns the state of a command, its exit code, and its output after `offset`.",
                vec![
                    id(),
                    wait(),
                    query("offset", "integer", "`next_offset` of an earlier response. Default: the start."),
                    tail(),
                ],
                None,
            ),
        ),
        (
            "post",
            "/execute/{process_id}/input",
            operation(
                "send_process_input",
                "Send input to a command",
                "Writes text to the standard input of a running command.",
                vec![id()],
                Some(input),
            ),
        ),
        (
            "delete",
            "/execute/{process_id}",
            operation(
                "kill_process",
                "Kill a command",
                "Ends a command with SIGTERM, and all its processes with SIGKILL if `force` is true. The status is \
             `running` if it has not ended after a few seconds.",
                vec![id(), query("force", "boolean", "Whether to send SIGKILL. Default: false.")],
                None,
            ),
        ),
    ]
}

fn files() -> Vec<(&'static str, &'static str, Value)> {
    let path = |text| param("path", "query", true, "string", text);
    let write = json!({ "type": "object", "required": ["path", "content"], "properties": {
        "path": text("Path of the file, in the workspace."),
        "content": text("New content of the file."),
    }});
    let line = |text: &str| json!({ "type": "integer", "minimum": 1, "description": text });
    let replacement = json!({ "type": "object", "required": ["target", "replacement"], "properties": {
        "target": text("Exact text to find, with its white space."),
        "replacement": text("Text to insert instead."),
        "start_line": line("First line in which the text is searched, counted from 1."),
        "end_line": line("Last line in which the text is searched."),
        "allow_multiple": { "type": "boolean", "default": false,
            "description": "Replaces every occurrence. Otherwise the text must occur once." },
    }});
    let replace = json!({ "type": "object", "required": ["path", "replacements"], "properties": {
        "path": text("Path of the file, in the workspace."),
        "replacements": { "type": "array", "items": replacement, "description": "Replacements, applied in order." },
    }});
    vec![
        (
            "get",
            "/files/list",
            operation(
                "list_files",
                "List a directory",
                "Lists the files and directories in a directory of the workspace.",
                vec![query("directory", "string", "Path of the directory. Default: the working directory.")],
                None,
            ),
        ),
        (
            "get",
            "/files/read",
            operation(
                "read_file",
                "Read a file",
                "Returns the text of a file, or some of its lines. Images are returned as images. The output files of \
             commands (`log_path`) can be read too.",
                vec![
                    path("Path of the file."),
                    query("start_line", "integer", "First line, counted from 1. Default: the first."),
                    query("end_line", "integer", "Last line, inclusive. Default: the last."),
                ],
                None,
            ),
        ),
        (
            "get",
            "/files/display",
            operation(
                "display_file",
                "Show a file to the user",
                "Opens a file in the user's file viewer. It does not return the content: use read_file for that.",
                vec![path("Path of the file.")],
                None,
            ),
        ),
        (
            "post",
            "/files/write",
            operation(
                "write_file",
                "Write a file",
                "Writes text to a file. Creates missing directories, and replaces an existing file.",
                vec![],
                Some(write),
            ),
        ),
        (
            "post",
            "/files/replace",
            operation(
                "replace_file_content",
                "Replace text in a file",
                "Replaces exact texts in a file.",
                vec![],
                Some(replace),
            ),
        ),
    ]
}

fn searches() -> Vec<(&'static str, &'static str, Value)> {
    let list = |name, text| {
        let mut list = query(name, "array", text);
        list["schema"]["items"] = json!({ "type": "string" });
        list
    };
    let max = || query("max_results", "integer", "Maximum number of results, 1 to 500. Default: 50.");
    vec![
        (
            "get",
            "/files/grep",
            operation(
                "grep_search",
                "Search the content of files",
                "Finds lines that contain a text or match a regular expression. Skips binary files.",
                vec![
                    param(
                        "query",
                        "query",
                        true,
                        "string",
                        "Text or regular expression (Rust syntax, without look-around).",
                    ),
                    query("path", "string", "Directory or file to search. Default: the working directory."),
                    query("regex", "boolean", "Whether `query` is a regular expression. Default: true."),
                    query("case_insensitive", "boolean", "Whether the search ignores case. Default: false."),
                    list("include", "Globs, such as *.py. A file must match one of them."),
                    query(
                        "match_per_line",
                        "boolean",
                        "Whether the result has lines. Otherwise it has only files. Default: true.",
                    ),
                    max(),
                ],
                None,
            ),
        ),
        (
            "get",
            "/files/glob",
            operation(
                "glob_search",
                "Search files by name",
                "Finds files and directories by name. A pattern without a slash matches in every directory; `**` crosses \
             directories.",
                vec![
                    param("pattern", "query", true, "string", "Glob, such as *.py or src/**/*.rs."),
                    query("path", "string", "Directory to search. Default: the working directory."),
                    list("exclude", "Globs of files and directories to skip."),
                    query("type", "string", "`file`, `directory` or `any`. Default: `any`."),
                    max(),
                ],
                None,
            ),
        ),
    ]
}

fn operation(
    id: &str,
    summary: &str,
    description: &str,
    parameters: Vec<Value>,
    body: Option<Value>,
) -> Value {
    let mut operation = json!({
        "operationId": id,
        "summary": summary,
        "description": description,
        "parameters": parameters,
        "responses": { "200": { "description": "The result.", "content": { "application/json": { "schema": {} } } } },
    });
    if let Some(schema) = body {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    operation
}

fn query(name: &str, kind: &str, description: &str) -> Value {
    param(name, "query", false, kind, description)
}

fn param(name: &str, place: &str, is_required: bool, kind: &str, description: &str) -> Value {
    json!({ "name": name, "in": place, "required": is_required, "description": description, "schema": { "type": kind } })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}
