//! The API's description: for programs at `/openapi.json`, and for people at `/docs`.
//!
//! The page is Swagger UI, and everything it loads is in this program: it works without any other host, and its
//! content security policy lets it ask none. A browser cannot send a header of ours with the first page it opens, so
//! these routes alone also take the token as the password of HTTP Basic; see [`auth`](super::auth).

use std::sync::{Arc, LazyLock};

use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use utoipa_swagger_ui::Config;

use super::error::{DoorError, Result};
use super::openapi::answers::*;
use super::params::Path;
use super::{JSON, router};

/// Made when it is first asked for: it never changes.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(router::document);

/// What the page may load and ask, and that no other page may frame it. Swagger UI has pictures in its style sheet.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What tells Swagger UI where the document is.
const SCRIPT: &str = "page.js";

/// Files of Swagger UI that the page needs.
const ASSETS: [&str; 3] = ["favicon-32x32.png", "swagger-ui-bundle.js", "swagger-ui.css"];

/// This document
///
/// What the API offers, as OpenAPI 3.1.
#[utoipa::path(get, path = "/openapi.json", operation_id = "openapi", tag = "daemon",
    responses((status = 200, description = "The document", body = Object)))]
pub(super) async fn document() -> Response {
    answer(JSON, Bytes::clone(&DOCUMENT))
}

/// The page for people
///
/// It shows this document and tries requests. A browser is let in with the token as the password of any user.
#[utoipa::path(get, path = "/docs", operation_id = "docs", tag = "daemon",
    responses((status = 200, description = "The page", body = String, content_type = "text/html")))]
pub(super) async fn page() -> Response {
    let html = Bytes::from_static(include_bytes!("docs/page.html"));
    answer(HeaderValue::from_static("text/html; charset=utf-8"), html)
}

/// A part of the page
///
/// Scripts and styles. Some are sent compressed by gzip, whatever the request accepts.
#[utoipa::path(get, path = "/docs/{file}", operation_id = "docsAsset", tag = "daemon",
    params(("file" = String, Path, description = "As the page names it.")),
    responses((status = 200, description = "The file",
        content((String = "text/javascript"), (String = "text/css"), (String = "image/png"))), ByName))]
pub(super) async fn asset(Path(file): Path<String>) -> Result<Response> {
    if file == SCRIPT {
        let script = Bytes::from_static(include_bytes!("docs/page.js"));
        return Ok(answer(HeaderValue::from_static("text/javascript; charset=utf-8"), script));
    }
    let name = ASSETS.into_iter().find(|name| *name == file).ok_or(DoorError::NoRoute)?;
    vendored(name).ok_or_else(|| DoorError::NoRoute.into())
}

/// Every part of the page.
pub(super) fn parts() -> Vec<&'static str> {
    [SCRIPT].into_iter().chain(ASSETS).collect()
}

fn vendored(name: &str) -> Option<Response> {
    let file = utoipa_swagger_ui::serve(name, Arc::new(Config::from("/openapi.json"))).ok()??;
    let content_type = HeaderValue::try_from(file.content_type).ok()?;
    let mut response = answer(content_type, file.bytes.into_owned().into());
    if file.gzpipped {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Some(response)
}

fn answer(content_type: HeaderValue, body: Bytes) -> Response {
    let fixed = |name: HeaderName, value: &'static str| (name, HeaderValue::from_static(value));
    let headers = HeaderMap::from_iter([
        (CONTENT_TYPE, content_type),
        fixed(CONTENT_SECURITY_POLICY, POLICY),
        fixed(X_CONTENT_TYPE_OPTIONS, "nosniff"),
        fixed(REFERRER_POLICY, "no-referrer"),
        fixed(HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        fixed(CACHE_CONTROL, "no-store"),
    ]);
    (headers, body).into_response()
}
