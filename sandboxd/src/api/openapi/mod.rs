//! The OpenAPI document, for programs and for the page at `/docs`.
//!
//! It is built from the same list as the router, so it contains every route. Schemas and texts come from the wire
//! types and the handlers. This module adds what types cannot express: authentication, error responses ([`answers`]),
//! constraints ([`bounds`]), links ([`links`]) and examples ([`examples`]).

pub(super) mod answers;
mod bounds;
mod examples;
mod links;
mod operations;
mod params;
#[cfg(test)]
mod published;

use axum::Router;
use bytes::Bytes;
use sandbox_api::ErrorBody;
use sandbox_api::sandbox::RepositorySource;
use serde_json::{Value, json};
use utoipa::openapi::{Components, OpenApi, OpenApiBuilder};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::UtoipaMethodRouter;

pub(super) use self::params::{
    InCommand, InContext, InDenial, InLink, InMcpServer, InPort, InProject, InSandbox, InSnapshot,
    InTerminal, InToolCall, InValue,
};
use super::{ApiState, auth, verb};

/// Description of the whole API.
const ABOUT: &str = include_str!("about.md");

/// Routes and their descriptions.
pub(super) struct Routes {
    router: Router<ApiState>,
    described: OpenApi,
}

impl Routes {
    pub(super) fn new() -> Self {
        let mut described = OpenApiBuilder::new().components(Some(Components::new())).build();
        let components = described.components.get_or_insert_default();
        let mut schemas = Vec::new();
        ErrorBody::schemas(&mut schemas);
        components.schemas.extend(schemas);
        components.schemas.insert(ErrorBody::name().into_owned(), ErrorBody::schema());
        // No type refers to it. The bounds add it to the field `workspace`.
        components.schemas.insert(RepositorySource::name().into_owned(), RepositorySource::schema());
        // axum rejects segments that begin with a colon, which was its old parameter syntax.
        Self { router: Router::new().without_v07_checks(), described }
    }

    /// Adds the handlers of a path. It must be the path in their descriptions.
    pub(super) fn add(mut self, path: &str, routes: UtoipaMethodRouter<ApiState>) -> Self {
        let (schemas, paths, handlers) = routes;
        assert!(
            paths.paths.keys().eq([path]),
            "handlers of {path} are described for {:?}",
            paths.paths.keys()
        );
        let inner = verb::split(path).unwrap_or_else(|| path.to_owned());
        self.router = self.router.route(&inner, handlers);
        self.described.paths.merge(paths);
        self.described.components.get_or_insert_default().schemas.extend(schemas);
        self
    }

    /// Returns the router, without middleware.
    pub(super) fn into_router(self) -> Router<ApiState> {
        self.router
    }

    /// Returns the document.
    pub(super) fn into_document(self) -> Bytes {
        serde_json::to_vec(&document(&self.described)).expect("it is JSON already").into()
    }
}

fn document(described: &OpenApi) -> Value {
    let mut document = json!(described);
    document["openapi"] = "3.1.0".into();
    document["info"] = json!({
        "title": "sandboxd",
        "version": env!("CARGO_PKG_VERSION"),
        "description": ABOUT,
        "license": { "name": "MIT", "identifier": "MIT" },
    });
    document["servers"] = json!([{ "url": "/", "description": "The daemon that serves this document" }]);
    document["tags"] = tags();
    document["security"] = json!([{ "adminToken": [] }, { "bearer": [] }]);
    document["components"]["securitySchemes"] = security_schemes();
    document["components"]["responses"] = answers::components();
    bounds::apply(&mut document);
    examples::apply(&mut document);
    links::apply(&mut document);
    let schemas = document["components"]["schemas"].clone();
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        for operation in item.as_object_mut().into_iter().flat_map(|item| item.values_mut()) {
            complete(path, operation, &schemas);
        }
    }
    document
}

/// Adds what follows from an operation's path and schemas.
fn complete(path: &str, operation: &mut Value, schemas: &Value) {
    if auth::is_open(path) {
        operation["security"] = json!([]);
    } else if auth::is_for_browsers(path) {
        operation["security"] = json!([{ "adminToken": [] }, { "bearer": [] }, { "browserPassword": [] }]);
    }
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    for (status, response) in answers::everywhere(auth::is_open(path)) {
        responses.entry(status).or_insert(response);
    }
    if let Some(success) = responses.get_mut("200").filter(|success| success["description"].is_null()) {
        success["description"] = schemas[schema_of(success)]["description"].clone();
    }
    let json = |body: &&mut Value| !schema_of(body).is_empty();
    if let Some(body) = operation.get_mut("requestBody").filter(json) {
        // A body may be absent if none of its fields is required, alone or in a choice.
        body["required"] = requires_a_field(&schemas[schema_of(body)], schemas).into();
    }
}

fn requires_a_field(schema: &Value, schemas: &Value) -> bool {
    let parts = schema["allOf"].as_array().into_iter().flatten();
    let mut named = parts.filter_map(|part| part["$ref"].as_str()?.rsplit('/').next());
    ["required", "oneOf"].iter().any(|rule| !schema[rule].is_null())
        || named.any(|name| requires_a_field(&schemas[name], schemas))
}

/// Name of the schema of a JSON body.
fn schema_of(body: &Value) -> &str {
    let path = body["content"]["application/json"]["schema"]["$ref"].as_str();
    path.and_then(|path| path.rsplit('/').next()).unwrap_or_default()
}

fn tags() -> Value {
    json!([
        { "name": "sandboxes", "description": "A hardened container with a workspace for each session." },
        { "name": "commands", "description": "Programs and scripts in a sandbox, and their output." },
        { "name": "contexts", "description": "Interpreters that keep their state between runs of code." },
        { "name": "files", "description": "Files of a sandbox's workspace." },
        { "name": "values", "description": "Values that are kept with a sandbox, by key." },
        { "name": "terminals", "description": "Programs on a terminal, for interactive use." },
        { "name": "ports", "description": "Listening ports of a sandbox, and links to them from outside." },
        { "name": "network", "description": "Network policy of a sandbox, and denied connections." },
        { "name": "snapshots", "description": "The files of a sandbox at one time: undo, and new sandboxes with them." },
        { "name": "repositories", "description": "Git repositories and npm packages: read, and as files of sandboxes." },
        { "name": "mcp", "description": "MCP servers of third parties that run in a sandbox." },
        { "name": "projects", "description": "Projects, which do not see each other, and their tokens." },
        { "name": "daemon", "description": "The daemon itself: health, metrics, orphans and this document." },
    ])
}

fn security_schemes() -> Value {
    json!({
        "adminToken": {
            "type": "apiKey",
            "in": "header",
            "name": sandbox_api::TOKEN_HEADER,
            "description": "The admin token or a project token.",
        },
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "The admin token or a project token. If both headers are present, both must be right.",
        },
        "browserPassword": {
            "type": "http",
            "scheme": "basic",
            "description": "The admin token as the password of any user, for browsers that open this page.",
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::router;

    fn document() -> Value {
        serde_json::from_slice(&router::document()).unwrap()
    }

    /// Path, method and description of every operation.
    fn operations_of(document: &Value) -> Vec<(&str, &str, &Value)> {
        let items = document["paths"].as_object().unwrap().iter();
        items
            .flat_map(|(path, item)| {
                let operations = item.as_object().unwrap().iter();
                operations.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
            })
            .collect()
    }

    #[test]
    fn every_operation_is_described() {
        let document = document();
        let tags: Vec<&Value> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
        let mut ids = BTreeSet::new();
        for (path, method, operation) in operations_of(&document) {
            let what = format!("{method} {path}");
            for field in ["summary", "description", "operationId"] {
                assert!(operation[field].as_str().is_some_and(|text| !text.is_empty()), "{what}: {field}");
            }
            assert!(ids.insert(operation["operationId"].as_str()), "{what}: another has its operationId");
            let tag = operation["tags"].as_array().unwrap();
            assert!(tag.len() == 1 && tags.contains(&&tag[0]), "{what}: {tag:?}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                let text = response["description"].as_str().or(response["$ref"].as_str());
                assert!(text.is_some_and(|text| !text.is_empty()), "{what}: {status}");
            }
        }
        assert!(ids.len() >= 20, "{}", ids.len());
    }

    #[test]
    fn an_operation_that_needs_the_token_is_described_so() {
        let document = document();
        for (path, method, operation) in operations_of(&document) {
            let what = format!("{method} {path}");
            let statuses = operation["responses"].as_object().unwrap();
            let is_open = matches!(path, "/v1/health" | "/v1/ready");
            assert_eq!(operation["security"] == json!([]), is_open, "{what}");
            assert_eq!(statuses.contains_key("401"), !is_open, "{what}");
            assert_eq!(statuses.contains_key("429"), !is_open, "{what}");
            assert!(statuses.contains_key("403") && statuses.contains_key("503"), "{what}");
            let by_browser = operation["security"].to_string().contains("browserPassword");
            assert_eq!(by_browser, path == "/openapi.json" || path.starts_with("/docs"), "{what}");
        }
    }

    #[test]
    fn every_reference_is_valid() {
        fn walk<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
            match value {
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Value::as_str));
                    fields.values().for_each(|value| walk(value, found));
                }
                Value::Array(values) => values.iter().for_each(|value| walk(value, found)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let document = document();
        let mut found = Vec::new();
        walk(&document, &mut found);
        assert!(found.len() > 100, "{}", found.len());
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some_and(|value| !value.is_null()), "{reference}");
        }
    }
}
