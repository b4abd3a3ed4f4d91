//! Bytes in one direction of a connection.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Meter;
use sandboxd_metrics::Direction;
use sandboxd_model::limits;

/// Copies until the end of the input, and then ends the output.
pub(super) async fn one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    direction: Direction,
    meter: &Meter,
) -> io::Result<()> {
    let mut part = vec![0; limits::EGRESS_PART_BYTES];
    loop {
        let length = from.read(&mut part).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&part[..length]).await?;
        meter.moved(direction, length);
    }
}
