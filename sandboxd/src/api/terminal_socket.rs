//! A terminal over a WebSocket (RFC 6455): binary messages carry bytes in both directions, text messages JSON.
//!
//! The two directions run independently, so a program that does not read its input does not block its output. The
//! connection counts against the connection limit until it ends. A shutdown closes it at once, because the terminal
//! keeps running and the viewer can reconnect.

use std::error::Error as _;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use sandbox_api::terminal::{FromTerminal, ToTerminal};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite;

use super::server::Held;
use crate::model::command::signal_name;
use crate::model::terminal::TerminalEnded;
use crate::model::{FieldError, TerminalEvent, TerminalSize, limits};
use crate::service::{TerminalHandle, TerminalView};

type Sender = SplitSink<WebSocket, Message>;
type Receiver = SplitStream<WebSocket>;

/// Why a viewer's connection closes.
enum CloseReason {
    /// The terminal has ended, and the viewer was notified.
    Ended,
    /// The viewer closed the connection or disappeared.
    Disconnected,
    /// The viewer sent too large a message.
    TooLarge,
    /// The viewer sent pings and did not read the responses.
    UnreadPongs,
    /// The daemon shuts down.
    Stopping,
}

/// Accepts the upgrade and serves the connection until it ends.
pub(super) fn answer(upgrade: WebSocketUpgrade, view: TerminalView, held: Held) -> Response {
    upgrade
        .max_message_size(limits::MAX_TERMINAL_INPUT_BYTES)
        .max_frame_size(limits::MAX_TERMINAL_INPUT_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(limits::MAX_VIEWER_UNSENT_BYTES)
        .on_upgrade(|socket| serve(socket, view, held))
}

async fn serve(socket: WebSocket, view: TerminalView, held: Held) {
    let (mut sender, mut receiver) = socket.split();
    let (errors, errors_to_send) = mpsc::channel(limits::MAX_VIEWER_ANSWERS);
    let (pings, pongs) = mpsc::channel(limits::MAX_VIEWER_PINGS);
    let handle = view.handle();
    let reason = tokio::select! {
        () = held.stopping.cancelled() => CloseReason::Stopping,
        reason = receive(&mut receiver, &handle, &errors, &pings) => reason,
        reason = send(&mut sender, view, errors_to_send, pongs) => reason,
    };
    // Delivery of the close frame is best effort.
    let _ = timeout(limits::VIEWER_CLOSE, close(sender, receiver, reason)).await;
}

/// Handles messages from the viewer.
async fn receive(
    receiver: &mut Receiver,
    handle: &TerminalHandle,
    errors: &mpsc::Sender<String>,
    pings: &mpsc::Sender<()>,
) -> CloseReason {
    loop {
        let message = match timeout(limits::SILENT_VIEWER, receiver.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(error))) if is_too_large(&error) => return CloseReason::TooLarge,
            Ok(Some(Err(_)) | None) | Err(_) => return CloseReason::Disconnected,
        };
        let done = match message {
            Message::Binary(data) => handle.type_in(data).await.map_err(|error| error.to_string()),
            Message::Text(text) => control(handle, text.as_str()).await,
            // The library has queued the pong. `send` flushes it.
            Message::Ping(_) => match timeout(limits::UNREAD_PONGS, pings.send(())).await {
                Ok(_) => Ok(()),
                Err(_) => return CloseReason::UnreadPongs,
            },
            Message::Pong(_) => Ok(()),
            Message::Close(_) => return CloseReason::Disconnected,
        };
        if let Err(error) = done
            && errors.send(error).await.is_err()
        {
            return CloseReason::Disconnected;
        }
    }
}

async fn control(handle: &TerminalHandle, text: &str) -> Result<(), String> {
    let ToTerminal::Resize { cols, rows } = serde_json::from_str(text)
        .map_err(|_| "a text message must be `resize` as JSON, with `cols` and `rows`")?;
    let size = TerminalSize::new(cols, rows).map_err(|fault: FieldError| fault.to_string())?;
    handle.resize(size).await.map_err(|error| error.to_string())
}

/// Sends messages to the viewer, and regular pings that detect a lost connection.
async fn send(
    sender: &mut Sender,
    mut view: TerminalView,
    mut errors: mpsc::Receiver<String>,
    mut pongs: mpsc::Receiver<()>,
) -> CloseReason {
    let mut pings = interval(limits::TERMINAL_PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings.reset();
    loop {
        let message = tokio::select! {
            event = view.next() => match event {
                Some(TerminalEvent::Output { data, .. }) => Message::Binary(data),
                Some(TerminalEvent::Size(TerminalSize { cols, rows })) => {
                    text(&FromTerminal::Size { cols, rows })
                }
                Some(TerminalEvent::Ended(ended)) => {
                    let _ = sender.send(text(&exit(ended))).await;
                    return CloseReason::Ended;
                }
                None => return CloseReason::Ended,
            },
            Some(error) = errors.recv() => text(&FromTerminal::Error { error }),
            _ = pings.tick() => Message::Ping(bytes::Bytes::new()),
            Some(()) = pongs.recv() => {
                if sender.flush().await.is_err() {
                    return CloseReason::Disconnected;
                }
                continue;
            }
        };
        if sender.send(message).await.is_err() {
            return CloseReason::Disconnected;
        }
    }
}

/// Sends a close frame and waits for the viewer's, discarding other messages. Closing a socket with unread data
/// resets it, and the reset overtakes the last messages.
async fn close(mut sender: Sender, mut receiver: Receiver, reason: CloseReason) {
    let (code, reason) = match reason {
        CloseReason::Disconnected => return,
        CloseReason::Ended => (close_code::NORMAL, "the terminal has ended"),
        CloseReason::UnreadPongs => (close_code::POLICY, "too many pings whose pongs were not read"),
        CloseReason::TooLarge => (close_code::SIZE, "a message exceeds the maximum length of input"),
        CloseReason::Stopping => {
            (close_code::AWAY, "the daemon is shutting down; the terminal keeps running")
        }
    };
    let close = CloseFrame { code, reason: reason.into() };
    if sender.send(Message::Close(Some(close))).await.is_ok() {
        while let Some(Ok(_)) = receiver.next().await {}
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<tungstenite::Error>());
    matches!(cause, Some(tungstenite::Error::Capacity(_)))
}

fn exit(ended: TerminalEnded) -> FromTerminal {
    FromTerminal::Exit {
        exit_code: ended.exit_code,
        signal: ended.signal.map(signal_name),
        reason: ended.reason,
    }
}

fn text(message: &FromTerminal) -> Message {
    let json = serde_json::to_string(message).expect("messages have string keys and finite numbers");
    Message::Text(json.into())
}
