//! Requests to servers in the sandbox: `/proxy/{port}/{path}`, with any method.
//!
//! The response is shown in a page of Open WebUI. So it gets an origin of its own, and no header that changes the
//! browser's state for Open WebUI.

use std::error::Error as StdError;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, HOST, HeaderName, HeaderValue, SET_COOKIE,
    TRAILER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sandbox_api::{ErrorCode, TOKEN_HEADER};
use tokio::time::timeout;
use tracing::debug;

use crate::access::Chat;
use crate::content::secured;
use crate::failure::Failure;
use crate::proxied::Requested;
use crate::server::Answer;

/// How long a server may take to begin its response.
const RESPONSE: Duration = Duration::from_secs(120);

/// Limits of the head of a server's response.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 128;

/// Headers of a request that the sandbox does not get: what grants access, and what names people and the host. The
/// daemon itself handles `Expect`, and trailers are not forwarded.
const PRIVATE: [&str; 11] = [
    "authorization",
    "cookie",
    "expect",
    "host",
    "origin",
    "referer",
    "trailer",
    TOKEN_HEADER,
    "x-user-id",
    "x-session-id",
    "x-terminal-context-id",
];

/// Beginnings of names that hosts use for headers about people and conversations.
const PRIVATE_PREFIXES: [&str; 3] = ["x-librechat-", "x-openwebui-", "x-sandbox-"];

/// Headers of a response that would apply to all of Open WebUI: its data in the browser, what the browser sends and
/// reports later, and a password prompt under its name. Trailers could carry them too.
const FOR_THE_HOST: [HeaderName; 11] = [
    SET_COOKIE,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    WWW_AUTHENTICATE,
    TRAILER,
    HeaderName::from_static("accept-ch"),
    HeaderName::from_static("critical-ch"),
    HeaderName::from_static("nel"),
    HeaderName::from_static("report-to"),
    HeaderName::from_static("reporting-endpoints"),
    HeaderName::from_static("service-worker-allowed"),
];

pub(crate) async fn forward(chat: Chat, request: Request<Body>) -> Answer {
    let requested = Requested::of(request.uri())?;
    let sandbox = chat.find().await?.ok_or_else(|| Failure::not_found("Port not found"))?;
    let connection = match chat.client.connect_port(&sandbox, requested.port).await {
        Err(error) if error.code() == Some(ErrorCode::WrongState) => {
            return Err(Failure::new(
                StatusCode::BAD_GATEWAY,
                format_args!("nothing listens on port {}", requested.port),
            ));
        }
        connection => connection?,
    };
    let (mut head, body) = request.into_parts();
    head.uri = requested.uri.clone();
    head.extensions.clear();
    to_sandbox(&mut head.headers, requested.port);
    let mut client = http1::Builder::new();
    client.max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_HEADERS);
    let (mut sender, driver) = client.handshake(TokioIo::new(connection)).await.map_err(broken)?;
    // It ends with the response's body, or when the client leaves.
    tokio::spawn(driver);
    let sent = sender.send_request(Request::from_parts(head, body));
    let response = timeout(RESPONSE, sent).await.map_err(|_| {
        Failure::new(
            StatusCode::GATEWAY_TIMEOUT,
            format_args!("the server did not respond within {RESPONSE:?}"),
        )
    })?;
    let mut response = response.map_err(broken)?.map(Body::new);
    requested.contain(response.status(), response.headers_mut())?;
    to_client(response.headers_mut());
    Ok(secured(response))
}

fn to_sandbox(headers: &mut HeaderMap, port: u16) {
    hop_by_hop::strip(headers);
    hop_by_hop::remove_claims(headers);
    let private: Vec<HeaderName> = headers.keys().filter(|name| is_private(name)).cloned().collect();
    for name in private {
        headers.remove(name);
    }
    // The number of a port is a valid value.
    if let Ok(host) = HeaderValue::from_str(&format!("localhost:{port}")) {
        headers.insert(HOST, host);
    }
}

/// Whether the sandbox must not get a header. Servers may take `_` in a name for `-`.
fn is_private(name: &HeaderName) -> bool {
    let name = name.as_str().replace('_', "-");
    PRIVATE.contains(&name.as_str()) || PRIVATE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn to_client(headers: &mut HeaderMap) {
    hop_by_hop::strip(headers);
    hop_by_hop::remove_host_wide(headers);
    for name in FOR_THE_HOST {
        headers.remove(name);
    }
}

fn broken(error: hyper::Error) -> Failure {
    debug!(error = &error as &dyn StdError, "the connection to a server in a sandbox broke");
    Failure::new(StatusCode::BAD_GATEWAY, format_args!("the connection to the server broke: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_reaches_the_sandbox() {
        let names = [
            "authorization",
            "cookie",
            TOKEN_HEADER,
            "x-user-id",
            "x_session_id",
            "x-openwebui-user-email",
            "x-librechat-user-id",
            "x-sandbox-user",
            "x-forwarded-for",
            "x-real-ip",
            "cf-connecting-ip",
            "forwarded",
            "origin",
            "referer",
            "expect",
            "trailer",
        ];
        let mut headers = HeaderMap::new();
        for name in names.into_iter().chain(["accept", "host"]) {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("secret"));
        }
        to_sandbox(&mut headers, 3000);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(
            (left, &headers[HOST]),
            (vec!["accept", "host"], &HeaderValue::from_static("localhost:3000"))
        );
    }
    #[test]
    fn a_response_acts_on_nothing_but_its_page() {
        let names = [
            "set-cookie",
            "strict-transport-security",
            "alt-svc",
            "clear-site-data",
            "x-accel-redirect",
            "x-sendfile",
            "www-authenticate",
            "nel",
            "report-to",
            "reporting-endpoints",
            "service-worker-allowed",
            "access-control-allow-origin",
            "trailer",
        ];
        let mut headers = HeaderMap::new();
        for name in names.into_iter().chain(["etag", "x-own"]) {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("1"));
        }
        to_client(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["etag", "x-own"]);
    }
}
