//! Records of a command across broken connections.

use std::time::Duration;

use futures::{Stream, StreamExt};
use sandbox_api::command::{Output, Record, StageRecord};
use sandbox_api::{CommandId, SandboxId};
use tokio::time::sleep;

use crate::command::Records;
use crate::{Client, Error};

/// Maximum number of attempts in a row without a record: about a minute, with the pauses between them.
const MAX_TRIES: u32 = 32;

/// Pause before the second attempt. It doubles up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

impl Client {
    /// Streams a command's records after sequence number `after` until its end, each exactly once, across broken
    /// connections and daemon restarts. A new connection continues after the last complete record. Gives up after a
    /// minute without a record, and at once after an error that is not temporary. A gap reports output that the
    /// daemon no longer keeps. `dropped_bytes` of the end is the sum of all gaps.
    ///
    /// To follow a command from its start, start it and follow it from 0. The command keeps running when the stream
    /// is dropped.
    ///
    /// ```no_run
    /// use futures::StreamExt;
    /// use sandbox_api::command::{Record, StartCommand};
    ///
    /// # async fn example(client: sandbox_client::Client, sandbox: sandbox_api::SandboxId) -> Result<(), sandbox_client::Error> {
    /// let request = StartCommand { script: Some("make".into()), read_only: Some(true), ..StartCommand::default() };
    /// let command = client.start(&sandbox, &request).await?.command_id;
    /// let mut records = client.follow(&sandbox, &command, 0);
    /// while let Some(record) = records.next().await {
    ///     if let Record::Exit { exit_code, .. } = record? {
    ///         println!("ended with {exit_code}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow(
        &self,
        sandbox: &SandboxId,
        command: &CommandId,
        after: u64,
    ) -> impl Stream<Item = Result<Record, Error>> + Send + Unpin + 'static {
        let follower = Follower {
            client: self.clone(),
            sandbox: sandbox.clone(),
            command: command.clone(),
            after,
            missed_bytes: 0,
            records: None,
            tries: 0,
            pause: PAUSE_FIRST,
            done: false,
        };
        futures::stream::unfold(follower, |mut follower| async move {
            let record = follower.next().await?;
            Some((record, follower))
        })
        .boxed()
    }
}

struct Follower {
    client: Client,
    sandbox: SandboxId,
    command: CommandId,
    /// Sequence number of the last returned record.
    after: u64,
    /// Sum of all gaps.
    missed_bytes: u64,
    records: Option<Records>,
    tries: u32,
    pause: Duration,
    done: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<Result<Record, Error>> {
        while !self.done {
            match self.step().await {
                Ok(None) => {}
                Ok(Some(record)) => return Some(Ok(record)),
                Err(error) if self.may_try_again(&error) => self.rest().await,
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }

    async fn step(&mut self) -> Result<Option<Record>, Error> {
        let Some(records) = &mut self.records else {
            self.records = Some(self.client.logs(&self.sandbox, &self.command, self.after, true).await?);
            return Ok(None);
        };
        let record = records.next().await.unwrap_or(Err(Error::Cut))?;
        self.tries = 0;
        self.pause = PAUSE_FIRST;
        Ok(self.note(record))
    }

    /// Stores the position and drops records that were already returned.
    fn note(&mut self, record: Record) -> Option<Record> {
        match record {
            Record::Stdout(Output { seq, .. })
            | Record::Stderr(Output { seq, .. })
            | Record::Trace(Output { seq, .. })
            | Record::Stage(StageRecord { seq, .. }) => {
                if seq <= self.after {
                    return None;
                }
                self.after = seq;
                Some(record)
            }
            Record::Gap { dropped_bytes, next_seq } => {
                self.after = next_seq.saturating_sub(1);
                self.missed_bytes += dropped_bytes;
                Some(record)
            }
            Record::Exit {
                exit_code,
                signal,
                reason,
                duration_ms,
                stdout_bytes,
                stderr_bytes,
                killed_by,
                output_path,
                output_complete,
                limit_exceeded,
                read_only_violation,
                checkpoint_id,
                ..
            } => {
                self.done = true;
                let dropped_bytes = self.missed_bytes;
                Some(Record::Exit {
                    exit_code,
                    signal,
                    reason,
                    duration_ms,
                    stdout_bytes,
                    stderr_bytes,
                    dropped_bytes,
                    killed_by,
                    output_path,
                    output_complete,
                    limit_exceeded,
                    read_only_violation,
                    // The stream of the start has not seen the end.
                    denials: None,
                    checkpoint_id,
                })
            }
            Record::Start { .. } | Record::Heartbeat => Some(record),
        }
    }

    fn may_try_again(&self, error: &Error) -> bool {
        self.tries < MAX_TRIES && error.is_temporary()
    }

    async fn rest(&mut self) {
        self.records = None;
        self.tries += 1;
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}
