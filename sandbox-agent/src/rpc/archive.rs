//! Passes an archive from its sender to the thread that unpacks it.
//!
//! The thread serves one caller until the archive has ended, because a read of an archive cannot be suspended. These
//! threads are therefore few and separate from the others. A slow sender delays only other archives. A sender that
//! sends nothing is rejected after a timeout.

use std::io::{self, Read};

use agent_protocol::fault::{Kind, to_status};
use agent_protocol::v1::UnpackPart;
use bytes::{Buf, Bytes};
use futures::stream::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Status;

use crate::files::path::invalid;
use crate::limits::UNPACK_SILENCE;

/// Number of parts buffered between the connection and the thread.
const PART_QUEUE: usize = 4;

/// An archive that a thread reads.
pub(super) struct ArchiveReader {
    parts: mpsc::Receiver<(Bytes, bool)>,
    rest: Bytes,
    /// The last part has arrived.
    is_complete: bool,
}

/// Sends the parts to the thread.
pub(super) struct Sender(mpsc::Sender<(Bytes, bool)>);

pub(super) fn channel() -> (Sender, ArchiveReader) {
    let (sender, parts) = mpsc::channel(PART_QUEUE);
    (Sender(sender), ArchiveReader { parts, rest: Bytes::new(), is_complete: false })
}

/// Returns the next part. Fails if it does not arrive in time.
pub(super) async fn next_part(
    parts: &mut (impl Stream<Item = Result<UnpackPart, Status>> + Unpin),
) -> Result<UnpackPart, Status> {
    let cut_off = || to_status(invalid("archive", "ended in the middle"));
    match timeout(UNPACK_SILENCE, parts.next()).await {
        Ok(part) => part.ok_or_else(cut_off)?,
        Err(_) => Err(to_status(stalled())),
    }
}

fn stalled() -> Kind {
    invalid("archive", format!("stalled: no data arrived for {UNPACK_SILENCE:?}"))
}

impl Sender {
    /// Passes on `first` and all parts that follow. If the last part is missing, dropping the channel makes the
    /// thread see an incomplete archive.
    pub(super) async fn send_all(
        self,
        first: UnpackPart,
        mut parts: impl Stream<Item = Result<UnpackPart, Status>> + Unpin,
    ) -> Result<(), Status> {
        let mut part = first;
        loop {
            // The receiver is gone if the call was answered already.
            if self.0.send((part.data, part.end)).await.is_err() || part.end {
                return Ok(());
            }
            part = next_part(&mut parts).await?;
        }
    }
}

impl Read for ArchiveReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            if self.is_complete {
                return Ok(0);
            }
            let part = self.parts.blocking_recv().ok_or(io::ErrorKind::UnexpectedEof)?;
            (self.rest, self.is_complete) = part;
        }
        let length = self.rest.len().min(buffer.len());
        self.rest.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use agent_protocol::fault::from_status;
    use futures::stream;
    use tokio::task::spawn_blocking;

    use super::*;

    fn part(data: &'static str, end: bool) -> UnpackPart {
        UnpackPart { data: Bytes::from_static(data.as_bytes()), end, ..UnpackPart::default() }
    }

    fn read(mut received: ArchiveReader) -> tokio::task::JoinHandle<io::Result<String>> {
        spawn_blocking(move || {
            let mut text = String::new();
            received.read_to_string(&mut text).map(|_| text)
        })
    }

    #[tokio::test]
    async fn an_archive_is_complete_only_with_its_last_part() {
        let (sending, received) = channel();
        let parts = stream::iter([Ok(part("b", false)), Ok(part("", false)), Ok(part("c", true))]);
        sending.send_all(part("a", false), parts).await.unwrap();
        assert_eq!(read(received).await.unwrap().unwrap(), "abc");

        let (sending, received) = channel();
        let ended = sending.send_all(part("a", false), stream::iter([Ok(part("b", false))])).await;
        assert!(matches!(from_status(&ended.unwrap_err()), Some(Kind::FieldInvalid(_))));
        assert_eq!(read(received).await.unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_sender_is_rejected() {
        let (sending, received) = channel();
        let began = tokio::time::Instant::now();
        let ended = sending.send_all(part("a", false), stream::pending()).await.unwrap_err();
        assert_eq!(began.elapsed(), UNPACK_SILENCE);
        assert_eq!(from_status(&ended), Some(stalled()));
        assert!(read(received).await.unwrap().is_err());
    }
}
