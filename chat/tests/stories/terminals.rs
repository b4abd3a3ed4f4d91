//! Terminals of a chat's sandbox over the app's own WebSocket.

use std::time::Duration;

use chat::account::Role;
use futures::{SinkExt, StreamExt};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use test_daemon::SOON;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::test_app::{TestApp, answer};
use crate::users::Person;

const TERMINALS: &str = "/api/chats/1/terminals";

async fn open(app: &TestApp) -> String {
    let (status, opened) =
        answer(app.request(Method::POST, TERMINALS).json(&json!({ "cols": 80, "rows": 24 }))).await;
    assert_eq!(status, 200, "{opened}");
    opened["id"].as_str().unwrap().to_owned()
}

async fn listed(app: &TestApp) -> Vec<Value> {
    app.get(TERMINALS).await.1["terminals"].as_array().unwrap().clone()
}

fn asks_for_ticket(app: &TestApp, terminal: &str) -> RequestBuilder {
    app.request(Method::POST, &format!("{TERMINALS}/{terminal}/ticket"))
}

async fn ticket(request: RequestBuilder) -> String {
    let (status, ticket) = answer(request).await;
    assert_eq!(status, 200, "{ticket}");
    ticket["ticket"].as_str().unwrap().to_owned()
}

/// A page that shows a terminal.
struct Viewer {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    seen: String,
    messages: Vec<Value>,
}

impl Viewer {
    async fn attach(app: &TestApp, terminal: &str) -> Self {
        Self::with(app, &ticket(asks_for_ticket(app, terminal)).await, None).await.unwrap()
    }

    /// Connects with a ticket, from a page of this origin. Fails with the status of the response.
    async fn with(app: &TestApp, ticket: &str, origin: Option<&str>) -> Result<Self, StatusCode> {
        let address = format!("{}/api/terminals/{ticket}", app.base.replace("http://", "ws://"));
        let mut request = address.into_client_request().unwrap();
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        match connect_async(request).await {
            Ok((socket, _)) => Ok(Self { socket, seen: String::new(), messages: Vec::new() }),
            Err(tungstenite::Error::Http(response)) => Err(response.status()),
            Err(error) => panic!("{error}"),
        }
    }

    async fn types(&mut self, text: &str) {
        self.socket.send(Message::Binary(text.as_bytes().to_vec().into())).await.unwrap();
    }

    async fn says(&mut self, message: Value) {
        self.socket.send(Message::Text(message.to_string().into())).await.unwrap();
    }

    /// Waits for a text on the screen.
    async fn sees(&mut self, text: &str) {
        while !self.seen.contains(text) {
            assert!(self.next().await.is_none(), "closed before {text}: {}", self.seen);
        }
    }

    /// Waits for a message of a type.
    async fn hears(&mut self, kind: &str) -> Value {
        loop {
            if let Some(at) = self.messages.iter().position(|message| message["type"] == kind) {
                return self.messages.remove(at);
            }
            assert!(self.next().await.is_none(), "closed before a message {kind}");
        }
    }

    /// Waits for the end. Returns its code.
    async fn closed(&mut self) -> CloseCode {
        loop {
            if let Some(code) = self.next().await {
                return code;
            }
        }
    }

    async fn next(&mut self) -> Option<CloseCode> {
        let message = timeout(SOON, self.socket.next()).await.expect("nothing came").unwrap().unwrap();
        match message {
            Message::Binary(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
            Message::Text(text) => self.messages.push(serde_json::from_str(text.as_str()).unwrap()),
            Message::Close(frame) => return Some(frame.unwrap().code),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
        None
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_used_from_two_pages_and_outlives_them() {
    let app = TestApp::start().await;
    assert_eq!(app.get(TERMINALS).await.0, 404, "there is no chat yet");
    app.send("1", "/bash true").await;
    assert_eq!(listed(&app).await, Vec::<Value>::new());
    let terminal = open(&app).await;
    let mut first = Viewer::attach(&app, &terminal).await;
    assert_eq!(first.hears("size").await, json!({ "type": "size", "cols": 80, "rows": 24 }));
    first.types("x=kept; echo is-$x\n").await;
    first.sees("is-kept").await;
    let mut second = Viewer::attach(&app, &terminal).await;
    second.sees("is-kept").await;
    second.says(json!({ "type": "resize", "cols": 100, "rows": 30 })).await;
    second.types("stty size; pwd\n").await;
    for viewer in [&mut first, &mut second] {
        viewer.sees("30 100").await;
        viewer.sees("/vercel/sandbox/workspace").await;
    }
    first.hears("size").await;
    for (message, problem) in
        [(json!({ "type": "resize", "cols": 0, "rows": 30 }), "cols"), (json!({ "type": "other" }), "resize")]
    {
        second.says(message).await;
        let error = second.hears("error").await;
        assert!(error["error"].as_str().unwrap().contains(problem), "{error}");
    }
    drop((first, second));

    // Reloaded, also after a restart of the app.
    let app = app.again().await;
    let [kept] = &listed(&app).await[..] else { panic!("one terminal") };
    assert_eq!((&kept["id"], &kept["state"]), (&json!(terminal), &json!("running")));
    let mut viewer = Viewer::attach(&app, &terminal).await;
    viewer.sees("is-kept").await;
    viewer.types("echo still-$x; exit 3\n").await;
    viewer.sees("still-kept").await;
    assert_eq!(viewer.hears("exit").await["exitCode"], 3);
    assert_eq!(viewer.closed().await, CloseCode::Normal);
    assert_eq!(listed(&app).await[0]["exitCode"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_terminal_is_gone_with_its_programs() {
    let app = TestApp::start().await;
    app.send("1", "/bash true").await;
    let terminal = open(&app).await;
    let mut viewer = Viewer::attach(&app, &terminal).await;
    viewer.types("sleep 1234 & echo started-$((1 + 1))\n").await;
    viewer.sees("started-2").await;
    let close = || answer(app.request(Method::DELETE, &format!("{TERMINALS}/{terminal}")));
    assert_eq!(close().await.0, 204);
    viewer.hears("exit").await;
    assert_eq!(app.output("1", "/bash pgrep -c -f '[s]leep 1234'").await["stdout"], "0\n");
    assert_eq!(close().await.0, 204, "it is safe to repeat");
    assert_eq!(answer(asks_for_ticket(&app, &terminal)).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_admits_one_connection_of_an_own_page() {
    let app = TestApp::start().await;
    app.send("1", "/bash true").await;
    let terminal = open(&app).await;
    let used = ticket(asks_for_ticket(&app, &terminal)).await;
    for foreign in ["https://evil.example", "http://127.0.0.1:1", "null"] {
        let refused = Viewer::with(&app, &used, Some(foreign)).await.err();
        assert_eq!(refused, Some(StatusCode::FORBIDDEN), "{foreign}");
    }
    Viewer::with(&app, &used, Some(&app.base)).await.unwrap();
    for unknown in [&used, "unknown"] {
        assert_eq!(Viewer::with(&app, unknown, None).await.err(), Some(StatusCode::NOT_FOUND));
    }
    let (status, error) = app.get(&format!("/api/terminals/{used}")).await;
    assert_eq!((status.as_u16(), error["code"].as_str()), (400, Some("invalid_request")), "no WebSocket");
    let odd = asks_for_ticket(&app, "../../1");
    assert_eq!(answer(odd).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_sandbox_has_no_terminals_and_is_not_woken() {
    let app = TestApp::start().await;
    app.send("1", "/bash true").await;
    let terminal = open(&app).await;
    assert_eq!(answer(app.request(Method::POST, "/api/chats/1/sandbox/park").json(&json!({}))).await.0, 200);
    assert_eq!(listed(&app).await, Vec::<Value>::new());
    assert_eq!(answer(asks_for_ticket(&app, &terminal)).await.0, 404);
    assert_eq!(app.get("/api/chats/1/sandbox").await.1["state"], "parked");
    open(&app).await;
    assert_eq!(listed(&app).await.len(), 1, "opening one wakes it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_does_not_read_delays_no_other() {
    let app = TestApp::start().await;
    app.send("1", "/bash true").await;
    let terminal = open(&app).await;
    let mut stalled = Viewer::attach(&app, &terminal).await;
    stalled.types("head -c 8000000 /dev/zero | tr '\\0' x | fold; echo over-$((2 + 3))\n").await;
    let mut reading = Viewer::attach(&app, &terminal).await;
    reading.sees("over-5").await;
    // Pings are answered, and their answers do not pile up.
    for _ in 0..10_000 {
        reading.socket.send(Message::Ping(vec![0; 100].into())).await.unwrap();
    }
    reading.types("echo after-$((3 + 3))\n").await;
    reading.sees("after-6").await;
    drop(stalled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_gets_no_connection_hears_why() {
    let app = TestApp::start().await;
    app.send("1", "/bash true").await;
    let terminal = open(&app).await;
    let mut viewers = Vec::new();
    for _ in 0..16 {
        viewers.push(Viewer::attach(&app, &terminal).await);
    }
    let mut refused = Viewer::attach(&app, &terminal).await;
    let error = refused.hears("error").await;
    assert!(error["error"].as_str().unwrap().contains("16"), "{error}");
    assert_eq!(refused.closed().await, CloseCode::Again);
    viewers[0].types("echo still-$((5 + 5))\n").await;
    viewers[0].sees("still-10").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_takes_no_sandbox_from_another_chat() {
    let app = TestApp::with("localhost", "max_concurrent_sandboxes = 1", Vec::new()).await;
    app.send("1", "/bash true").await;
    let terminal = open(&app).await;
    let mut viewer = Viewer::attach(&app, &terminal).await;
    assert_eq!(app.output("2", "/bash echo of another chat").await["stdout"], "of another chat\n");
    viewer.types("echo still-$((6 + 6))\n").await;
    viewer.sees("still-12").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_ends_with_its_session_or_the_app() {
    let app = TestApp::start().await;
    let ann = Person::new(&app, "ann", Role::Admin).await;
    let bob = Person::new(&app, "bob", Role::User).await;
    ann.says(&app, "1", "/bash true").await;
    let open = || app.request(Method::POST, TERMINALS).json(&json!({ "cols": 80, "rows": 24 }));
    let terminal = answer(ann.sends(open())).await.1["id"].as_str().unwrap().to_owned();
    assert_eq!(answer(bob.sends(asks_for_ticket(&app, &terminal))).await.0, 404, "he has no such chat");
    // His unused tickets take his own places only.
    bob.says(&app, "1", "/bash true").await;
    let his = answer(bob.sends(open())).await.1["id"].as_str().unwrap().to_owned();
    let mut statuses = Vec::new();
    for _ in 0..17 {
        statuses.push(answer(bob.sends(asks_for_ticket(&app, &his))).await.0.as_u16());
    }
    assert_eq!(statuses, [vec![200; 16], vec![429]].concat());
    let other = ann.again(&app).await;
    let mut viewers = Vec::new();
    for person in [&ann, &other] {
        let ticket = ticket(person.sends(asks_for_ticket(&app, &terminal))).await;
        viewers.push(Viewer::with(&app, &ticket, None).await.unwrap());
    }
    assert_eq!(ann.asks(&app, Method::DELETE, "/api/session").await.0, 204);
    assert_eq!(viewers[0].closed().await, CloseCode::Policy);
    viewers[1].types("echo still-$((4 + 4))\n").await;
    viewers[1].sees("still-8").await;
    let ends = tokio::spawn(app.end());
    assert_eq!(viewers[1].closed().await, CloseCode::Away);
    timeout(Duration::from_secs(20), ends).await.expect("the app stops").unwrap();
}
