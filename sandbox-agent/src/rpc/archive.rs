//! An archive on its way from its sender to the thread that unpacks it.
//!
//! The thread is one caller's until the archive has ended, because what reads an archive cannot be put aside. So the places
//! for it are few and of their own: a sender that takes its time is in the way of other archives and of nothing else, and
//! one that sends nothing at all loses its place.

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

/// Parts between the connection and the thread.
const PART_QUEUE: usize = 4;

/// An archive for a thread to read.
pub(super) struct Received {
    parts: mpsc::Receiver<(Bytes, bool)>,
    rest: Bytes,
    /// The last word has come.
    is_through: bool,
}

/// Hands the parts on.
pub(super) struct Sending(mpsc::Sender<(Bytes, bool)>);

pub(super) fn channel() -> (Sending, Received) {
    let (sender, parts) = mpsc::channel(PART_QUEUE);
    (Sending(sender), Received { parts, rest: Bytes::new(), is_through: false })
}

/// The next part; refused where it does not come.
pub(super) async fn next_part(
    parts: &mut (impl Stream<Item = Result<UnpackPart, Status>> + Unpin),
) -> Result<UnpackPart, Status> {
    let cut_off = || to_status(invalid("archive", "ended in the middle"));
    match timeout(UNPACK_SILENCE, parts.next()).await {
        Ok(part) => part.ok_or_else(cut_off)?,
        Err(_) => Err(to_status(silent())),
    }
}

fn silent() -> Kind {
    invalid("archive", format!("is not sent on: nothing of it came for {UNPACK_SILENCE:?}"))
}

impl Sending {
    /// Hands on `first` and what follows it, to the last word. Without that, the end of this tells the thread that the
    /// archive was cut off.
    pub(super) async fn all(
        self,
        first: UnpackPart,
        mut parts: impl Stream<Item = Result<UnpackPart, Status>> + Unpin,
    ) -> Result<(), Status> {
        let mut part = first;
        loop {
            // Nobody receives any more where there is an answer already.
            if self.0.send((part.data, part.end)).await.is_err() || part.end {
                return Ok(());
            }
            part = next_part(&mut parts).await?;
        }
    }
}

impl Read for Received {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            if self.is_through {
                return Ok(0);
            }
            let part = self.parts.blocking_recv().ok_or(io::ErrorKind::UnexpectedEof)?;
            (self.rest, self.is_through) = part;
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

    fn read(mut received: Received) -> tokio::task::JoinHandle<io::Result<String>> {
        spawn_blocking(move || {
            let mut text = String::new();
            received.read_to_string(&mut text).map(|_| text)
        })
    }

    #[tokio::test]
    async fn an_archive_is_whole_with_its_last_word_alone() {
        let (sending, received) = channel();
        let parts = stream::iter([Ok(part("b", false)), Ok(part("", false)), Ok(part("c", true))]);
        sending.all(part("a", false), parts).await.unwrap();
        assert_eq!(read(received).await.unwrap().unwrap(), "abc");

        let (sending, received) = channel();
        let ended = sending.all(part("a", false), stream::iter([Ok(part("b", false))])).await;
        assert!(matches!(from_status(&ended.unwrap_err()), Some(Kind::FieldInvalid(_))));
        assert_eq!(read(received).await.unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_that_sends_nothing_is_not_waited_for_for_ever() {
        let (sending, received) = channel();
        let began = tokio::time::Instant::now();
        let ended = sending.all(part("a", false), stream::pending()).await.unwrap_err();
        assert_eq!(began.elapsed(), UNPACK_SILENCE);
        assert_eq!(from_status(&ended), Some(silent()));
        assert!(read(received).await.unwrap().is_err());
    }
}
