//! The WebSocket of a terminal of the open-terminal API.

use futures::{SinkExt, StreamExt};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::open_terminal::Chat;
use crate::support::harness::{Daemon, SOON, TOKEN};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn connect(daemon: &Daemon, id: &str, headers: &[(&'static str, &str)]) -> Result<Socket, Error> {
    let url = format!("{}/open-terminal/api/terminals/{id}", daemon.base.replacen("http", "ws", 1));
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    connect_async(request).await.map(|(socket, _)| socket)
}

/// Connects and sends a first message.
async fn begin(daemon: &Daemon, id: &str, headers: &[(&'static str, &str)], first: Message) -> Socket {
    let mut socket = connect(daemon, id, headers).await.unwrap();
    socket.send(first).await.unwrap();
    socket
}

fn auth(token: &str) -> Message {
    Message::text(json!({ "type": "auth", "token": token }).to_string())
}

/// Reads output until it contains the text.
async fn until_shown(socket: &mut Socket, text: &str) {
    let mut shown = String::new();
    let read = async {
        while !shown.contains(text) {
            match socket.next().await.unwrap().unwrap() {
                Message::Binary(data) => shown.push_str(&String::from_utf8_lossy(&data)),
                Message::Ping(_) => {}
                other => panic!("{other:?} after {shown:?}"),
            }
        }
    };
    timeout(SOON, read).await.expect("the text does not appear");
}

/// The code with which the server closes.
async fn closed(mut socket: Socket) -> u16 {
    let closed = async {
        loop {
            if let Message::Close(frame) = socket.next().await.unwrap().unwrap() {
                return frame.unwrap().code.into();
            }
        }
    };
    timeout(SOON, closed).await.expect("the socket stays open")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_types_into_a_terminal() {
    let daemon = Daemon::start().await;
    let chat = Chat::of(&daemon, "ann", "1");
    let id = chat.posted("/api/terminals", json!({})).await["id"].as_str().unwrap().to_owned();
    // The id is enough. The headers of Open WebUI may be there too.
    let headers: [&[_]; 2] = [&[], &[("x-user-id", "ann"), ("x-session-id", "")]];
    for headers in headers {
        let mut socket = begin(&daemon, &id, headers, auth(TOKEN)).await;
        socket.send(Message::text(r#"{"type":"resize","cols":99,"rows":33}"#)).await.unwrap();
        socket.send(Message::text(r#"{"type":"resize","cols":-1,"rows":99999999}"#)).await.unwrap();
        socket.send(Message::text("not JSON")).await.unwrap();
        socket.send(Message::binary("stty size; echo $((6*7))-shown\r")).await.unwrap();
        until_shown(&mut socket, "33 99\r\n42-shown").await;
        socket.close(None).await.unwrap();
    }
    let mut socket = begin(&daemon, &id, &[], auth(TOKEN)).await;
    socket.send(Message::binary("exit\r")).await.unwrap();
    assert_eq!(closed(socket).await, 1000);
    assert_eq!(
        closed(begin(&daemon, "sbx_0123456789abcdef.trm_0123456789abcdef", &[], auth(TOKEN)).await).await,
        4004
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_needs_a_token_first() {
    let daemon = Daemon::start().await;
    let chat = Chat::of(&daemon, "ann", "1");
    let id = chat.posted("/api/terminals", json!({})).await["id"].as_str().unwrap().to_owned();
    for first in [
        auth("wrong"),
        auth(""),
        Message::text("{}"),
        Message::text(r#"{"type":"resize","cols":80,"rows":24}"#),
        Message::text("["),
        Message::binary("id\r"),
    ] {
        let named = format!("{first:?}");
        assert_eq!(closed(begin(&daemon, &id, &[], first).await).await, 4001, "{named}");
    }
    assert_eq!(closed(begin(&daemon, &id, &[("x-user-id", "bob")], auth(TOKEN)).await).await, 4003);
    // A sandbox of the API is not one of this surface.
    let other = daemon.sandbox("chat:1").await;
    let foreign = format!("{other}.{}", id.split_once('.').unwrap().1);
    assert_eq!(closed(begin(&daemon, &foreign, &[], auth(TOKEN)).await).await, 4004);
    for (headers, status) in
        [(("origin", "https://evil.example"), 403), (("authorization", "Bearer wrong"), 401)]
    {
        match connect(&daemon, &id, &[headers]).await {
            Err(Error::Http(response)) => assert_eq!(response.status().as_u16(), status),
            other => panic!("it was not refused: {other:?}"),
        }
    }
    // Few clients may wait with their token at once, but they do not keep others out.
    let mut waiting = Vec::new();
    for _ in 0..32 {
        waiting.push(connect(&daemon, &id, &[]).await.unwrap());
    }
    let mut user = begin(&daemon, &id, &[], auth(TOKEN)).await;
    user.send(Message::binary("echo $((6*7))-shown\r")).await.unwrap();
    until_shown(&mut user, "42-shown").await;
    assert_eq!(closed(waiting.remove(0)).await, 1013, "the oldest made room");
    assert_eq!(closed(waiting.pop().unwrap()).await, 4001, "it waits for a limited time");
    daemon.stop().await;
}
