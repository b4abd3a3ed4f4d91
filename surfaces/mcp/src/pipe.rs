//! A transport on a pair of byte streams, such as standard input and output.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, ErrorData, GetMeta, ProtocolVersion, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::framing::{Decoder, Frame, Framing, MAX_MESSAGE_BYTES};

/// Number of messages that wait for the host to read them. Further ones wait at their sender.
const MAX_WAITING: usize = 16;

/// Time in which the host may read the last messages after it has closed the input.
const LAST_MESSAGES: Duration = Duration::from_secs(2);

/// The answer to a frame that is not a message.
type Refused = TxJsonRpcMessage<RoleServer>;

/// Exchanges messages with one host.
pub(crate) struct Pipe<R> {
    input: BufReader<R>,
    decoder: Decoder,
    /// Set with the first message. The output uses it too.
    framing: Arc<OnceLock<Framing>>,
    output: Option<Sender<Vec<u8>>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    /// An answer to a message that is not a request. It is sent before the next message is read.
    refusal: Option<Vec<u8>>,
    is_open: bool,
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    /// Starts a task that writes to `output`.
    pub(crate) fn new(input: R, output: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, receiver) = channel(MAX_WAITING);
        Self {
            input: BufReader::new(input),
            decoder: Decoder::default(),
            framing: Arc::default(),
            output: Some(sender),
            writer: Some(tokio::spawn(write(receiver, output))),
            refusal: None,
            is_open: false,
        }
    }

    /// The next frame. `None` at the end of the input. Keeps its progress if it is cancelled.
    async fn frame(&mut self) -> Option<Frame> {
        loop {
            let bytes = match self.input.fill_buf().await {
                Ok(bytes) if !bytes.is_empty() => bytes,
                // A host whose end of the pipe cannot be read has gone.
                Ok(_) | Err(_) => return None,
            };
            let (taken, frame) = self.decoder.take(bytes);
            self.input.consume(taken);
            if let Some(framing) = self.decoder.framing() {
                self.framing.get_or_init(|| framing);
            }
            if frame.is_some() {
                return frame;
            }
        }
    }

    /// The message of a frame. A frame without one leaves its answer in `refusal`.
    fn accept(&mut self, frame: Frame) -> Option<RxJsonRpcMessage<RoleServer>> {
        let refused = match frame {
            Frame::Message(text) => match decode(&text) {
                Decoded::Message(message) => {
                    let is_request = matches!(*message, RxJsonRpcMessage::<RoleServer>::Request(_));
                    self.is_open |= opens(&message);
                    // Before the connection is open, notifications and responses mean nothing.
                    return Some(*message).filter(|_| is_request || self.is_open);
                }
                Decoded::Unknown => return None,
                Decoded::Invalid(error, id) => Refused::error(error, id),
            },
            Frame::TooLarge => {
                let problem = format!("the message is larger than {MAX_MESSAGE_BYTES} bytes");
                Refused::error(ErrorData::invalid_request(problem, None), None)
            }
            Frame::NoLength => {
                Refused::error(ErrorData::parse_error("the headers have no Content-Length", None), None)
            }
        };
        self.refusal = Some(encode(&self.framing, &refused));
        None
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for Pipe<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = self.output.clone();
        let framing = Arc::clone(&self.framing);
        async move {
            let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
            output.ok_or_else(closed)?.send(encode(&framing, &message)).await.map_err(|_| closed())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let output = self.output.clone()?;
            if self.refusal.is_some() {
                let permit = output.reserve().await.ok()?;
                if let Some(refusal) = self.refusal.take() {
                    permit.send(refusal);
                }
            }
            let frame = tokio::select! {
                frame = self.frame() => frame?,
                // A host that no longer reads needs no answers, even if another process holds its end of the input.
                () = output.closed() => return None,
            };
            if let Some(message) = self.accept(frame) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output = None;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        match timeout(LAST_MESSAGES, writer).await {
            Ok(written) => written.unwrap_or_else(|error| Err(error.into())),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

async fn write(mut messages: Receiver<Vec<u8>>, mut output: impl AsyncWrite + Unpin) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        output.write_all(&message).await?;
        output.flush().await?;
    }
    Ok(())
}

fn encode(framing: &OnceLock<Framing>, message: &TxJsonRpcMessage<RoleServer>) -> Vec<u8> {
    let framing = framing.get().copied().unwrap_or(Framing::Lines);
    // Messages have string keys and finite numbers, so they can always be serialized.
    framing.encode(&serde_json::to_vec(message).unwrap_or_default())
}

/// Whether the message opens a connection: the handshake, or the first modern request. `server/discover` does not.
fn opens(message: &RxJsonRpcMessage<RoleServer>) -> bool {
    let RxJsonRpcMessage::<RoleServer>::Request(message) = message else { return false };
    match &message.request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::DiscoverRequest(_) => false,
        request => {
            let meta = request.get_meta();
            let is_complete = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty();
            let version = meta.protocol_version();
            is_complete && version.is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version))
        }
    }
}

/// The content of a frame.
enum Decoded {
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// A notification that the protocol does not have. It gets no answer.
    Unknown,
    /// Anything else, with its id.
    Invalid(ErrorData, Option<RequestId>),
}

fn decode(text: &[u8]) -> Decoded {
    if let Ok(message) = serde_json::from_slice(text) {
        return Decoded::Message(Box::new(message));
    }
    let value: Value = match serde_json::from_slice(text) {
        Ok(value) => value,
        Err(error) => {
            let problem = format!("the message is not JSON at column {}", error.column());
            return Decoded::Invalid(ErrorData::parse_error(problem, None), None);
        }
    };
    let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    if id.is_none() && value.get("method").is_some_and(Value::is_string) {
        return Decoded::Unknown;
    }
    let problem = "the message is not a request, notification or response";
    Decoded::Invalid(ErrorData::invalid_request(problem, None), id)
}
