//! Files of sandboxes as resources of the protocol.

use rmcp::ErrorData;
use rmcp::model::{ErrorCode, Resource as McpResource, ResourceContents, ResourceTemplate};
use serde_json::json;
use toolbox::{RESOURCE_TEMPLATE, Resource, ResourceContent};

/// Beginning of every resource's URI.
const SCHEME: &str = "sandbox://";

pub(crate) fn listed(resource: Resource) -> McpResource {
    let mut listed = McpResource::new(resource.uri, resource.name);
    listed.size = Some(resource.bytes);
    listed
}

pub(crate) fn template() -> ResourceTemplate {
    let mut template = ResourceTemplate::new(RESOURCE_TEMPLATE, "file");
    template.title = Some("File of a sandbox".into());
    template.description = Some(
        "`sandbox` is a handle from `sandbox_open` or `sandbox_info`, `path` is relative to the workspace."
            .into(),
    );
    template
}

/// Whether the URI has the scheme of our resources.
pub(crate) fn is_ours(uri: &str) -> bool {
    uri.starts_with(SCHEME)
}

pub(crate) fn content(uri: String, content: ResourceContent) -> ResourceContents {
    match content {
        ResourceContent::Text(text) => ResourceContents::TextResourceContents {
            uri,
            mime_type: Some("text/plain".into()),
            text,
            meta: None,
        },
        ResourceContent::Base64 { data, mime_type } => ResourceContents::BlobResourceContents {
            uri,
            mime_type: Some(mime_type.unwrap_or("application/octet-stream").into()),
            blob: data,
            meta: None,
        },
    }
}

/// The error for a resource that does not exist. The revision 2026-07-28 has no code of its own for it.
pub(crate) fn not_found(uri: &str) -> ErrorData {
    ErrorData::new(ErrorCode::INVALID_PARAMS, "there is no such resource", Some(json!({ "uri": uri })))
}
