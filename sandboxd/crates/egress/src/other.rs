//! Protocols other than TLS and HTTP/1, on ports that a rule names.
//!
//! Some HTTP servers ignore control characters in or before a request. A connection therefore counts as another
//! protocol only in two cases. Its server has sent a response that is not HTTP, or the first line of its client is
//! not a request even without such characters. Binary protocols do not wait for a line. So bytes pass while the
//! protocol is not known yet, except the byte that would complete a request.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use super::one_way::one_way;
use super::{Broken, Meter, request_line};
use sandboxd_metrics::Direction;
use sandboxd_model::limits;

/// Beginning of every HTTP/1 response.
const ANSWER: &[u8] = b"HTTP/";

/// Copies what a client sends. `read` holds the bytes that were already read. `has_answered` becomes true when the
/// server has sent a response that is not HTTP.
pub(super) async fn from_client(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut read: BytesMut,
    has_answered: watch::Receiver<bool>,
    meter: &Meter,
) -> Result<(), Broken> {
    let mut passed = 0;
    loop {
        let is_known = *has_answered.borrow() || read.len() >= limits::MAX_INSPECTED_BYTES;
        match request_line::is_hidden(&read) {
            Some(true) if !is_known => return Err(Broken::Mismatch),
            Some(false) => break,
            _ if is_known => break,
            _ => {}
        }
        to.write_all(&read[passed..]).await?;
        meter.moved(Direction::Out, read.len() - passed);
        passed = read.len();
        if from.read_buf(&mut read).await? == 0 {
            return Ok(to.shutdown().await?);
        }
    }
    let rest = read.split_off(passed).freeze();
    Ok(one_way(AsyncReadExt::chain(&rest[..], from), to, Direction::Out, meter).await?)
}

/// Copies what a server sends, unless it is an HTTP response.
pub(super) async fn from_server(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    has_answered: watch::Sender<bool>,
    meter: &Meter,
) -> Result<(), Broken> {
    let mut first = BytesMut::with_capacity(limits::EGRESS_PART_BYTES);
    while first.len() < ANSWER.len() && ANSWER.starts_with(&first) {
        if from.read_buf(&mut first).await? == 0 {
            break;
        }
    }
    if first.starts_with(ANSWER) {
        return Err(Broken::Mismatch);
    }
    has_answered.send_replace(!first.is_empty());
    let first: Bytes = first.freeze();
    if first.is_empty() {
        return Ok(to.shutdown().await?);
    }
    to.write_all(&first).await?;
    meter.moved(Direction::In, first.len());
    drop(first);
    Ok(one_way(from, to, Direction::In, meter).await?)
}
