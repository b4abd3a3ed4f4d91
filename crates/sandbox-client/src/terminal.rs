//! Terminals, and connections to them over a WebSocket.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, Stream, StreamExt};
use http::Method;
use sandbox_api::command::EndReason;
use sandbox_api::error::ErrorBody;
use sandbox_api::terminal::{
    FromTerminal, OpenTerminal, ResizeTerminal, Terminal, TerminalList, TerminalOpened, ToTerminal,
};
use sandbox_api::{Done, SandboxId, TOKEN_HEADER, TerminalId};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::deadlines::{ACT, LOOK};
use crate::request::{json, retry_after};
use crate::{Client, Connection, Error};

type Socket = WebSocketStream<Box<dyn Connection>>;

/// Deadline for input. The daemon gives the program five seconds to read it.
const TYPE: Duration = LOOK;

impl Client {
    /// Opens a terminal and returns when its program runs. Not safe to repeat: each call opens one.
    pub async fn open_terminal(
        &self,
        sandbox: &SandboxId,
        body: &OpenTerminal,
    ) -> Result<TerminalOpened, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/terminals"), body), ACT).await
    }

    /// Returns the terminals of a sandbox, newest first, without their screens.
    pub async fn terminals(&self, sandbox: &SandboxId) -> Result<TerminalList, Error> {
        json(self.request(Method::GET, &format!("/v1/sandboxes/{sandbox}/terminals")), ACT).await
    }

    /// Returns a terminal with its screen.
    pub async fn terminal(&self, sandbox: &SandboxId, terminal: &TerminalId) -> Result<Terminal, Error> {
        json(self.request(Method::GET, &path_of(sandbox, terminal)), ACT).await
    }

    /// Resizes a terminal. Safe to repeat.
    pub async fn resize_terminal(
        &self,
        sandbox: &SandboxId,
        terminal: &TerminalId,
        size: ResizeTerminal,
    ) -> Result<Done, Error> {
        json(self.post(&format!("{}:resize", path_of(sandbox, terminal)), &size), ACT).await
    }

    /// Types up to 64 KiB into a terminal. Fails with `wrong_state` if it has ended or its program does not read.
    /// `takenBytes` in the details is the number of bytes read.
    pub async fn type_into(
        &self,
        sandbox: &SandboxId,
        terminal: &TerminalId,
        data: impl Into<Bytes>,
    ) -> Result<Done, Error> {
        let request = self.request(Method::POST, &format!("{}/input", path_of(sandbox, terminal)));
        json(request.body(data.into()), ACT).await
    }

    /// Ends a terminal with everything started from it, and removes it. Returns when no process of it is left.
    pub async fn close_terminal(&self, sandbox: &SandboxId, terminal: &TerminalId) -> Result<Done, Error> {
        json(self.request(Method::DELETE, &path_of(sandbox, terminal)), ACT).await
    }

    /// Connects to a terminal until it ends or either half is dropped. The terminal keeps running without it. The
    /// kept output comes first.
    ///
    /// ```no_run
    /// use futures::StreamExt;
    /// use sandbox_api::terminal::OpenTerminal;
    /// use sandbox_client::{Client, TerminalEvent};
    ///
    /// # async fn example(client: Client, sandbox: sandbox_api::SandboxId) -> Result<(), sandbox_client::Error> {
    /// let terminal = client.open_terminal(&sandbox, &OpenTerminal::default()).await?.terminal_id;
    /// let (mut events, mut keyboard) = client.attach_terminal(&sandbox, &terminal).await?;
    /// keyboard.resize(100, 40).await?;
    /// keyboard.type_in("echo hello; exit\r").await?;
    /// while let Some(event) = events.next().await {
    ///     match event? {
    ///         TerminalEvent::Output(bytes) => print!("{}", String::from_utf8_lossy(&bytes)),
    ///         TerminalEvent::Exit { exit_code, .. } => println!("it ended with {exit_code}"),
    ///         TerminalEvent::Size { .. } | TerminalEvent::NotDone(_) => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn attach_terminal(
        &self,
        sandbox: &SandboxId,
        terminal: &TerminalId,
    ) -> Result<(TerminalEvents, Keyboard), Error> {
        let path = path_of(sandbox, terminal);
        let base = self.transport.websocket_base();
        let mut request = format!("{base}{path}/attach").into_client_request().map_err(broken)?;
        let token = HeaderValue::from_str(&self.token).map_err(|error| broken(error.into()))?;
        request.headers_mut().insert(TOKEN_HEADER, token);
        let connect = async {
            let connection = self.transport.connect().await.map_err(Error::Broken)?;
            match client_async(request, connection).await {
                Ok((socket, _)) => Ok(socket),
                Err(tungstenite::Error::Http(response)) => Err(refused(&response)),
                Err(error) => Err(broken(error)),
            }
        };
        let socket = timeout(ACT, connect).await.unwrap_or(Err(Error::SocketDeadline { after: ACT }))?;
        let (sink, stream) = socket.split();
        Ok((TerminalEvents { stream, done: false }, Keyboard { sink }))
    }
}

fn path_of(sandbox: &SandboxId, terminal: &TerminalId) -> String {
    format!("/v1/sandboxes/{sandbox}/terminals/{terminal}")
}

fn broken(error: tungstenite::Error) -> Error {
    Error::SocketBroken(Box::new(error))
}

fn refused(response: &tungstenite::http::Response<Option<Vec<u8>>>) -> Error {
    let (status, retry_after) = (response.status().as_u16(), retry_after(response.headers()));
    let body = response.body().as_deref().unwrap_or_default();
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) => Error::Refused { status, body: Box::new(body), retry_after },
        Err(_) => Error::Foreign { status },
    }
}

/// An event of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalEvent {
    /// Size of the terminal. Sent first, and after every change.
    Size {
        /// Number of columns.
        cols: u32,
        /// Number of rows.
        rows: u32,
    },
    /// Output, for a terminal emulator.
    Output(Bytes),
    /// An input or a resize was rejected. The terminal keeps running.
    NotDone(String),
    /// Last event: how the program ended.
    Exit {
        /// Exit code, as a shell would report it.
        exit_code: i32,
        /// Signal that ended the program, such as `SIGHUP`.
        signal: Option<String>,
        /// Why the program ended. `lost` if its sandbox stopped.
        reason: EndReason,
    },
}

/// Events of a terminal, in order. If the connection breaks before the terminal ends, the last item is an error. It
/// must be read to keep the connection open, because the daemon sends pings.
pub struct TerminalEvents {
    stream: SplitStream<Socket>,
    done: bool,
}

impl Stream for TerminalEvents {
    type Item = Result<TerminalEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.done {
            let heard = match std::task::ready!(self.stream.poll_next_unpin(context)) {
                Some(Ok(Message::Binary(data))) => Ok(TerminalEvent::Output(data)),
                Some(Ok(Message::Text(text))) => event_of(text.as_str()),
                Some(Ok(Message::Close(frame))) => {
                    Err(Error::SocketClosed { code: frame.map(|frame| frame.code.into()) })
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
                Some(Err(error)) => Err(broken(error)),
                None => Err(Error::SocketClosed { code: None }),
            };
            self.done = matches!(heard, Err(_) | Ok(TerminalEvent::Exit { .. }));
            return Poll::Ready(Some(heard));
        }
        Poll::Ready(None)
    }
}

impl std::fmt::Debug for TerminalEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TerminalEvents").field("done", &self.done).finish_non_exhaustive()
    }
}

fn event_of(text: &str) -> Result<TerminalEvent, Error> {
    Ok(match serde_json::from_str(text).map_err(Error::BadMessage)? {
        FromTerminal::Size { cols, rows } => TerminalEvent::Size { cols, rows },
        FromTerminal::Error { error } => TerminalEvent::NotDone(error),
        FromTerminal::Exit { exit_code, signal, reason } => TerminalEvent::Exit { exit_code, signal, reason },
    })
}

/// Input side of a connection to a terminal.
pub struct Keyboard {
    sink: SplitSink<Socket, Message>,
}

impl Keyboard {
    /// Types up to 64 KiB. Returns when the data is sent. An event reports input that the program does not read.
    pub async fn type_in(&mut self, data: impl Into<Bytes>) -> Result<(), Error> {
        self.send(Message::Binary(data.into())).await
    }

    /// Resizes the terminal.
    pub async fn resize(&mut self, cols: u32, rows: u32) -> Result<(), Error> {
        let message = ToTerminal::Resize { cols, rows };
        let json = serde_json::to_string(&message).map_err(Error::BadMessage)?;
        self.send(Message::Text(json.into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Error> {
        match timeout(TYPE, self.sink.send(message)).await {
            Ok(sent) => sent.map_err(broken),
            Err(_) => Err(Error::SocketDeadline { after: TYPE }),
        }
    }
}

impl std::fmt::Debug for Keyboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyboard").finish_non_exhaustive()
    }
}
