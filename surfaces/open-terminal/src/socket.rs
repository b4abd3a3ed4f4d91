//! The WebSocket of a terminal. Binary messages carry bytes in both directions.
//!
//! The first message has the token: `{"type":"auth","token":…}`. Until then a client holds one of few slots for a short
//! time. After it, text messages are `{"type":"resize","cols":…,"rows":…}`. The id in the path selects the sandbox.

use std::error::Error as StdError;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{FromRequestParts, Request, State};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use http::request::Parts;
use sandbox_client::{Error as ClientError, Keyboard, TerminalEvent, TerminalEvents};
use serde::Deserialize;
use surface_caller::Caller;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, timeout};
use toolbox::Namespace;
use tracing::{debug, warn};

use crate::access::{self, Visitor};
use crate::address::{Address, is_gone};
use crate::server::{Answer, Server};
use crate::terminals;
use crate::unattached::Attachment;
use crate::unauthenticated::Slot;

/// Time in which the first message must arrive.
const AUTH: Duration = Duration::from_secs(10);

/// Maximum length of a message, and of a terminal's input at once.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Maximum output that a viewer has not read.
const MAX_UNSENT_BYTES: usize = 1024 * 1024;

/// Time between two pings, and how long a viewer may be silent.
const PING: Duration = Duration::from_secs(20);
const SILENT: Duration = Duration::from_secs(60);

/// Time in which a viewer must confirm that the connection closes.
const CLOSE: Duration = Duration::from_secs(2);

/// Largest size of a terminal.
const MAX_COLS: u32 = 500;
const MAX_ROWS: u32 = 200;

/// Close codes of the protocol.
const UNAUTHENTICATED: u16 = 4001;
const FORBIDDEN: u16 = 4003;
const UNKNOWN: u16 = 4004;

type Sender = SplitSink<WebSocket, Message>;
type Receiver = SplitStream<WebSocket>;

/// A text message of a viewer.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum FromViewer {
    Auth { token: String },
    Resize { cols: u32, rows: u32 },
}

/// Why a connection closes.
#[derive(Debug)]
struct Close {
    code: u16,
    reason: &'static str,
}

impl Close {
    const DISCONNECTED: Self = Self { code: 0, reason: "" };
    const ENDED: Self = Self { code: close_code::NORMAL, reason: "the terminal has ended" };
    const STOPPING: Self = Self { code: close_code::AWAY, reason: "the server is shutting down" };
    const NO_AUTH: Self =
        Self { code: UNAUTHENTICATED, reason: "the first message must be `auth` with a token" };
    const CROWDED: Self =
        Self { code: close_code::AGAIN, reason: "too many connections wait for their first message" };
    const WRONG_TOKEN: Self = Self { code: UNAUTHENTICATED, reason: "the token is wrong" };
    const OTHER_USER: Self = Self { code: FORBIDDEN, reason: "the terminal belongs to another user" };
    const NO_TERMINAL: Self = Self { code: UNKNOWN, reason: "there is no such terminal" };
    const FAILED: Self = Self { code: close_code::ERROR, reason: "the terminal cannot be reached" };

    /// For a connection to the terminal that has broken.
    fn broken(error: &ClientError) -> Self {
        debug!(error = error as &dyn StdError, "the connection to a terminal broke");
        Self::FAILED
    }
}

/// What a viewer is attached to.
struct View {
    events: TerminalEvents,
    keyboard: Keyboard,
    _attachment: Attachment,
}

/// `GET` of a terminal: a WebSocket if the client asks for an upgrade, otherwise its description.
pub(crate) async fn attach_or_inspect(
    State(server): State<Server>,
    axum::extract::Path(id): axum::extract::Path<String>,
    request: Request,
) -> Answer {
    let (mut head, _) = request.into_parts();
    let Ok(upgrade) = WebSocketUpgrade::from_request_parts(&mut head, &server).await else {
        let visitor = Visitor::from_request_parts(&mut head, &server).await?;
        return terminals::inspect(&visitor, &id).await;
    };
    let slot = server.unauthenticated.slot(server.shared.callers.source(&head));
    Ok(upgrade
        .max_message_size(MAX_MESSAGE_BYTES)
        .max_frame_size(MAX_MESSAGE_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(MAX_UNSENT_BYTES)
        .on_upgrade(move |socket| serve(socket, server, head, id, slot)))
}

/// Serves a connection. The head of its request keeps its share of the connection limit.
async fn serve(socket: WebSocket, server: Server, head: Parts, id: String, slot: Slot) {
    let (mut sender, mut receiver) = socket.split();
    let authenticated = tokio::select! {
        biased;
        authenticated = authenticate(&mut receiver, &server, &head) => authenticated,
        () = slot.evicted() => Err(Close::CROWDED),
        () = server.shutdown.cancelled() => Err(Close::STOPPING),
    };
    match authenticated {
        Ok(caller) => {
            drop(slot);
            let viewed = async {
                match attach(&server, &head, &caller, &id).await {
                    Ok(view) => carry(&mut sender, &mut receiver, view).await,
                    Err(close) => close,
                }
            };
            let close = tokio::select! {
                close = viewed => close,
                () = server.shutdown.cancelled() => Close::STOPPING,
            };
            say_goodbye(sender, receiver, close).await;
        }
        // It keeps its slot to the end. If it has lost the slot, nothing waits for its answer.
        Err(close) => tokio::select! {
            biased;
            () = say_goodbye(sender, receiver, close) => {}
            () = slot.evicted() => {}
        },
    }
    drop(head);
}

/// Waits for the first message, and checks its token.
async fn authenticate(receiver: &mut Receiver, server: &Server, head: &Parts) -> Result<Caller, Close> {
    let first = async {
        loop {
            match receiver.next().await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(text.as_str()).ok(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return None,
            }
        }
    };
    match timeout(AUTH, first).await {
        Ok(Some(FromViewer::Auth { token })) => {
            server.shared.callers.authenticate(head, token.trim()).map_err(|_| Close::WRONG_TOKEN)
        }
        _ => Err(Close::NO_AUTH),
    }
}

/// Finds the terminal and attaches to it. Only a user whom the request names can be another one: the id is enough.
async fn attach(server: &Server, head: &Parts, caller: &Caller, id: &str) -> Result<View, Close> {
    let address = Address::parse(id).ok_or(Close::NO_TERMINAL)?;
    let failed = |error: ClientError| {
        if is_gone(&error) {
            return Close::NO_TERMINAL;
        }
        warn!(error = &error as &dyn StdError, terminal = id, "the connection to a terminal failed");
        Close::FAILED
    };
    let key = caller.client.get(&address.sandbox).await.map_err(failed)?.session_key;
    if !Namespace::is_of_client(&caller.token_name, &key) {
        return Err(Close::NO_TERMINAL);
    }
    let user = access::user_of(&caller.token_name, &head.headers).map_err(|_| Close::OTHER_USER)?;
    if user.is_some_and(|namespace| !namespace.contains(&key)) {
        return Err(Close::OTHER_USER);
    }
    let attached = caller.client.attach_terminal(&address.sandbox, &address.terminal).await;
    let (events, keyboard) = attached.map_err(failed)?;
    let attachment = server.attachments.attach(&address, &caller.background);
    Ok(View { events, keyboard, _attachment: attachment })
}

/// Carries bytes until either side ends. The two directions run independently.
async fn carry(sender: &mut Sender, receiver: &mut Receiver, view: View) -> Close {
    let View { mut events, mut keyboard, _attachment } = view;
    let pinged = Notify::new();
    tokio::select! {
        close = receive(receiver, &mut keyboard, &pinged) => close,
        close = send(sender, &mut events, &pinged) => close,
    }
}

/// Passes input of the viewer to the terminal.
async fn receive(receiver: &mut Receiver, keyboard: &mut Keyboard, pinged: &Notify) -> Close {
    loop {
        let message = match timeout(SILENT, receiver.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(_)) | None) | Err(_) => return Close::DISCONNECTED,
        };
        let sent = match message {
            Message::Binary(data) => keyboard.type_in(data).await,
            Message::Text(text) => match serde_json::from_str(text.as_str()) {
                Ok(FromViewer::Resize { cols, rows }) => {
                    keyboard.resize(cols.clamp(1, MAX_COLS), rows.clamp(1, MAX_ROWS)).await
                }
                // Clients may send messages that later versions of the protocol define.
                _ => Ok(()),
            },
            // The library has queued the pong.
            Message::Ping(_) => {
                pinged.notify_one();
                Ok(())
            }
            Message::Pong(_) => Ok(()),
            Message::Close(_) => return Close::DISCONNECTED,
        };
        if let Err(error) = sent {
            return Close::broken(&error);
        }
    }
}

/// Passes output of the terminal to the viewer, and sends pings that detect a lost connection.
async fn send(sender: &mut Sender, events: &mut TerminalEvents, pinged: &Notify) -> Close {
    let mut pings = interval(PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings.reset();
    loop {
        let sent = tokio::select! {
            event = events.next() => match event {
                Some(Ok(TerminalEvent::Output(data))) => sender.send(Message::Binary(data)).await,
                Some(Ok(TerminalEvent::Exit { .. })) | None => return Close::ENDED,
                Some(Ok(TerminalEvent::Size { .. } | TerminalEvent::NotDone(_))) => Ok(()),
                Some(Err(error)) => return Close::broken(&error),
            },
            _ = pings.tick() => sender.send(Message::Ping(bytes::Bytes::new())).await,
            () = pinged.notified() => sender.flush().await,
        };
        if sent.is_err() {
            return Close::DISCONNECTED;
        }
    }
}

/// Sends a close frame and waits a short time for the viewer's, discarding other messages. Closing a socket with unread
/// data resets it, and the reset overtakes the last messages.
async fn say_goodbye(mut sender: Sender, mut receiver: Receiver, Close { code, reason }: Close) {
    if code == Close::DISCONNECTED.code {
        return;
    }
    let close = CloseFrame { code, reason: reason.into() };
    let goodbye = async {
        if sender.send(Message::Close(Some(close))).await.is_ok() {
            while let Some(Ok(_)) = receiver.next().await {}
        }
    };
    // Delivery of the close frame is best effort.
    let _ = timeout(CLOSE, goodbye).await;
}
