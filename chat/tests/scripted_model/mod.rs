//! What stands in for a model's server: it gives the answers it was told to, one a request, and keeps what it was asked.
//!
//! It answers under every path, so one serves both kinds of interface.

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

/// How long a test waits for what must happen.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A server of one test's own.
pub(crate) struct ScriptedModel {
    /// Its address, with a path.
    pub(crate) base: Url,
    shared: Arc<Shared>,
}

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Where the client's end of the connection is.
    pub(crate) peer: SocketAddr,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// An answer to give.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    status: StatusCode,
    headers: Vec<(&'static str, String)>,
    /// Whether it is begun at all.
    has_head: bool,
    steps: VecDeque<Step>,
}

/// A part of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Say(Bytes),
    /// The same again and again.
    Repeat(Bytes, usize),
    Pause(Duration),
    /// Nothing more, and no end either.
    StaySilent,
    /// The connection breaks.
    HangUp,
}

struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    asked: Mutex<Vec<Asked>>,
    /// How many clients left in the middle of their answer.
    left: watch::Sender<usize>,
}

/// An answer on its way. Dropped before it is over, its client has left.
struct Visit {
    shared: Arc<Shared>,
    is_over: bool,
}

impl ScriptedModel {
    /// Gives these answers, one after the other.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let shared = Arc::new(Shared {
            replies: Mutex::new(replies.into_iter().collect()),
            asked: Mutex::default(),
            left: watch::Sender::new(0),
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://{}/some/path", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(axum::serve(listener, service).into_future());
        Self { base: base.parse().unwrap(), shared }
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// Returns once a client has left in the middle of its answer.
    pub(crate) async fn until_left(&self) {
        let mut left = self.shared.left.subscribe();
        let left = tokio::time::timeout(SOON, left.wait_for(|count| *count > 0)).await;
        left.expect("the client leaves soon").unwrap();
    }
}

impl Reply {
    /// Server-sent events, as they are written.
    pub(crate) fn stream(events: impl Into<Bytes>) -> Self {
        Self::text(200, "text/event-stream; charset=utf-8", events)
    }

    /// The same, so many bytes at a time.
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

    /// None at all.
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
    shared.asked.lock().unwrap().push(Asked {
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
                // What was said before goes out while nothing more is at hand.
                tokio::task::yield_now().await;
                visit.is_over = true;
                return Some((Err(io::Error::other("hangs up")), (steps, visit)));
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
