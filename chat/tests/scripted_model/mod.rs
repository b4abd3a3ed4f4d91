//! A fake model server. It gives its scripted responses, one per request, and records the requests. It accepts every
//! path, so it serves both APIs.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use url::Url;

/// Time limit for expected events.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A server for one test.
pub(crate) struct ScriptedModel {
    /// Its URL, with a path.
    pub(crate) base: Url,
    shared: Arc<Shared>,
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    /// The client's address.
    pub(crate) peer: SocketAddr,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// A scripted response.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    status: StatusCode,
    headers: Vec<(&'static str, String)>,
    /// Whether the response starts at all.
    has_head: bool,
    steps: VecDeque<Step>,
}

/// A part of a response.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Say(Bytes),
    /// The same bytes, repeated without end.
    Repeat(Bytes, usize),
    Pause(Duration),
    /// Nothing more, and no end.
    StaySilent,
    /// The connection is closed.
    HangUp,
}

struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    received: Mutex<Vec<ReceivedRequest>>,
    /// The number of clients that disconnected during their response.
    left: watch::Sender<usize>,
}

/// A response in progress. If it is dropped before its end, its client has disconnected.
struct Visit {
    shared: Arc<Shared>,
    is_over: bool,
}

impl ScriptedModel {
    /// Starts a server with these responses, in order.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let shared = Arc::new(Shared {
            replies: Mutex::new(replies.into_iter().collect()),
            received: Mutex::default(),
            left: watch::Sender::new(0),
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://{}/some/path", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(axum::serve(listener, service).into_future());
        Self { base: base.parse().unwrap(), shared }
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.received.lock().unwrap().clone()
    }

    /// Returns when a client has disconnected during its response.
    pub(crate) async fn until_left(&self) {
        let mut left = self.shared.left.subscribe();
        let left = tokio::time::timeout(SOON, left.wait_for(|count| *count > 0)).await;
        left.expect("the client does not disconnect").unwrap();
    }
}

impl Reply {
    /// Server-sent events, as written.
    pub(crate) fn stream(events: impl Into<Bytes>) -> Self {
        Self::text(200, "text/event-stream; charset=utf-8", events)
    }

    /// The same, in pieces of this number of bytes.
    pub(crate) fn in_pieces(events: impl Into<Bytes>, bytes: usize) -> Self {
        let events = events.into();
        let steps = events.chunks(bytes).map(|piece| Step::Say(Bytes::copy_from_slice(piece)));
        Self { steps: steps.collect(), ..Self::stream("") }
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::text(status, "application/json", body.to_string())
    }

    pub(crate) fn text(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap(),
            headers: vec![("content-type", content_type.to_owned())],
            has_head: true,
            steps: VecDeque::from([Step::Say(body.into())]),
        }
    }

    /// No response.
    pub(crate) fn never() -> Self {
        Self { has_head: false, ..Self::stream("") }
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn then(mut self, step: Step) -> Self {
        self.steps.push_back(step);
        self
    }

    pub(crate) fn then_say(self, text: impl Into<Bytes>) -> Self {
        self.then(Step::Say(text.into()))
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    shared.received.lock().unwrap().push(ReceivedRequest {
        peer,
        path: head.uri.to_string(),
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap(),
    });
    let reply = shared.replies.lock().unwrap().pop_front();
    let Some(reply) = reply else {
        return (StatusCode::NOT_IMPLEMENTED, "the script has no more answers").into_response();
    };
    let visit = Visit { shared, is_over: false };
    if !reply.has_head {
        std::future::pending::<()>().await;
    }
    let mut response =
        (reply.status, Body::from_stream(stream::unfold((reply.steps, visit), step))).into_response();
    for (name, value) in reply.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

type Steps = (VecDeque<Step>, Visit);

async fn step((mut steps, mut visit): Steps) -> Option<(io::Result<Bytes>, Steps)> {
    loop {
        let Some(step) = steps.pop_front() else {
            visit.is_over = true;
            return None;
        };
        match step {
            Step::Say(bytes) => return Some((Ok(bytes), (steps, visit))),
            Step::Repeat(_, 0) => {}
            Step::Repeat(bytes, times) => {
                steps.push_front(Step::Repeat(bytes.clone(), times - 1));
                return Some((Ok(bytes), (steps, visit)));
            }
            Step::Pause(pause) => tokio::time::sleep(pause).await,
            Step::StaySilent => std::future::pending().await,
            Step::HangUp => {
                // The previous parts are flushed before a pause.
                tokio::task::yield_now().await;
                visit.is_over = true;
                return Some((Err(io::Error::other("connection closed by the test")), (steps, visit)));
            }
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.left.send_modify(|count| *count += 1);
        }
    }
}
