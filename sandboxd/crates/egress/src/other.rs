//! Protocols that are neither TLS nor HTTP/1, on ports that a rule names.
//!
//! Some servers of HTTP pass over control characters in or before a request. So a connection is another protocol's only
//! when its server has answered in another way, or when the first line that its client has sent is no request even
//! without such characters. Binary protocols wait for no line, so bytes pass while that is not known yet, but not the one
//! that would make a request of them.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use super::one_way::one_way;
use super::{Broken, Meter, request_line};
use sandboxd_metrics::Direction;
use sandboxd_model::limits;

/// What every answer of HTTP/1 begins with.
const ANSWER: &[u8] = b"HTTP/";

/// Carries what a client sends, of which `read` is there. `has_answered` is true as soon as its server has answered in
/// another way than HTTP does.
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

/// Carries what a server sends, unless it is an answer of HTTP.
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
