//! Checks that a TLS handshake keeps the server name that it began with.
//!
//! A server may answer the first ClientHello with a HelloRetryRequest, and the client then sends a second one (RFC
//! 8446, section 4.1.4). The second one could contain another name, so it is checked like the first. Until the
//! server has accepted a hello, only records that may precede a second hello pass: early data, alerts and
//! change_cipher_spec. Any other handshake message waits for the server.

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use super::hello::{self, Hello};
use super::one_way::one_way;
use super::{Broken, Expected, Meter};
use sandboxd_metrics::Direction;
use sandboxd_model::limits;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const SERVER_HELLO: u8 = 2;

/// Type, version and length of a record.
const RECORD_HEAD: usize = 5;

/// Maximum content of an encrypted record, including the additions of TLS 1.2 (RFC 5246, section 6.2.3).
const MAX_CONTENT: usize = (1 << 14) + 2048;

/// Type and length of a handshake message, the version of a ServerHello, and its random.
const SERVER_HELLO_HEAD: usize = 4 + 2 + 32;

/// The random of a ServerHello that is a HelloRetryRequest (RFC 8446, section 4.1.3).
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// The server's reaction to the client's hellos.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Verdict {
    /// Number of further hellos that it has requested.
    retries: usize,
    /// Whether it has accepted the last hello.
    is_settled: bool,
    /// Whether it does not speak TLS.
    is_other: bool,
}

/// Reads a server's records up to its hello.
#[derive(Debug, Default)]
pub(super) struct ServerHellos {
    verdict: Verdict,
    /// The beginning of a record.
    head: Vec<u8>,
    /// Type of the record, and its remaining bytes.
    record: Option<(u8, usize)>,
    /// The beginning of a message.
    message: Vec<u8>,
    /// Remaining bytes of a message whose beginning is known.
    rest_of_message: usize,
}

impl ServerHellos {
    /// Takes the server's next bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Verdict {
        while !bytes.is_empty() && !self.is_over() {
            match self.record {
                Some((_, 0)) => self.record = None,
                Some((kind, left)) => {
                    let (content, rest) = bytes.split_at(left.min(bytes.len()));
                    self.record = Some((kind, left - content.len()));
                    if kind == HANDSHAKE {
                        self.read_messages(content);
                    }
                    bytes = rest;
                }
                None => {
                    let (head, rest) = bytes.split_at((RECORD_HEAD - self.head.len()).min(bytes.len()));
                    self.head.extend_from_slice(head);
                    bytes = rest;
                    self.begin_record();
                }
            }
        }
        self.verdict
    }

    pub(super) fn is_over(&self) -> bool {
        self.verdict.is_settled || self.verdict.is_other
    }

    fn begin_record(&mut self) {
        let may_be = |kind: u8| matches!(kind, CHANGE_CIPHER_SPEC | ALERT | HANDSHAKE);
        match record_of(&self.head) {
            Ok(None) => {}
            Ok(Some((kind, length))) if may_be(kind) => {
                self.record = Some((kind, length));
                self.head.clear();
            }
            Ok(Some(_)) | Err(NoRecord) => self.verdict.is_other = true,
        }
    }

    fn read_messages(&mut self, mut content: &[u8]) {
        while !content.is_empty() && !self.is_over() {
            let passed = self.rest_of_message.min(content.len());
            self.rest_of_message -= passed;
            content = &content[passed..];
            let (head, rest) = content.split_at((SERVER_HELLO_HEAD - self.message.len()).min(content.len()));
            self.message.extend_from_slice(head);
            content = rest;
            if self.message.first().is_some_and(|kind| *kind != SERVER_HELLO) {
                self.verdict.is_other = true;
            } else if self.message.len() == SERVER_HELLO_HEAD {
                self.read_hello();
            }
        }
    }

    fn read_hello(&mut self) {
        let message = std::mem::take(&mut self.message);
        let length = message[1..4].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        match (4 + length).checked_sub(SERVER_HELLO_HEAD) {
            None => self.verdict.is_other = true,
            Some(rest) if message[6..] == RETRY_RANDOM => {
                self.verdict.retries += 1;
                self.rest_of_message = rest;
            }
            Some(_) => self.verdict.is_settled = true,
        }
    }
}

/// The bytes are not a TLS record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRecord;

/// Type and length of the record that begins with these bytes. `None` if more bytes are needed.
fn record_of(bytes: &[u8]) -> Result<Option<(u8, usize)>, NoRecord> {
    if bytes.get(1).is_some_and(|major| *major != 3) {
        return Err(NoRecord);
    }
    let [kind, _, _, high, low, ..] = *bytes else { return Ok(None) };
    let length = usize::from(high) << 8 | usize::from(low);
    if length == 0 || length > MAX_CONTENT { Err(NoRecord) } else { Ok(Some((kind, length))) }
}

/// Copies what a server sends. Publishes its verdict before the client receives the bytes.
pub(super) async fn from_server(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    verdict: watch::Sender<Verdict>,
    meter: &Meter,
) -> Result<(), Broken> {
    let mut hellos = ServerHellos::default();
    let mut part = vec![0; limits::EGRESS_PART_BYTES];
    while !hellos.is_over() {
        let length = from.read(&mut part).await?;
        if length == 0 {
            return Ok(to.shutdown().await?);
        }
        verdict.send_replace(hellos.read(&part[..length]));
        to.write_all(&part[..length]).await?;
        meter.moved(Direction::In, length);
    }
    drop(part);
    Ok(one_way(from, to, Direction::In, meter).await?)
}

/// Copies what a client sends. `read` holds the bytes that were already read; the first hello is in the first
/// `hello` bytes.
pub(super) async fn from_client<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    from: R,
    to: W,
    (read, hello): (BytesMut, usize),
    expected: &Expected,
    (verdict, meter): (watch::Receiver<Verdict>, &Meter),
) -> Result<(), Broken> {
    let mut client = Client { from, to, read, verdict, meter, answered: 0 };
    client.forward(hello).await?;
    if client.until_settled(expected).await? {
        let Client { from, to, read, .. } = client;
        let read = read.freeze();
        Ok(one_way(AsyncReadExt::chain(&read[..], from), to, Direction::Out, meter).await?)
    } else {
        Ok(client.to.shutdown().await?)
    }
}

struct Client<'a, R, W> {
    from: R,
    to: W,
    read: BytesMut,
    verdict: watch::Receiver<Verdict>,
    meter: &'a Meter,
    /// Retries that the client has answered with a hello.
    answered: usize,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Client<'_, R, W> {
    /// Waits until the server has accepted a hello. False if the client has closed the connection.
    async fn until_settled(&mut self, expected: &Expected) -> Result<bool, Broken> {
        loop {
            let verdict = *self.verdict.borrow_and_update();
            if verdict.is_settled {
                return Ok(true);
            }
            if verdict.is_other && !self.read.is_empty() {
                return Err(Broken::Mismatch);
            }
            let has_record = match record_of(&self.read).map_err(|NoRecord| Broken::Mismatch)? {
                None => false,
                Some((HANDSHAKE, _)) if verdict.retries > self.answered => {
                    self.forward_hello(expected).await?
                }
                Some((HANDSHAKE, _)) => {
                    // The sender is dropped when the server closes the connection.
                    let closed = |_| std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                    self.verdict.changed().await.map_err(closed)?;
                    true
                }
                Some((CHANGE_CIPHER_SPEC | ALERT | APPLICATION_DATA, length)) => {
                    let is_whole = self.read.len() >= RECORD_HEAD + length;
                    if is_whole {
                        self.forward(RECORD_HEAD + length).await?;
                    }
                    is_whole
                }
                Some(_) => return Err(Broken::Mismatch),
            };
            if !has_record && self.from.read_buf(&mut self.read).await? == 0 {
                // An incomplete record is discarded.
                return Ok(false);
            }
        }
    }

    /// Forwards a hello. False if it is incomplete.
    async fn forward_hello(&mut self, expected: &Expected) -> Result<bool, Broken> {
        match hello::read(&self.read) {
            Hello::Incomplete if self.read.len() < limits::MAX_INSPECTED_BYTES => Ok(false),
            Hello::Complete { name, length } if expected.is_for(name.as_deref()) => {
                self.answered += 1;
                self.forward(length).await?;
                Ok(true)
            }
            Hello::Incomplete | Hello::Malformed | Hello::Complete { .. } => Err(Broken::Mismatch),
        }
    }

    async fn forward(&mut self, length: usize) -> Result<(), Broken> {
        self.to.write_all(&self.read[..length]).await?;
        self.read.advance(length);
        self.meter.moved(Direction::Out, length);
        Ok(())
    }
}
