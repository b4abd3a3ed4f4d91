//! Files that the page at `/docs` loads: Swagger UI, and the script that configures it.
//!
//! The handlers serve them and the OpenAPI document lists their names, so this module uses neither.

use std::sync::Arc;

use axum::http::HeaderValue;
use bytes::Bytes;
use utoipa_swagger_ui::Config;

/// Script that gives Swagger UI the address of the document.
const SCRIPT: &str = "page.js";

/// Files of Swagger UI that the page needs.
const VENDORED: [&str; 3] = ["favicon-32x32.png", "swagger-ui-bundle.js", "swagger-ui.css"];

/// Content of a file.
pub(super) struct Asset {
    pub(super) content_type: HeaderValue,
    pub(super) bytes: Bytes,
    pub(super) is_gzip: bool,
}

/// Names of all files.
pub(super) fn names() -> Vec<&'static str> {
    [SCRIPT].into_iter().chain(VENDORED).collect()
}

/// Finds a file by name.
pub(super) fn find(name: &str) -> Option<Asset> {
    if name == SCRIPT {
        let content_type = HeaderValue::from_static("text/javascript; charset=utf-8");
        let bytes = Bytes::from_static(include_bytes!("docs/page.js"));
        return Some(Asset { content_type, bytes, is_gzip: false });
    }
    let name = VENDORED.into_iter().find(|known| *known == name)?;
    let file = utoipa_swagger_ui::serve(name, Arc::new(Config::from("/openapi.json"))).ok()??;
    let content_type = HeaderValue::try_from(file.content_type).ok()?;
    Some(Asset { content_type, bytes: file.bytes.into_owned().into(), is_gzip: file.gzpipped })
}
