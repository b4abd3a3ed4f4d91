//! Serves the page, which is embedded in the program, and its security headers.

use axum::response::{Html, IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use http::{StatusCode, Uri};
use rust_embed::RustEmbed;

use super::error::Result;
use crate::account::Secret;
use crate::people;

/// The page, as `make` builds it from `web/`.
#[derive(RustEmbed)]
#[folder = "web/dist"]
#[allow_missing = true]
struct Files;

/// Content security policy. Allows the page's own resources, inline images, and frames for previews, which
/// have other origins.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
     font-src 'self'; connect-src 'self'; manifest-src 'self'; frame-src http: https:; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// Where the page has the nonce of its styles, which is new in each response. The terminal makes styles while it runs.
const NONCE: &str = "STYLE_NONCE";

/// Shown if the page was not built.
const NOT_BUILT: &str = "<!doctype html><meta charset=utf-8><title>sandboxd chat</title><p>This program was built without its page. \
     Run <code>make web</code> and build it again. The API still works.";

/// Sets security headers on every response.
pub(super) fn harden(headers: &mut HeaderMap) {
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
    ] {
        let name = HeaderName::from_static(name);
        if !headers.contains_key(&name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}

/// Returns a file of the page. A chat's path returns the page itself, whose script interprets the path.
pub(super) async fn page(uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    match path {
        "" | "index.html" => index().into_response(),
        _ if path.starts_with("c/") => index().into_response(),
        _ => match Files::get(path) {
            Some(file) => {
                // Vite puts a digest of the content into these names.
                let cache_control = if path.starts_with("assets/") {
                    "public, max-age=31536000, immutable"
                } else {
                    "no-cache"
                };
                let kind = file.metadata.mimetype().to_owned();
                ([(CONTENT_TYPE, kind), (CACHE_CONTROL, cache_control.to_owned())], file.data).into_response()
            }
            None => (StatusCode::NOT_FOUND, "not found").into_response(),
        },
    }
}

fn index() -> Result<Response> {
    let headers = [(CACHE_CONTROL, "no-cache")];
    let Some(file) = Files::get("index.html") else { return Ok((headers, Html(NOT_BUILT)).into_response()) };
    let nonce = Secret::generate().map_err(people::Error::from)?;
    let page = String::from_utf8_lossy(&file.data).replace(NONCE, nonce.expose());
    let policy = POLICY.replace("style-src", &format!("style-src 'nonce-{}'", nonce.expose()));
    Ok((headers, [(CONTENT_SECURITY_POLICY, policy)], Html(page)).into_response())
}
