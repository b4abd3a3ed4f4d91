//! Plain HTTP, for requests that the daemon's own client never sends.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use sandbox_api::{ErrorBody, ErrorCode, REQUEST_ID_HEADER, TOKEN_HEADER};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::harness::{Daemon, SOON, TOKEN, until};

/// An HTTP client for one daemon.
pub(crate) struct HttpClient {
    http: reqwest::Client,
    base: String,
}

impl HttpClient {
    pub(crate) fn of(daemon: &Daemon) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(SOON).build().unwrap();
        Self { http, base: daemon.base.clone() }
    }

    /// A client of a daemon at this port.
    pub(crate) fn at(port: u16) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(SOON).build().unwrap();
        Self { http, base: format!("http://127.0.0.1:{port}") }
    }

    /// A client that connects from this address.
    pub(crate) fn from(daemon: &Daemon, address: IpAddr) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(SOON).local_address(address);
        Self { http: http.build().unwrap(), base: daemon.base.clone() }
    }

    pub(crate) fn without_token(&self, method: &str, path: &str) -> RequestBuilder {
        self.http.request(Method::from_bytes(method.as_bytes()).unwrap(), format!("{}{path}", self.base))
    }

    pub(crate) fn with_token(&self, method: &str, path: &str) -> RequestBuilder {
        self.without_token(method, path).header(TOKEN_HEADER, TOKEN)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::to(self.with_token("GET", path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::to(self.with_token("POST", path).json(body)).await
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) async fn to(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.bytes().await.unwrap().into() }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Checks that the response is an error with this code and with every field of the contract. Returns its body.
    #[track_caller]
    pub(crate) fn refused(&self, code: ErrorCode, what: &str) -> ErrorBody {
        let text = String::from_utf8_lossy(&self.body);
        let found = format!("{what}: {} {text}", self.status);
        assert_eq!(self.status, code.status(), "{found}");
        assert_eq!(self.header("content-type"), "application/json; charset=utf-8", "{found}");
        // In any order: JSON objects have none.
        let keys: BTreeSet<String> = match serde_json::from_slice(&self.body) {
            Ok(Value::Object(fields)) => fields.keys().cloned().collect(),
            other => panic!("{found}: {other:?}"),
        };
        let wanted = ["code", "details", "error", "requestId"].map(str::to_owned);
        assert_eq!(keys, wanted.into(), "{found}");
        let body: ErrorBody = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(body.code, code, "{found}");
        assert!(!body.error.is_empty(), "{found}");
        assert!(body.request_id.starts_with("req_"), "{found}");
        assert_eq!(self.header(REQUEST_ID_HEADER), body.request_id, "{found}");
        body
    }

    /// Checks that the error names a field.
    #[track_caller]
    pub(crate) fn faults(&self, field: &str, what: &str) {
        let body = self.refused(ErrorCode::InvalidRequest, what);
        assert_eq!(body.details["field"], field, "{what}: {}", body.error);
        assert!(body.error.contains(field), "{what}: the sentence does not name it: {}", body.error);
    }
}

/// A connection on which the test sends and receives raw bytes.
pub(crate) struct Wire(TcpStream);

impl Wire {
    pub(crate) async fn to(daemon: &Daemon) -> Self {
        let address = daemon.base.strip_prefix("http://").unwrap();
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// Fails if the daemon has closed the connection.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes).await
    }

    /// Sends the start of a request with the token. The caller sends the rest of the head.
    pub(crate) async fn begin(&mut self, method: &str, path: &str) {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{TOKEN_HEADER}: {TOKEN}\r\n");
        self.send(head.as_bytes()).await.unwrap();
    }

    /// Waits until the daemon has read everything that was sent.
    pub(crate) async fn is_read(&self) {
        let is_read = async || has_read_all(&self.0);
        until("the daemon has read the request", is_read).await;
    }

    /// Reads a response until its body is complete. The connection may stay open.
    pub(crate) async fn answer(&mut self) -> Answer {
        let mut received = Vec::new();
        loop {
            if let Some(answer) = parse(&received) {
                return answer;
            }
            let read = timeout(SOON, self.0.read_buf(&mut received)).await.expect("no answer").unwrap();
            assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&received));
        }
    }

    /// Reads until the daemon closes the connection, which it must do within `limit`. A reset counts as closed.
    pub(crate) async fn until_closed(&mut self, limit: Duration) -> Vec<u8> {
        let mut received = Vec::new();
        let end =
            timeout(limit, async { while self.0.read_buf(&mut received).await.is_ok_and(|n| n > 0) {} });
        end.await.unwrap_or_else(|_| panic!("not closed within {limit:?}"));
        received
    }
}

/// Whether the other end has read all bytes that were sent. Both ends are on this machine (proc_net_tcp(5)).
pub(crate) fn has_read_all(stream: &TcpStream) -> bool {
    let entry = |address: SocketAddr| {
        let SocketAddr::V4(address) = address else { panic!("{address} is not an IPv4 address") };
        format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
    };
    let (near, far) = (entry(stream.local_addr().unwrap()), entry(stream.peer_addr().unwrap()));
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut others = fields.filter(|fields| fields[1] == far && fields[2] == near);
    others.next().is_some_and(|fields| fields[4].ends_with(":00000000"))
}

/// A complete response with a content length, or `None`.
fn parse(received: &[u8]) -> Option<Answer> {
    let end = received.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&received[..end]).unwrap();
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        headers.insert(reqwest::header::HeaderName::try_from(name).unwrap(), value.parse().unwrap());
    }
    let length: usize = headers.get("content-length")?.to_str().unwrap().parse().unwrap();
    (received.len() >= end + length).then(|| Answer {
        status,
        headers,
        body: received[end..end + length].into(),
    })
}
