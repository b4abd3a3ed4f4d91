//! A page's connection to a terminal, with the messages of sandboxd: binary ones carry bytes in both directions, text messages
//! JSON.
//!
//! One message is in transit in each direction, so a page or a program that does not read delays its own terminal only.

use std::pin::pin;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use bash_tools::provider::{
    AttachedTerminal, FromTerminal, Result as Provided, TerminalInput, TerminalOutput, TerminalSize,
    ToTerminal,
};
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{Sink, SinkExt, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::places::Place;
use super::until_ended::Ended;

/// Maximum length of a message from a page in bytes: that of sandboxd.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Maximum amount of data that waits for a page, in bytes.
const MAX_UNSENT_BYTES: usize = 1024 * 1024;

/// How long a page may leave a message unread.
const STALLED_PAGE: Duration = Duration::from_secs(60);

/// Interval of pings, so that a page that is gone is found.
const PING: Duration = Duration::from_secs(30);

/// A page that has not even answered pings for this long is gone.
const SILENT_PAGE: Duration = Duration::from_secs(75);

/// Time for the last messages.
const CLOSE: Duration = Duration::from_secs(5);

/// Why a connection ends.
enum Closing {
    /// The terminal has ended, and the page knows.
    Ended,
    /// The page closed the connection or is gone.
    PageLeft,
    /// The connection to the terminal broke. The terminal may keep running.
    Broken,
    /// The session has ended.
    SessionEnded,
    /// The app stops.
    Stopping,
}

/// When a connection ends early.
pub(super) struct Until {
    pub(super) session_ended: Ended,
    pub(super) stop: CancellationToken,
}

/// What is held until a connection has ended.
type Held = (Place, TaskTrackerToken);

/// Accepts the upgrade and serves the connection until it ends.
pub(super) fn answer(
    upgrade: WebSocketUpgrade,
    attached: AttachedTerminal,
    until: Until,
    held: Held,
) -> Response {
    bounded(upgrade).on_upgrade(move |socket| async move {
        serve(socket, attached, until).await;
        drop(held);
    })
}

/// Accepts the upgrade, and says why there is no terminal.
pub(super) fn refuse(upgrade: WebSocketUpgrade, reason: String, shown: TaskTrackerToken) -> Response {
    bounded(upgrade).on_upgrade(move |socket| async move {
        let (mut sender, receiver) = socket.split();
        let refused = async {
            let _ = sender.send(text(&FromTerminal::Error { error: reason })).await;
            close(sender, receiver, Closing::Broken).await;
        };
        let _ = timeout(CLOSE, refused).await;
        drop(shown);
    })
}

fn bounded(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade
        .max_message_size(MAX_MESSAGE_BYTES)
        .max_frame_size(MAX_MESSAGE_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(MAX_UNSENT_BYTES)
}

async fn serve(socket: WebSocket, attached: AttachedTerminal, until: Until) {
    let AttachedTerminal { output, input } = attached;
    let (mut sender, mut receiver) = socket.split();
    let (faults, faults_to_send) = mpsc::channel(1);
    let closing = tokio::select! {
        () = until.session_ended => Closing::SessionEnded,
        () = until.stop.cancelled() => Closing::Stopping,
        closing = receive(&mut receiver, input, faults) => closing,
        closing = send(&mut sender, output, faults_to_send) => closing,
    };
    // A page that does not read gets no reason.
    let _ = timeout(CLOSE, close(sender, receiver, closing)).await;
}

/// Passes on what the page sends.
async fn receive(
    receiver: &mut SplitStream<WebSocket>,
    mut input: impl Sink<TerminalInput> + Unpin,
    faults: mpsc::Sender<&'static str>,
) -> Closing {
    loop {
        let Ok(Some(Ok(message))) = timeout(SILENT_PAGE, receiver.next()).await else {
            return Closing::PageLeft;
        };
        let typed = match message {
            Message::Binary(bytes) => TerminalInput::Bytes(bytes),
            Message::Text(text) => match serde_json::from_str(text.as_str()) {
                Ok(ToTerminal::Resize { cols, rows }) => TerminalInput::Resize(TerminalSize { cols, rows }),
                Err(_) => {
                    let fault = "a text message must be `resize` as JSON, with `cols` and `rows`";
                    if faults.send(fault).await.is_err() {
                        return Closing::PageLeft;
                    }
                    continue;
                }
            },
            // The library answers a ping, and keeps at most one answer.
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => return Closing::PageLeft,
        };
        if input.send(typed).await.is_err() {
            return Closing::Broken;
        }
    }
}

/// Passes on what the terminal sends, and sends pings.
async fn send(
    sender: &mut SplitSink<WebSocket, Message>,
    output: impl Stream<Item = Provided<TerminalOutput>>,
    mut faults: mpsc::Receiver<&'static str>,
) -> Closing {
    let mut output = pin!(output);
    let mut pings = interval(PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings.reset();
    loop {
        let (message, is_last) = tokio::select! {
            output = output.next() => match output {
                Some(Ok(TerminalOutput::Bytes(bytes))) => (Message::Binary(bytes), false),
                Some(Ok(TerminalOutput::Message(message))) => {
                    (text(&message), matches!(message, FromTerminal::Exit { .. }))
                }
                Some(Err(_)) | None => return Closing::Broken,
            },
            Some(fault) = faults.recv() => (text(&FromTerminal::Error { error: fault.to_owned() }), false),
            _ = pings.tick() => (Message::Ping(Bytes::new()), false),
        };
        match timeout(STALLED_PAGE, sender.send(message)).await {
            Ok(Ok(())) if is_last => return Closing::Ended,
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Closing::PageLeft,
        }
    }
}

/// Sends a close frame and waits for the page's, discarding other messages. Closing a socket with unread data resets it, and
/// the reset overtakes the last messages.
async fn close(
    mut sender: SplitSink<WebSocket, Message>,
    mut receiver: SplitStream<WebSocket>,
    closing: Closing,
) {
    let (code, reason) = match closing {
        Closing::PageLeft => return,
        Closing::Ended => (close_code::NORMAL, "the terminal has ended"),
        Closing::Broken => (close_code::AGAIN, "there is no connection to the terminal"),
        Closing::SessionEnded => (close_code::POLICY, "the session has ended"),
        Closing::Stopping => (close_code::AWAY, "the app is stopping; the terminal keeps running"),
    };
    let close = CloseFrame { code, reason: reason.into() };
    if sender.send(Message::Close(Some(close))).await.is_ok() {
        while let Some(Ok(_)) = receiver.next().await {}
    }
}

fn text(message: &FromTerminal) -> Message {
    Message::Text(serde_json::json!(message).to_string().into())
}
