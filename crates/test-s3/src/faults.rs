//! A proxy in front of a server, which misbehaves if a test says so.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use http::{HeaderMap, Method, StatusCode, header};
use tokio::net::TcpListener;

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server answers with this status. It does nothing.
    Status(StatusCode),
    /// The server accepts the request and never answers.
    Hang,
    /// The server answers 200 and does nothing.
    Forget,
    /// The connection ends in the middle of the body.
    CutBody,
    /// The body has half of its bytes, and its length says so.
    ShortBody,
    /// A byte in the middle of the body has another value.
    ChangedBody,
    /// The body does not end, and its length is not given. Answers with this status if it is not 200.
    EndlessBody(StatusCode),
    /// The head announces an enormous body with this status, of which a part comes.
    HugeBody(StatusCode),
}

/// Size of the parts of a body that is too long, in bytes.
const PART_BYTES: usize = 1024 * 1024;

/// The faults of a proxy.
type Faults = Arc<Mutex<Vec<Rule>>>;

/// A fault of all requests with a method, after some that have none.
#[derive(Debug)]
struct Rule {
    method: Method,
    passing: usize,
    fault: Fault,
}

/// A proxy, which ends with the test.
#[derive(Debug)]
pub struct Proxy {
    /// Its URL.
    pub endpoint: String,
    faults: Faults,
}

#[derive(Clone)]
struct Forward {
    to: String,
    client: reqwest::Client,
    faults: Faults,
}

impl Proxy {
    /// Starts a proxy that forwards everything to the server at `endpoint`.
    pub async fn start(endpoint: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let own = format!("http://{}", listener.local_addr().unwrap());
        let faults = Faults::default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let state = Forward { to: endpoint.to_owned(), client, faults: Arc::clone(&faults) };
        let router = Router::new().fallback(forward).with_state(state);
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { endpoint: own, faults }
    }

    /// All requests with this method have a fault from now on.
    pub fn fail(&self, method: Method, fault: Fault) {
        self.fail_after(0, method, fault);
    }

    /// Requests with this method have a fault from now on, except the first `passing` ones.
    pub fn fail_after(&self, passing: usize, method: Method, fault: Fault) {
        self.lock().push(Rule { method, passing, fault });
    }

    /// All requests have a fault from now on.
    pub fn fail_all(&self, fault: Fault) {
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE] {
            self.fail(method, fault);
        }
    }

    /// No request has a fault from now on.
    pub fn mend(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Rule>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Forward {
    fn next_fault(&self, method: &Method) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let rule = faults.iter_mut().find(|rule| rule.method == *method)?;
        let passes = rule.passing > 0;
        rule.passing = rule.passing.saturating_sub(1);
        (!passes).then_some(rule.fault)
    }
}

async fn forward(State(state): State<Forward>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let fault = state.next_fault(&parts.method);
    match fault {
        Some(Fault::Status(status)) => return status.into_response(),
        Some(Fault::Hang) => return std::future::pending().await,
        Some(Fault::Forget) => return (StatusCode::OK, [(header::ETAG, "\"forgotten\"")]).into_response(),
        Some(Fault::HugeBody(status)) => return huge(status),
        Some(Fault::EndlessBody(status)) if status != StatusCode::OK => {
            return (status, Body::from_stream(endless())).into_response();
        }
        Some(Fault::CutBody | Fault::ShortBody | Fault::ChangedBody | Fault::EndlessBody(_)) | None => {}
    }
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let url = format!("{}{}", state.to, parts.uri.path_and_query().map_or("/", |path| path.as_str()));
    let mut headers = parts.headers;
    headers.remove(header::CONTENT_LENGTH);
    let sent = state.client.request(parts.method.clone(), url).headers(headers).body(body).send().await;
    let answer = sent.unwrap();
    let (status, headers) = (answer.status(), answer.headers().clone());
    if parts.method == Method::HEAD {
        return (status, headers).into_response();
    }
    let body = answer.bytes().await.unwrap();
    respond(status, headers, body, fault)
}

fn respond(status: StatusCode, mut headers: HeaderMap, body: Bytes, fault: Option<Fault>) -> Response {
    headers.remove(header::TRANSFER_ENCODING);
    headers.insert(header::CONTENT_LENGTH, body.len().into());
    let half = body.slice(..body.len() / 2);
    let body = match fault {
        Some(Fault::CutBody) => {
            let cut = std::io::Error::other("cut");
            Body::from_stream(stream::iter([Ok(half), Err(cut)]))
        }
        Some(Fault::ShortBody) => {
            headers.insert(header::CONTENT_LENGTH, half.len().into());
            half.into()
        }
        Some(Fault::ChangedBody) => {
            let mut changed = body.to_vec();
            let middle = changed.len() / 2;
            changed.get_mut(middle).into_iter().for_each(|byte| *byte ^= 1);
            changed.into()
        }
        Some(Fault::EndlessBody(_)) => {
            headers.remove(header::CONTENT_LENGTH);
            Body::from_stream(stream::iter([Ok(body)]).chain(endless()))
        }
        Some(Fault::Status(_) | Fault::Hang | Fault::Forget | Fault::HugeBody(_)) | None => body.into(),
    };
    (status, headers, body).into_response()
}

fn endless() -> impl Stream<Item = std::io::Result<Bytes>> {
    stream::repeat_with(|| Ok(Bytes::from(vec![b' '; PART_BYTES])))
}

fn huge(status: StatusCode) -> Response {
    let length = [(header::CONTENT_LENGTH, (1_u64 << 62).to_string())];
    (status, length, Body::from_stream(endless())).into_response()
}
