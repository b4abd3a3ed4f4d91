//! API description: the OpenAPI document at `/openapi.json`, and Swagger UI at `/docs`.
//!
//! The binary contains everything that the page loads. The page works without any other host, and its content
//! security policy blocks requests to others. A browser cannot send a custom header when it opens a page. These
//! routes alone therefore also accept the token as the HTTP Basic password; see [`auth`](super::auth).

use std::sync::LazyLock;

use axum::Extension;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::JSON;
use super::docs_assets::{self, Asset};
use super::error::{HttpError, Result};
use super::openapi::answers::*;
use super::params::Path;

/// The OpenAPI document, which the router passes to its route.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document(pub(super) &'static LazyLock<Bytes>);

/// What the page may load and connect to. No other page may frame it. Swagger UI's style sheet contains images.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// OpenAPI document.
///
/// Describes this API as OpenAPI 3.1.
#[utoipa::path(get, path = "/openapi.json", operation_id = "openapi", tag = "daemon",
    responses((status = 200, description = "OpenAPI document.", body = Object)))]
pub(super) async fn document(Extension(Document(document)): Extension<Document>) -> Response {
    answer(JSON, Bytes::clone(document))
}

/// API documentation.
///
/// Shows this document and sends test requests. A browser can authenticate with the token as the password of any
/// user.
#[utoipa::path(get, path = "/docs", operation_id = "docs", tag = "daemon",
    responses((status = 200, description = "HTML page.", body = String, content_type = "text/html")))]
pub(super) async fn page() -> Response {
    let html = Bytes::from_static(include_bytes!("docs/page.html"));
    answer(HeaderValue::from_static("text/html; charset=utf-8"), html)
}

/// Assets of the API documentation.
///
/// Scripts, styles and images. Some are sent with gzip compression, whatever the request accepts.
#[utoipa::path(get, path = "/docs/{file}", operation_id = "docsAsset", tag = "daemon",
    params(("file" = String, Path, description = "File name, as the page refers to it.")),
    responses((status = 200, description = "Content of the file.",
        content((String = "text/javascript"), (String = "text/css"), (String = "image/png"))), ByName))]
pub(super) async fn asset(Path(file): Path<String>) -> Result<Response> {
    let Asset { content_type, bytes, is_gzip } = docs_assets::find(&file).ok_or(HttpError::NoRoute)?;
    let mut response = answer(content_type, bytes);
    if is_gzip {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
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
