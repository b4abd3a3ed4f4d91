//! The WebSocket of a terminal, with messages that the daemon's own client never sends.

use futures::{SinkExt, StreamExt, stream};
use sandbox_api::{ErrorCode, SandboxId, TOKEN_HEADER, TerminalId};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, interval, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::support::harness::{Daemon, SOON, TOKEN};
use crate::support::http::{Answer, HttpClient};
use crate::support::processes::resident_kib;
use crate::support::screens::shell;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

fn path_of(sandbox: &SandboxId, terminal: &TerminalId) -> String {
    format!("/v1/sandboxes/{sandbox}/terminals/{terminal}/attach")
}

/// Requests an upgrade with these headers.
async fn connect(daemon: &Daemon, path: &str, headers: &[(&'static str, &str)]) -> Result<Socket, Error> {
    let url = format!("{}{path}", daemon.base.replacen("http", "ws", 1));
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
    }
    connect_async(request).await.map(|(socket, _)| socket)
}

fn status(refused: Result<Socket, Error>) -> u16 {
    match refused {
        Err(Error::Http(response)) => response.status().as_u16(),
        other => panic!("it was not refused: {other:?}"),
    }
}

/// The next message that is JSON.
async fn next_json(socket: &mut Socket) -> Value {
    // The time limit covers all messages, because pings arrive as well.
    let text = timeout(SOON, async {
        loop {
            match socket.next().await.unwrap().unwrap() {
                Message::Text(text) => return text,
                Message::Close(frame) => panic!("it was closed: {frame:?}"),
                _ => {}
            }
        }
    });
    serde_json::from_str(text.await.expect("no message arrives").as_str()).unwrap()
}

/// The code with which the daemon closes.
async fn closed(socket: &mut Socket) -> u16 {
    loop {
        let message = timeout(SOON, socket.next()).await.expect("the socket stays open").unwrap().unwrap();
        if let Message::Close(frame) = message {
            return frame.unwrap().code.into();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_requires_authentication() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let path = path_of(&sandbox, &terminal);
    let token = (TOKEN_HEADER, TOKEN);
    assert_eq!(status(connect(&daemon, &path, &[]).await), 401);
    assert_eq!(status(connect(&daemon, &path, &[(TOKEN_HEADER, "wrong")]).await), 401);
    assert_eq!(status(connect(&daemon, &path, &[token, ("origin", "https://evil.example")]).await), 403);
    assert_eq!(status(connect(&daemon, &path, &[token, ("host", "evil.example")]).await), 403);
    let unknown = path_of(&sandbox, &"trm_0000000000000000".parse().unwrap());
    assert_eq!(status(connect(&daemon, &unknown, &[token]).await), 404);
    let bearer = format!("Bearer {TOKEN}");
    let own = ("origin", daemon.base.as_str());
    assert!(connect(&daemon, &path, &[("authorization", &bearer), own]).await.is_ok());

    let api = HttpClient::of(&daemon);
    let plain = api.get(&path).await.refused(ErrorCode::InvalidRequest, "no upgrade");
    assert_eq!(plain.details["field"], "upgrade");
    let gone = api.get(&unknown.replace("/attach", "")).await.refused(ErrorCode::NotFound, "no terminal");
    assert_eq!(gone.details["resource"], "terminal");
    let resize = path.replace("/attach", "");
    api.post(&resize, &json!({})).await.refused(ErrorCode::MethodNotAllowed, "no verb");
    api.post(&format!("{resize}:resize"), &json!({})).await.refused(ErrorCode::InvalidRequest, "no size");
    let put = Answer::to(api.with_token("PUT", &path)).await;
    put.refused(ErrorCode::MethodNotAllowed, "another method");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_message_is_reported_and_the_socket_stays_open() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let path = path_of(&sandbox, &terminal);
    let mut socket = connect(&daemon, &path, &[(TOKEN_HEADER, TOKEN)]).await.unwrap();
    assert_eq!(next_json(&mut socket).await, json!({ "type": "size", "cols": 120, "rows": 32 }));
    for (text, word) in [
        ("ls\r", "resize"),
        ("{}", "resize"),
        (r#"{"type":"fly"}"#, "resize"),
        (r#"{"type":"resize","cols":80}"#, "resize"),
        (r#"{"type":"resize","cols":0,"rows":24}"#, "`cols`"),
        (r#"{"type":"resize","cols":80,"rows":4294967295}"#, "`rows`"),
    ] {
        socket.send(Message::Text(text.into())).await.unwrap();
        let error = next_json(&mut socket).await;
        assert_eq!(error["type"], "error", "{text}");
        assert!(error["error"].as_str().unwrap().contains(word), "{text}: {error}");
    }
    socket.send(Message::Text(r#"{"type":"resize","cols":81,"rows":25}"#.into())).await.unwrap();
    assert_eq!(next_json(&mut socket).await, json!({ "type": "size", "cols": 81, "rows": 25 }));
    socket.send(Message::Binary(vec![b'x'; 64 * 1024 + 1].into())).await.unwrap();
    assert_eq!(closed(&mut socket).await, 1009);

    let mut socket = connect(&daemon, &path, &[(TOKEN_HEADER, TOKEN)]).await.unwrap();
    socket.send(Message::Binary("exit 3\r".into())).await.unwrap();
    let exit = loop {
        let message = next_json(&mut socket).await;
        if message["type"] == "exit" {
            break message;
        }
    };
    assert_eq!(exit, json!({ "type": "exit", "exitCode": 3, "signal": null, "reason": "exited" }));
    assert_eq!(closed(&mut socket).await, 1000);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_socket_does_not_delay_a_stop() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let path = path_of(&sandbox, &terminal);
    let mut socket = connect(&daemon, &path, &[(TOKEN_HEADER, TOKEN)]).await.unwrap();
    let silent = connect(&daemon, &path, &[(TOKEN_HEADER, TOKEN)]).await.unwrap();
    let began = Instant::now();
    let stop = tokio::spawn(daemon.stop());
    assert_eq!(closed(&mut socket).await, 1001);
    let _home = stop.await.unwrap();
    assert!(began.elapsed() < sandboxd::model::limits::DRAIN, "{:?}", began.elapsed());
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_that_floods_pings_without_reading_is_disconnected() {
    const PINGS: usize = 2_000_000;
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let socket = connect(&daemon, &path_of(&sandbox, &terminal), &[(TOKEN_HEADER, TOKEN)]).await.unwrap();
    let (mut sender, mut receiver) = socket.split();
    let before = resident_kib();
    let ping = Message::Ping(vec![b'x'; 125].into());
    let mut pings = stream::repeat(ping).take(PINGS).map(Ok);
    let flood = timeout(SOON, sender.send_all(&mut pings));
    let (mut peak, mut ticks) = (0, interval(std::time::Duration::from_millis(20)));
    let mut flood = std::pin::pin!(flood);
    let stopped = loop {
        tokio::select! {
            done = &mut flood => break done,
            _ = ticks.tick() => peak = peak.max(resident_kib()),
        }
    };
    assert!(!matches!(stopped, Ok(Ok(()))), "the daemon took every ping");
    assert!(peak < before + 32 * 1024, "{before} KiB became {peak} KiB");
    // Messages sent before the disconnect may still arrive. A reset may arrive before the close frame.
    while let Ok(Some(Ok(message))) = timeout(SOON, receiver.next()).await {
        if let Message::Close(Some(frame)) = message {
            assert_eq!(u16::from(frame.code), 1008);
        }
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_that_reads_can_send_many_pings() {
    const PINGS: usize = 20_000;
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let socket = connect(&daemon, &path_of(&sandbox, &terminal), &[(TOKEN_HEADER, TOKEN)]).await.unwrap();
    let (mut sender, mut receiver) = socket.split();
    let flood = async {
        let mut pings = stream::iter(0..PINGS).map(|n| Ok(Message::Ping(n.to_string().into())));
        sender.send_all(&mut pings).await.unwrap();
    };
    let answered = async {
        // One pong may answer several pings (RFC 6455, section 5.5.3).
        loop {
            match timeout(SOON, receiver.next()).await.expect("no answer").unwrap().unwrap() {
                Message::Pong(data) if data == (PINGS - 1).to_string().as_bytes() => return,
                Message::Close(frame) => panic!("it was closed: {frame:?}"),
                _ => {}
            }
        }
    };
    tokio::join!(flood, answered);
    daemon.stop().await;
}
