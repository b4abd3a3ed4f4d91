//! The connection to the helper: many concurrent requests, distinguished by their numbers.
//!
//! One task owns the connection. It ends with the connection, and then every waiting request fails.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bollard::container::{AttachContainerResults, LogOutput};
use futures::StreamExt;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use crate::DiskFault;
use crate::Error;

/// The helper's first line. Another number means another version of the program.
const HELLO: &str = "sandbox-disks 1";

/// Maximum number of concurrent requests. Further ones wait. The helper reads all of them without waiting for its responses to
/// be read, so writing one never blocks the task that also reads the responses.
const MAX_CONCURRENT: usize = 32;

/// Maximum length of a line of the helper, in bytes. A longer line is not the helper's.
const MAX_LINE_BYTES: usize = 4096;

/// Maximum number of lines in one response. Further disks are not listed.
const MAX_LINES: usize = 65_536;

/// The helper's response: the lines before `ok`, and the text after it.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) lines: Vec<String>,
    pub(super) words: String,
}

type Reply = oneshot::Sender<Result<Answer, DiskFault>>;

struct Request {
    number: u64,
    line: String,
    reply: Reply,
}

/// The connection to a helper that has sent its first line.
#[derive(Debug)]
pub(super) struct HelperConnection {
    requests: mpsc::Sender<Request>,
    slots: Semaphore,
    last_number: AtomicU64,
}

impl HelperConnection {
    /// Waits for the helper's first line, and starts the task that owns the connection.
    pub(super) async fn open(mut attached: AttachContainerResults) -> Result<Arc<Self>, DiskFault> {
        let mut lines = Lines::default();
        while lines.first().is_none() {
            lines.take(attached.output.next().await)?;
        }
        if lines.pop().as_deref() != Some(HELLO) {
            return Err(DiskFault::HelperUnavailable);
        }
        let (requests, queue) = mpsc::channel(MAX_CONCURRENT);
        tokio::spawn(carry(attached, lines, queue));
        Ok(Arc::new(Self { requests, slots: Semaphore::new(MAX_CONCURRENT), last_number: AtomicU64::new(0) }))
    }

    pub(super) fn is_broken(&self) -> bool {
        self.requests.is_closed()
    }

    /// Sends a request to the helper. `call` names it in errors.
    pub(super) async fn ask(
        &self,
        call: &'static str,
        deadline: Duration,
        words: &str,
    ) -> Result<Result<Answer, DiskFault>, Error> {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        let (reply, answer) = oneshot::channel();
        let request = Request { number, line: format!("{number} {words}\n"), reply };
        let asked = async {
            let _slot = self.slots.acquire().await.map_err(|_| DiskFault::HelperUnavailable)?;
            self.requests.send(request).await.map_err(|_| DiskFault::HelperUnavailable)?;
            answer.await.unwrap_or(Err(DiskFault::HelperUnavailable))
        };
        timeout(deadline, asked).await.map_err(|_| Error::Deadline { call, after: deadline })
    }
}

/// Writes requests and distributes responses until either side ends.
async fn carry(attached: AttachContainerResults, mut lines: Lines, mut queue: mpsc::Receiver<Request>) {
    let AttachContainerResults { mut output, mut input } = attached;
    let mut waiting = Waiting::default();
    loop {
        while let Some(line) = lines.pop() {
            waiting.take(&line);
        }
        tokio::select! {
            request = queue.recv() => {
                let Some(Request { number, line, reply }) = request else { break };
                waiting.add(number, reply);
                if write(&mut input, &line).await.is_err() {
                    break;
                }
            }
            frame = output.next() => {
                if lines.take(frame).is_err() {
                    break;
                }
            }
        }
    }
    // The helper ends with its input.
    let _ = input.shutdown().await;
}

async fn write(input: &mut (impl AsyncWrite + Unpin), line: &str) -> std::io::Result<()> {
    input.write_all(line.as_bytes()).await?;
    input.flush().await
}

/// The requests without a response yet.
#[derive(Default)]
struct Waiting(HashMap<u64, (Reply, Vec<String>)>);

impl Waiting {
    fn add(&mut self, number: u64, reply: Reply) {
        // Drops requests whose callers stopped waiting. Otherwise a helper that never responds would fill the
        // daemon's memory.
        self.0.retain(|_, (reply, _)| !reply.is_closed());
        self.0.insert(number, (reply, Vec::new()));
    }

    /// Takes one line. Drops it if it belongs to no request.
    fn take(&mut self, line: &str) {
        let Some((number, words)) = line.split_once(' ') else { return };
        let Ok(number) = number.parse::<u64>() else { return };
        let (kind, rest) = words.split_once(' ').unwrap_or((words, ""));
        if kind == "ok" || kind == "err" {
            let Some((reply, lines)) = self.0.remove(&number) else { return };
            let answer = match kind {
                "ok" => Ok(Answer { lines, words: rest.to_owned() }),
                _ => Err(DiskFault::parse(rest)),
            };
            // The caller may have stopped waiting.
            let _ = reply.send(answer);
        } else if let Some((_, lines)) = self.0.get_mut(&number)
            && lines.len() < MAX_LINES
        {
            lines.push(words.to_owned());
        }
    }
}

/// Splits the received bytes into lines.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    start: usize,
}

impl Lines {
    fn take(&mut self, frame: Option<Result<LogOutput, bollard::errors::Error>>) -> Result<(), DiskFault> {
        let Some(Ok(frame)) = frame else { return Err(DiskFault::HelperUnavailable) };
        self.bytes.drain(..self.start);
        self.start = 0;
        match frame {
            LogOutput::StdErr { message } => {
                let text = String::from_utf8_lossy(&message);
                tracing::warn!(text = %text.trim(), "the disks' helper wrote to standard error");
            }
            other => self.bytes.extend_from_slice(&other.into_bytes()),
        }
        let unfinished = self.bytes.rsplit(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len);
        if unfinished > MAX_LINE_BYTES { Err(DiskFault::HelperUnavailable) } else { Ok(()) }
    }

    fn first(&self) -> Option<usize> {
        self.bytes[self.start..].iter().position(|byte| *byte == b'\n')
    }

    fn pop(&mut self) -> Option<String> {
        let end = self.start + self.first()?;
        let line = String::from_utf8_lossy(&self.bytes[self.start..end]).into_owned();
        self.start = end + 1;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Option<Result<LogOutput, bollard::errors::Error>> {
        Some(Ok(LogOutput::StdOut { message: text.to_owned().into() }))
    }

    #[test]
    fn lines_are_reassembled_however_they_are_split() {
        let mut lines = Lines::default();
        lines.take(frame("one\ntw")).unwrap();
        assert_eq!((lines.pop().as_deref(), lines.pop()), (Some("one"), None));
        lines.take(frame("o\nthree\n")).unwrap();
        assert_eq!(lines.pop().as_deref(), Some("two"));
        assert_eq!(lines.pop().as_deref(), Some("three"));
        assert_eq!(lines.take(frame(&"x".repeat(MAX_LINE_BYTES + 1))), Err(DiskFault::HelperUnavailable));
        assert_eq!(lines.take(None), Err(DiskFault::HelperUnavailable));
    }

    #[test]
    fn responses_are_matched_to_requests_in_any_order() {
        let mut waiting = Waiting::default();
        let (one, mut first) = oneshot::channel();
        let (two, mut second) = oneshot::channel();
        waiting.add(1, one);
        waiting.add(2, two);
        for line in ["2 disk a 1 true", "9 ok", "nonsense", "1 err busy in use", "2 ok 5 6"] {
            waiting.take(line);
        }
        assert_eq!(first.try_recv().unwrap().unwrap_err(), DiskFault::Busy);
        let answer = second.try_recv().unwrap().unwrap();
        assert_eq!((answer.lines, answer.words), (vec!["disk a 1 true".to_owned()], "5 6".to_owned()));
        assert!(waiting.0.is_empty());
    }
}
