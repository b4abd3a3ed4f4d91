//! Plain HTTP, for what the daemon's own client would never send.

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

/// Asks one daemon.
pub(crate) struct Asker {
    http: reqwest::Client,
    base: String,
}

impl Asker {
    pub(crate) fn of(daemon: &Daemon) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(SOON).build().unwrap();
        Self { http, base: daemon.base.clone() }
    }

    /// One that connects from this address.
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

/// What came back.
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

    /// The refusal, which must have this code and in every part the shape of the contract.
    #[track_caller]
    pub(crate) fn refused(&self, code: ErrorCode, what: &str) -> ErrorBody {
        let text = String::from_utf8_lossy(&self.body);
        let found = format!("{what}: {} {text}", self.status);
        assert_eq!(self.status, code.status(), "{found}");
        assert_eq!(self.header("content-type"), "application/json; charset=utf-8", "{found}");
        // Whatever their order: a map of JSON has none that is ours to choose.
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

    /// A refusal that names a field.
    #[track_caller]
    pub(crate) fn faults(&self, field: &str, what: &str) {
        let body = self.refused(ErrorCode::InvalidRequest, what);
        assert_eq!(body.details["field"], field, "{what}: {}", body.error);
        assert!(body.error.contains(field), "{what}: the sentence does not name it: {}", body.error);
    }
}

/// A connection whose every byte is ours.
pub(crate) struct Wire(TcpStream);

impl Wire {
    pub(crate) async fn to(daemon: &Daemon) -> Self {
        let address = daemon.base.strip_prefix("http://").unwrap();
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// Fails where the daemon has hung up.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes).await
    }

    /// The beginning of a request with the token, up to the headers that are its own.
    pub(crate) async fn begin(&mut self, method: &str, path: &str) {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{TOKEN_HEADER}: {TOKEN}\r\n");
        self.send(head.as_bytes()).await.unwrap();
    }

    /// Waits until the daemon has read everything that was sent.
    pub(crate) async fn is_read(&self) {
        let is_read = async || has_read_all(&self.0);
        until("the daemon has read the request", is_read).await;
    }

    /// An answer as far as it has come when its body is whole; the connection may stay open.
    pub(crate) async fn answer(&mut self) -> Answer {
        let mut heard = Vec::new();
        loop {
            if let Some(answer) = parse(&heard) {
                return answer;
            }
            let read = timeout(SOON, self.0.read_buf(&mut heard)).await.expect("no answer").unwrap();
            assert!(read > 0, "hung up after {:?}", String::from_utf8_lossy(&heard));
        }
    }

    /// Everything until the daemon hangs up, which it must within `limit`. A reset is one way to hang up.
    pub(crate) async fn until_hung_up(&mut self, limit: Duration) -> Vec<u8> {
        let mut heard = Vec::new();
        let end = timeout(limit, async { while self.0.read_buf(&mut heard).await.is_ok_and(|n| n > 0) {} });
        end.await.unwrap_or_else(|_| panic!("not hung up within {limit:?}"));
        heard
    }
}

/// Whether nothing waits in the other end's receive queue. Both ends are on this machine (proc_net_tcp(5)).
pub(crate) fn has_read_all(stream: &TcpStream) -> bool {
    let entry = |address: SocketAddr| {
        let SocketAddr::V4(address) = address else { panic!("{address} is no IPv4 address") };
        format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
    };
    let (near, far) = (entry(stream.local_addr().unwrap()), entry(stream.peer_addr().unwrap()));
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut others = fields.filter(|fields| fields[1] == far && fields[2] == near);
    others.next().is_some_and(|fields| fields[4].ends_with(":00000000"))
}

/// One answer with a length, if all of it is here.
fn parse(heard: &[u8]) -> Option<Answer> {
    let end = heard.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&heard[..end]).unwrap();
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        headers.insert(reqwest::header::HeaderName::try_from(name).unwrap(), value.parse().unwrap());
    }
    let length: usize = headers.get("content-length")?.to_str().unwrap().parse().unwrap();
    (heard.len() >= end + length).then(|| Answer { status, headers, body: heard[end..end + length].into() })
}
