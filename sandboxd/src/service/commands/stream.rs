//! A command's stream, across broken connections to its agent.

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

/// What happens to the command when its reader leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnDrop {
    /// It is ended.
    End,
    /// It goes on.
    LetGo,
}

/// To write down how a command ends, and to keep its sandbox in use until then. Whoever takes it has it.
pub(super) struct Duty(Mutex<Option<InUseMark>>);

impl Duty {
    pub(super) fn of(sandbox: &Sandbox) -> Self {
        Self(Mutex::new(Some(InUseMark::command(sandbox.activity()))))
    }

    fn take(&self) -> Option<InUseMark> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The events of one command. Never fails: what cannot be read any more ends as `lost`.
pub struct CommandStream {
    commands: Arc<Commands>,
    sandbox: Arc<Sandbox>,
    agent: AgentHandle,
    command: CommandId,
    reader: ReaderId,
    feed: Arc<Feed>,
    /// Sequence number of the last record that was passed on.
    after: u64,
    follow: bool,
    /// Output that was no longer kept when this stream came to it.
    missed_bytes: u64,
    on_drop: OnDrop,
    /// The command this stream started, until it is known to have started.
    to_be_noted: Option<CommandSpec>,
    /// Where this stream started the command: the duty to see to its end.
    duty: Option<Arc<Duty>>,
    /// Gives the duty to a watcher where the reader takes its time.
    _hand_over: Option<AbortOnDropHandle<()>>,
    done: bool,
    _mark: InUseMark,
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
            on_drop: OnDrop::LetGo,
            to_be_noted: None,
            duty: None,
            _hand_over: None,
            done: false,
            _mark: mark,
            _permit: permit,
        }
    }

    /// Follows a command that this stream starts, from its start to its end.
    pub(super) fn of_own(mut self, events: EventStream, spec: CommandSpec, duty: Duty) -> Self {
        self = self.again(events, &spec);
        self.duty = Some(Arc::new(duty));
        self.to_be_noted = Some(spec);
        self
    }

    /// Follows a command that its caller asks for once more.
    pub(super) fn again(mut self, events: EventStream, spec: &CommandSpec) -> Self {
        self.feed.open(events);
        self.on_drop = if spec.detached { OnDrop::LetGo } else { OnDrop::End };
        self
    }

    /// Reads the agent's log after record `after`, to the command's end or only what there is.
    pub(super) fn reading(mut self, events: EventStream, after: u64, follow: bool) -> Self {
        self.feed.open(events);
        self.feed.set_repeatable();
        self.after = after;
        self.follow = follow;
        self
    }

    /// Passes on what is known of a command that no agent knows any more.
    pub(super) fn replaying(mut self, events: EventStream) -> Self {
        self.feed.open(events);
        self.follow = false;
        self
    }

    /// The events, with a heartbeat in the silence between them.
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
                Ok(Next::Event(Event::Ended(ended))) => return Some(self.end(ended).await),
                Ok(Next::Event(event)) => return Some(self.note(event)),
                Ok(Next::Ended) if !self.follow => self.done = true,
                Ok(Next::Broken(error)) => {
                    debug!(command = %self.command, error = &error as &dyn std::error::Error, "a stream broke off");
                    self.feed.close();
                }
                // A follower's stream has an end record; without one it was cut.
                Ok(Next::Ended) => self.feed.close(),
                Ok(reason @ (Next::Absent | Next::GivenUp)) => {
                    if let Some(lost) = self.reattach(matches!(reason, Next::Absent)).await {
                        return Some(lost);
                    }
                }
            }
        }
        None
    }

    /// The end, with its reason as sure as it can be.
    async fn end(&mut self, ended: Ended) -> Event {
        let (commands, sandbox) = (Arc::clone(&self.commands), Arc::clone(&self.sandbox));
        let (agent, command) = (self.agent.clone(), self.command.clone());
        let ended = commands.history.judge(sandbox.ledger(), &agent, &command, ended).await;
        self.note(Event::Ended(ended))
    }

    /// Keeps the place, and counts what this stream missed, which is what its end record tells.
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
            Event::Ended(ended) => {
                self.finish(ended);
                return Event::Ended(Ended { dropped_bytes: self.missed_bytes, ..ended });
            }
            // The same id asked for again is the first command still, with what it was promised.
            Event::Started(started) => {
                if started.detached {
                    self.on_drop = OnDrop::LetGo;
                }
                self.feed.set_repeatable();
                if let Some(spec) = self.to_be_noted.take() {
                    self.commands.history.note_start(self.sandbox.ledger(), &spec, started);
                    self._hand_over = self.hand_over_later();
                }
            }
            Event::Heartbeat => {}
        }
        event
    }

    fn finish(&mut self, ended: Ended) {
        self.done = true;
        if let Some(_mark) = self.duty.as_ref().and_then(|duty| duty.take()) {
            self.commands.history.note_end(self.sandbox.ledger(), &self.command, ended);
        }
    }

    /// A reader that is slow, or reads nothing, must not keep the sandbox from learning of the end.
    fn hand_over_later(&self) -> Option<AbortOnDropHandle<()>> {
        let duty = Arc::clone(self.duty.as_ref()?);
        let (commands, sandbox) = (Arc::clone(&self.commands), Arc::clone(&self.sandbox));
        let (agent, command) = (self.agent.clone(), self.command.clone());
        Some(AbortOnDropHandle::new(tokio::spawn(async move {
            sleep(limits::HAND_OVER).await;
            if let Some(_mark) = duty.take() {
                commands.watch(&sandbox, &agent, &command);
            }
        })))
    }

    /// Goes on where the last connection stopped; the end, where nobody can. The sandbox is looked at first if the
    /// connection broke.
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
                // The agent is another one, or does not make sense any more.
                Err(_) => {}
            }
        }
        let ended = self.commands.history.end_of_lost(self.sandbox.ledger(), &self.command).await;
        self.finish(ended);
        Some(Event::Ended(Ended { dropped_bytes: self.missed_bytes, ..ended }))
    }
}

impl CommandStream {
    /// Tells the agent that the command need not wait for this reader. Where the agent does not hear it, the command
    /// waits as for a broken connection.
    fn leave(&self) {
        if !self.follow {
            return;
        }
        let (agent, command, reader) = (self.agent.clone(), self.command.clone(), self.reader);
        self.commands.tasks.spawn(async move { agent.reader_left(&command, reader).await });
    }

    fn leave_to_watcher(&mut self, mark: InUseMark) {
        let (commands, sandbox) = (Arc::clone(&self.commands), Arc::clone(&self.sandbox));
        let (agent, command) = (self.agent.clone(), self.command.clone());
        let Some(spec) = self.to_be_noted.take() else {
            return commands.watch(&sandbox, &agent, &command);
        };
        // The reader left before it was heard that the command had started, which it may have all the same.
        self.commands.tasks.spawn(async move {
            if let Ok(status) = agent.inspect(&command).await {
                commands.history.note_start(sandbox.ledger(), &spec, status.started);
                commands.watch(&sandbox, &agent, &command);
            }
            drop(mark);
        });
    }
}

impl Drop for CommandStream {
    fn drop(&mut self) {
        if self.done || self.commands.tasks.is_stopping() {
            return;
        }
        // Somebody must hear of its end.
        if let Some(mark) = self.duty.as_ref().and_then(|duty| duty.take()) {
            self.leave_to_watcher(mark);
        }
        if self.on_drop == OnDrop::LetGo {
            return self.leave();
        }
        let (commands, sandbox) = (Arc::clone(&self.commands), Arc::clone(&self.sandbox));
        let (agent, command) = (self.agent.clone(), self.command.clone());
        self.commands.tasks.spawn(async move {
            if let Err(error) = commands.end_command(&sandbox, &agent, &command).await {
                debug!(%command, error = &error as &dyn std::error::Error, "could not end a command left by its reader");
            }
        });
    }
}
