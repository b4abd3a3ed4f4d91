//! A turn at work: its answer is stored as it grows, its pages hear of it, and some things end it early.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::mpsc;

use super::Api;
use super::chat_ref::ChatRef;
use super::turns::TurnPermit;
use super::until_ended::Ended;
use crate::turn::{Chunk, Ending, Live, Message, Out, Role, Turn, Version};

/// Time after which the turn of a temporary chat ends that its page does not watch. It may have lost its connection.
const UNWATCHED_TEMPORARY: Duration = Duration::from_secs(60);

/// A turn that is about to run.
pub(super) struct Answering {
    pub(super) chat_ref: ChatRef,
    pub(super) turn: Turn,
    pub(super) permit: TurnPermit,
    /// Title of a new chat.
    pub(super) title: Option<String>,
    /// The session that has begun the turn ends.
    pub(super) session_ended: Ended,
    /// Why it ends at once, with what it has begun.
    pub(super) ends: Option<&'static str>,
}

impl Api {
    /// Runs a turn in its own task.
    pub(super) fn spawn_turn(&self, answering: Answering) {
        let (changes, chat_ref) = (self.changes.clone(), answering.chat_ref.clone());
        // No other page can show a temporary chat.
        let unwatched_limit = match chat_ref.is_kept {
            true => self.settings.unwatched_turns,
            false => UNWATCHED_TEMPORARY.min(self.settings.unwatched_turns),
        };
        chat_ref.tell(&changes);
        drop(self.turns.spawn(async move {
            answering.run(unwatched_limit).await;
            chat_ref.tell(&changes);
        }));
    }
}

impl Answering {
    async fn run(mut self, unwatched_limit: Duration) {
        let (kept, versions) = mpsc::channel(1);
        let out = Out::new(self.permit.speak(), kept);
        let Self { chat_ref, turn, permit, title, session_ended, ends } = self;
        let early_end = EarlyEnd { ends, session_ended, unwatched_limit };
        let answering = answer(turn, &chat_ref, &permit, title, early_end, out);
        let (ending, last) = tokio::join!(answering, keep(&chat_ref, permit.id(), versions));
        let Some(ending) = ending else { return };
        let is_kept = match last {
            Last::Complete { is_kept } => is_kept,
            Last::Unfinished => abandon(&chat_ref, permit.id()).await,
        };
        // A page that receives the end finds the stored answer, and can send the next message.
        drop(permit);
        let error_text =
            "This answer could not be stored: it will be gone after a reload of the page.".into();
        ending.say((!is_kept).then_some(Chunk::Error { error_text }));
    }
}

/// What ends a turn early, besides a person.
struct EarlyEnd {
    ends: Option<&'static str>,
    session_ended: Ended,
    unwatched_limit: Duration,
}

impl EarlyEnd {
    /// Waits for it. Returns the reason for the user.
    async fn wait(self, live: &Live) -> &'static str {
        if let Some(reason) = self.ends {
            return reason;
        }
        tokio::select! {
            () = self.session_ended => "This answer was stopped because its session has ended.",
            () = live.unwatched_for(self.unwatched_limit) => {
                "This answer was stopped because no page has shown it for a while."
            }
        }
    }
}

/// Answers. `None` if the turn was suspended, because the app stops: its commands continue.
async fn answer(
    turn: Turn,
    chat_ref: &ChatRef,
    permit: &TurnPermit,
    title: Option<String>,
    early_end: EarlyEnd,
    mut out: Out,
) -> Option<Ending> {
    if let Some(title) = title {
        out.say(Chunk::title(&chat_ref.id, &title)).await;
    }
    let reason = {
        let mut answer = pin!(turn.run(permit.id().to_owned(), &mut out));
        tokio::select! {
            biased;
            reason = early_end.wait(permit.live()) => {
                permit.cancel().cancel();
                answer.await;
                Some(reason)
            }
            () = &mut answer => None,
            () = permit.suspended() => {
                if !permit.cancel().is_cancelled() {
                    return None;
                }
                // It is ending already.
                answer.await;
                None
            }
        }
    };
    match reason {
        Some(reason) => out.say(Chunk::Error { error_text: reason.into() }).await,
        None if permit.cancel().is_cancelled() => out.say(Chunk::stopped()).await,
        None => {}
    }
    Some(out.end().await)
}

/// The last version of an answer.
enum Last {
    Complete {
        is_kept: bool,
    },
    /// Of a suspended turn, or of an answer without any content, which has no versions.
    Unfinished,
}

/// Stores the versions of an answer.
async fn keep(chat_ref: &ChatRef, id: &str, mut versions: mpsc::Receiver<Version>) -> Last {
    let mut last = Last::Unfinished;
    while let Some(Version { parts, pending, stored }) = versions.recv().await {
        let answer = Message { id: id.to_owned(), role: Role::Assistant, parts };
        let is_kept = !chat_ref.is_kept || store_answer(chat_ref, &answer, pending.as_deref()).await;
        // The turn may have left.
        let _ = stored.map(|stored| stored.send(is_kept));
        last = if pending.is_none() { Last::Complete { is_kept } } else { Last::Unfinished };
    }
    last
}

/// Notes the end of a turn whose answer has no content.
async fn abandon(chat_ref: &ChatRef, id: &str) -> bool {
    if !chat_ref.is_kept {
        return true;
    }
    let noted = chat_ref.chats.abandon_turn(&chat_ref.id, id).await;
    if let Err(error) = &noted {
        tracing::error!(chat = %chat_ref.id, %error, "the end of a turn was not stored");
    }
    noted.is_ok()
}

async fn store_answer(chat_ref: &ChatRef, answer: &Message, pending: Option<&[String]>) -> bool {
    let (chats, chat) = (&chat_ref.chats, &chat_ref.id);
    let kept = match pending {
        None => chats.put_answer(chat, answer).await,
        Some(pending) => chats.put_unfinished(chat, answer, pending).await,
    };
    if let Err(error) = &kept {
        tracing::error!(%chat, %error, cause = ?std::error::Error::source(error), "an answer was not stored");
    }
    kept.is_ok()
}
