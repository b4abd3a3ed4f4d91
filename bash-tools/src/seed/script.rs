//! Runs a script of this crate in a sandbox and reads its output.
//!
//! The output is untrusted: lines are truncated and made printable, and only a few are kept.

use std::collections::VecDeque;
use std::time::Instant;

use futures::StreamExt;

use super::{Error, Result};
use crate::provider::{Command, EndReason, Event, Provider, SandboxId};

/// Maximum length of a line in bytes. The rest of it is discarded.
const MAX_LINE_BYTES: usize = 400;
/// Number of last lines that are kept of each stream.
const MAX_LINES: usize = 30;

/// A script that ended by itself.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) exit_code: i32,
    /// Last lines of standard output.
    pub(super) stdout: Vec<String>,
    /// Last lines of standard error.
    pub(super) stderr: Vec<String>,
}

/// Runs a script to its end. `on_line` receives every line of either stream.
pub(super) async fn run(
    provider: &dyn Provider,
    sandbox: &SandboxId,
    command: Command,
    on_line: &(dyn Fn(&str) + Send + Sync),
) -> Result<Finished> {
    let began = Instant::now();
    let mut events = provider.run(sandbox, command).await?;
    let (mut stdout, mut stderr) = (Lines::default(), Lines::default());
    while let Some(event) = events.next().await {
        match event? {
            Event::Stdout(bytes) => stdout.take(&bytes, on_line),
            Event::Stderr(bytes) => stderr.take(&bytes, on_line),
            Event::Started | Event::Missed { .. } | Event::Heartbeat => {}
            Event::Ended(end) => {
                let (stdout, stderr) = (stdout.end(on_line), stderr.end(on_line));
                return match end.reason {
                    EndReason::Exited => Ok(Finished { exit_code: end.exit_code, stdout, stderr }),
                    EndReason::Timeout => Err(Error::TimedOut { after: began.elapsed() }),
                    reason @ (EndReason::Killed | EndReason::Oom | EndReason::Lost) => {
                        Err(Error::Ended { reason })
                    }
                };
            }
        }
    }
    Err(Error::Ended { reason: EndReason::Lost })
}

/// Splits a stream into lines. A carriage return ends a line too, because git uses it for progress.
#[derive(Default)]
struct Lines {
    line: Vec<u8>,
    last: VecDeque<String>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], on_line: &(dyn Fn(&str) + Send + Sync)) {
        for &byte in bytes {
            if matches!(byte, b'\n' | b'\r') {
                self.end_line(on_line);
            } else if self.line.len() < MAX_LINE_BYTES {
                self.line.push(byte);
            }
        }
    }

    fn end_line(&mut self, on_line: &(dyn Fn(&str) + Send + Sync)) {
        if self.line.is_empty() {
            return;
        }
        let line = String::from_utf8_lossy(&self.line).replace(char::is_control, "\u{fffd}");
        self.line.clear();
        on_line(&line);
        if self.last.len() == MAX_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    fn end(mut self, on_line: &(dyn Fn(&str) + Send + Sync)) -> Vec<String> {
        self.end_line(on_line);
        self.last.into()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn lines_are_cut_and_made_printable_at_any_split() {
        let seen = Mutex::new(Vec::new());
        let on_line = |line: &str| seen.lock().unwrap().push(line.to_owned());
        let mut lines = Lines::default();
        for part in [&b"one\r\ntw"[..], b"o\x1b[31m\n", &[b'x'; 5000], b"\xff\n\n", b"last"] {
            lines.take(part, &on_line);
        }
        let last = lines.end(&on_line);
        assert_eq!(last, ["one", "two\u{fffd}[31m", &"x".repeat(MAX_LINE_BYTES), "last"]);
        assert_eq!(*seen.lock().unwrap(), last);

        let mut lines = Lines::default();
        (0..1000).for_each(|number| lines.take(format!("{number}\n").as_bytes(), &|_| {}));
        let last = lines.end(&|_| {});
        assert_eq!((last.len(), last[MAX_LINES - 1].as_str()), (MAX_LINES, "999"));
    }
}
