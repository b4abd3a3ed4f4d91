//! Requests to servers in the sandbox: `/proxy/{port}/{path}`, with any method.
//!
//! The response is shown in a page of Open WebUI. So it gets an origin of its own, and no header that changes the
//! browser's state for Open WebUI.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, COOKIE, FORWARDED, HOST,
    HeaderName, HeaderValue, ORIGIN, REFERER, SET_COOKIE, STRICT_TRANSPORT_SECURITY,
};
use http::{HeaderMap, StatusCode, Uri};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sandbox_api::{ErrorCode, TOKEN_HEADER};
use tokio::time::timeout;

use crate::Answer;
use crate::access::Chat;
use crate::failure::Failure;
use crate::view::secured;

/// How long a server may take to begin its response.
const RESPONSE: Duration = Duration::from_secs(120);

/// Limits of the head of a server's response.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 128;

/// Headers of a request that the sandbox does not get: what grants access, and what names people and the host.
const PRIVATE: [HeaderName; 10] = [
    AUTHORIZATION,
    COOKIE,
    FORWARDED,
    HOST,
    ORIGIN,
    REFERER,
    HeaderName::from_static(TOKEN_HEADER),
    HeaderName::from_static("x-user-id"),
    HeaderName::from_static("x-session-id"),
    HeaderName::from_static("x-terminal-context-id"),
];

/// Headers of a response that would apply to all of Open WebUI.
const FOR_THE_HOST: [HeaderName; 6] = [
    SET_COOKIE,
    STRICT_TRANSPORT_SECURITY,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("service-worker-allowed"),
];

pub(crate) async fn forward(chat: Chat, request: Request<Body>) -> Answer {
    let (port, uri) = target(request.uri())?;
    let sandbox = chat.find().await?.ok_or_else(|| Failure::not_found("Port not found"))?;
    let connection = match chat.client.connect_port(&sandbox, port).await {
        Err(error) if error.code() == Some(ErrorCode::WrongState) => {
            return Err(Failure::new(
                StatusCode::BAD_GATEWAY,
                format_args!("nothing listens on port {port}"),
            ));
        }
        connection => connection?,
    };
    let (mut head, body) = request.into_parts();
    head.uri = uri;
    head.extensions.clear();
    to_sandbox(&mut head.headers, port);
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
    hop_by_hop::strip(response.headers_mut());
    for name in FOR_THE_HOST {
        response.headers_mut().remove(name);
    }
    Ok(secured(response))
}

/// Port and URI of the request for the server. The path is passed on as it was sent.
fn target(uri: &Uri) -> Result<(u16, Uri), Failure> {
    let rest = uri.path().strip_prefix("/proxy/").unwrap_or_default();
    let (port, path) = rest.split_once('/').unwrap_or((rest, ""));
    let problem = "must be a number from 1 to 65535";
    let port =
        port.parse().ok().filter(|port| *port != 0).ok_or_else(|| Failure::argument("port", problem))?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let uri = format!("/{path}{query}").parse().map_err(|_| Failure::bad_request("the path is invalid"))?;
    Ok((port, uri))
}

fn to_sandbox(headers: &mut HeaderMap, port: u16) {
    hop_by_hop::strip(headers);
    let is_private = |name: &HeaderName| PRIVATE.contains(name) || name.as_str().starts_with("x-openwebui-");
    let private: Vec<HeaderName> = headers.keys().filter(|name| is_private(name)).cloned().collect();
    for name in private {
        headers.remove(name);
    }
    // The number of a port is a valid value.
    if let Ok(host) = HeaderValue::from_str(&format!("localhost:{port}")) {
        headers.insert(HOST, host);
    }
}

fn broken(error: hyper::Error) -> Failure {
    Failure::new(StatusCode::BAD_GATEWAY, format_args!("the connection to the server broke: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_passed_on_as_it_was_sent() {
        for (uri, expected) in [
            ("/proxy/3000", "/"),
            ("/proxy/3000/", "/"),
            ("/proxy/3000/a%2Fb/../c?d=%20&e", "/a%2Fb/../c?d=%20&e"),
            ("/proxy/3000//evil.example/", "//evil.example/"),
        ] {
            let (port, found) = target(&uri.parse().unwrap()).unwrap();
            assert_eq!((port, found.to_string().as_str()), (3000, expected), "{uri}");
        }
        for uri in ["/proxy/0/", "/proxy/65536/", "/proxy/x/", "/proxy/-1"] {
            assert!(target(&uri.parse().unwrap()).is_err(), "{uri}");
        }
    }

    #[test]
    fn no_secret_reaches_the_sandbox() {
        let names =
            ["authorization", "cookie", TOKEN_HEADER, "x-user-id", "x-openwebui-user-email", "referer"];
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
}
