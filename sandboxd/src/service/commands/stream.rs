//! A command's stream of events, across broken connections to its agent.
//!
//! A stream that starts a command must also record its end, and keep the sandbox in use until then ([`EndClaim`]). If the
//! reader leaves or is slow, a watcher takes over.

use std::sync::{Arc, Mutex, PoisonError};

use futures::Stream;
use sandbox_api::CommandId;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use super::Commands;
use super::feed::{Feed, Next};
use crate::agent::{AgentHandle, EventStream, ReaderId};
use crate::model::{CommandSpec, Ended, Event, limits};
use crate::service::lifecycle::{InUse, InUseMark, Sandbox};
use crate::service::quotas::Charge;

/// What happens to the command when its reader leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnDrop {
    /// It ends.
    End,
    /// It keeps running.
    KeepRunning,
}

/// The right and duty to record how a command ends, and the mark that keeps its sandbox in use until then. The stream and
/// the watcher share it. Only the first that takes it gets the mark.
pub(super) struct EndClaim(Mutex<Option<InUseMark>>);

impl EndClaim {
    pub(super) fn new(sandbox: &Sandbox, is_passive: bool, charge: Charge) -> Self {
        Self(Mutex::new(Some(InUseMark::command(sandbox.activity(), is_passive).holding(charge))))
    }

    fn take(&self) -> Option<InUseMark> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Events of one command. Never fails: if the rest can no longer be read, the stream ends as `lost`.
pub struct CommandStream {
    commands: Arc<Commands>,
    sandbox: Arc<Sandbox>,
    agent: AgentHandle,
    command: CommandId,
    reader: ReaderId,
    feed: Arc<Feed>,
    /// Sequence number of the last record that was returned.
    after: u64,
    follow: bool,
    /// Bytes of output that were no longer kept when this stream reached them.
    missed_bytes: u64,
    /// Number of connections that the sandbox was denied before this stream started its command.
    denied_before: Option<u64>,
    on_drop: OnDrop,
    /// The command that this stream starts, until its start is recorded.
    unrecorded_start: Option<CommandSpec>,
    /// Set if this stream started the command.
    end_claim: Option<Arc<EndClaim>>,
    /// Hands the claim over to a watcher if the reader is slow.
    _hand_over: Option<AbortOnDropHandle<()>>,
    done: bool,
    /// Not held for a passive command.
    mark: Option<InUseMark>,
    _permit: OwnedSemaphorePermit,
}

impl CommandStream {
    pub(super) fn new(
        commands: &Arc<Commands>,
        in_use: InUse,
        command: CommandId,
        reader: ReaderId,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let (sandbox, agent, mark) = in_use.unlock();
        let feed = Feed::new(agent.clone(), command.clone(), reader);
        commands.feeds.add(&feed);
        Self {
            commands: Arc::clone(commands),
            sandbox,
            agent,
            command,
            reader,
            feed,
            after: 0,
            follow: true,
            missed_bytes: 0,
            denied_before: None,
            on_drop: OnDrop::KeepRunning,
            unrecorded_start: None,
            end_claim: None,
            _hand_over: None,
            done: false,
            mark: Some(mark),
            _permit: permit,
        }
    }

    /// Streams a command that this stream starts.
    pub(super) fn for_started_command(
        mut self,
        events: EventStream,
        spec: CommandSpec,
        end_claim: EndClaim,
        denied_before: u64,
    ) -> Self {
        self = self.for_repeated_request(events, &spec);
        self.denied_before = Some(denied_before);
        self.end_claim = Some(Arc::new(end_claim));
        self.unrecorded_start = Some(spec);
        self
    }

    /// Streams a command that was started earlier by the same request.
    pub(super) fn for_repeated_request(mut self, events: EventStream, spec: &CommandSpec) -> Self {
        self.feed.open(events);
        self.on_drop = if spec.detached { OnDrop::KeepRunning } else { OnDrop::End };
        if spec.passive {
            self.mark = None;
        }
        self
    }

    /// Streams the agent's log after record `after`: with `follow` to the command's end, otherwise only the kept records.
    pub(super) fn for_log(mut self, events: EventStream, after: u64, follow: bool) -> Self {
        self.feed.open(events);
        self.feed.set_repeatable();
        self.after = after;
        self.follow = follow;
        self
    }

    /// Streams the recorded end of a command that no agent knows any more.
    pub(super) fn for_history(mut self, events: EventStream) -> Self {
        self.feed.open(events);
        self.follow = false;
        self
    }

    /// Converts to a stream of events, with heartbeats while the command is silent.
    pub fn into_events(self) -> impl Stream<Item = Event> + Send {
        futures::stream::unfold(self, |mut stream| async move {
            let event = stream.next().await?;
            Some((event, stream))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        while !self.done {
            match timeout(limits::HEARTBEAT, self.feed.next()).await {
                Err(_) => return Some(Event::Heartbeat),
                Ok(Next::Event(Event::Ended { ended, .. })) => return Some(self.end(ended).await),
                Ok(Next::Event(event)) => return Some(self.note(event)),
                Ok(Next::Ended) if !self.follow => self.done = true,
                Ok(Next::Broken(error)) => {
                    debug!(command = %self.command, error = &error as &dyn std::error::Error, "the connection of a command's stream broke");
                    self.feed.close();
                }
                // A followed stream ends with an end record. Without one, the connection broke.
                Ok(Next::Ended) => self.feed.close(),
                Ok(reason @ (Next::Absent | Next::Released)) => {
                    if let Some(lost) = self.reattach(matches!(reason, Next::Absent)).await {
                        return Some(lost);
                    }
                }
            }
        }
        None
    }

    /// Returns the end of the command, after the engine had its chance to confirm an out-of-memory kill.
    async fn end(&mut self, ended: Ended) -> Event {
        let (commands, sandbox) = (Arc::clone(&self.commands), Arc::clone(&self.sandbox));
        let (agent, command) = (self.agent.clone(), self.command.clone());
        let ended = commands.history.confirm_oom(sandbox.ledger(), &agent, &command, ended).await;
        self.note(Event::Ended { ended, checkpoint: None })
    }

    /// Records the position of the stream, and counts the bytes that it missed for its end record.
    fn note(&mut self, event: Event) -> Event {
        match event {
            Event::Output(ref records) => {
                self.after = records.last().map_or(self.after, |record| record.seq);
                self.commands.metrics.output(records);
            }
            Event::Gap { dropped_bytes, next_seq } => {
                self.after = next_seq.saturating_sub(1);
                self.missed_bytes += dropped_bytes;
            }
            Event::Ended { ended, .. } => {
                self.finish(ended.clone());
                // Also if a watcher records the end: the end that is reported names the snapshot after it.
                self.commands.snapshots.note_end(&self.sandbox, &self.command);
                let so_far = self.sandbox.denied_attempts();
                let denials = self.denied_before.map(|before| so_far.saturating_sub(before));
                let checkpoint = self.sandbox.checkpoints().after(&self.command);
                let ended = Ended { dropped_bytes: self.missed_bytes, denials, ..ended };
                return Event::Ended { ended, checkpoint };
            }
            // A repeated request refers to the first command, which may have been started as detached.
            Event::Started(started) => {
                if started.detached {
                    self.on_drop = OnDrop::KeepRunning;
                }
                self.feed.set_repeatable();
                if let Some(spec) = self.unrecorded_start.take() {
                    self.commands.note_start(&self.sandbox, &spec, started);
                    self._hand_over = self.hand_over_later();
                }
            }
            Event::Heartbeat => {}
        }
        event
    }

    fn finish(&mut self, ended: Ended) {
        self.done = true;
        if let Some(_mark) = self.end_claim.as_ref().and_then(|end_claim| end_claim.take()) {
            self.commands.note_end(&self.sandbox, &self.command, ended);
        }
    }

    /// Starts the timer after which a watcher records the end. A slow reader must not delay that.
    fn hand_over_later(&self) -> Option<AbortOnDropHandle<()>> {
        let end_claim = Arc::clone(self.end_claim.as_ref()?);
        let (commands, sandbox) = (Arc::clone(&self.commands), Arc::clone(&self.sandbox));
        let (agent, command) = (self.agent.clone(), self.command.clone());
        Some(AbortOnDropHandle::new(tokio::spawn(async move {
            sleep(limits::HAND_OVER).await;
            if let Some(mark) = end_claim.take() {
                commands.watch(&sandbox, &agent, &command, mark);
            }
        })))
    }

    /// Opens a connection that continues after the last record. Returns the end if that is impossible. If the previous
    /// connection broke, checks first whether the sandbox's container is gone.
    async fn reattach(&mut self, broke: bool) -> Option<Event> {
        if !broke || !self.commands.lifecycle.is_gone(&self.sandbox, &self.agent).await {
            match self.agent.attach(&self.command, self.after, self.follow, self.reader).await {
                Ok(events) => {
                    self.feed.open(events);
                    return None;
                }
                Err(error) if error.is_broken() => {
                    self.feed.close();
                    return None;
                }
                // It is another agent by now, or its response makes no sense.
                Err(_) => {}
            }
        }
        let ended = self.commands.history.end_of_lost(self.sandbox.ledger(), &self.command).await;
        self.finish(ended.clone());
        self.commands.snapshots.note_end(&self.sandbox, &self.command);
        let ended = Ended { dropped_bytes: self.missed_bytes, ..ended };
        Some(Event::Ended { ended, checkpoint: self.sandbox.checkpoints().after(&self.command) })
    }
}

impl CommandStream {
    /// Notifies the agent that the command need not wait for this reader. If the agent misses this, the command waits as
    /// for a broken connection.
    fn report_left(&self) {
        if !self.follow {
            return;
        }
        let (agent, command, reader) = (self.agent.clone(), self.command.clone(), self.reader);
        self.commands.tasks.spawn(async move { agent.reader_left(&command, reader).await });
    }

    fn hand_over_to_watcher(&mut self, mark: InUseMark) {
        let (commands, sandbox) = (Arc::clone(&self.commands), Arc::clone(&self.sandbox));
        let (agent, command) = (self.agent.clone(), self.command.clone());
        let Some(spec) = self.unrecorded_start.take() else {
            return commands.watch(&sandbox, &agent, &command, mark);
        };
        // The reader left before the agent confirmed the start. The command may run nevertheless.
        self.commands.tasks.spawn(async move {
            if let Ok(status) = agent.inspect(&command).await {
                commands.note_start(&sandbox, &spec, status.started);
                commands.watch(&sandbox, &agent, &command, mark);
            }
        });
    }
}

impl Drop for CommandStream {
    fn drop(&mut self) {
        if self.done || self.commands.tasks.is_stopping() {
            return;
        }
        // The end must still be recorded.
        if let Some(mark) = self.end_claim.as_ref().and_then(|end_claim| end_claim.take()) {
            self.hand_over_to_watcher(mark);
        }
        if self.on_drop == OnDrop::KeepRunning {
            return self.report_left();
        }
        let (commands, sandbox) = (Arc::clone(&self.commands), Arc::clone(&self.sandbox));
        let (agent, command) = (self.agent.clone(), self.command.clone());
        self.commands.tasks.spawn(async move {
            if let Err(error) = commands.end_command(&sandbox, &agent, &command).await {
                debug!(%command, error = &error as &dyn std::error::Error, "could not end a command after its reader left");
            }
        });
    }
}
