//! Continues the turns that the end of the app has interrupted.

use bash_tools::gates::{Decision, Reason};
use futures::FutureExt;

use super::Api;
use super::answer::responder;
use super::answering::Answering;
use super::chat_ref::ChatRef;
use super::error::{Error, Result};
use super::until_ended::Ended;
use crate::account::Owner;
use crate::store::OpenTurn;
use crate::turn::{Responder, Role, Stored, Turn, command_of};

/// How often a turn is continued that does not get to its next step. It may be what ends the app.
const MAX_RESUMED: u32 = 3;

impl Api {
    /// Continues each turn whose answer is not complete. If one cannot be continued, its answer stays as it is stored, and says
    /// that it is not complete.
    pub(super) async fn resume_turns(&self) {
        let open = match self.store.open_turns().await {
            Ok(open) => open,
            Err(error) => {
                tracing::error!(%error, cause = ?std::error::Error::source(&error), "turns were not continued");
                return;
            }
        };
        for (owner, chat, turn) in open {
            let (chats, id) = (self.store.chats_of(owner.clone()), turn.id.clone());
            let resumed = match self.resume_turn(owner, &chat, turn).await {
                Ok(true) => continue,
                // Too many are answering already.
                Ok(false) | Err(Error::Full { .. } | Error::FullForUser { .. }) => {
                    chats.abandon_turn(&chat, &id).await.map_err(Error::from)
                }
                // The next start tries again.
                Err(error) => Err(error),
            };
            if let Err(error) = resumed {
                tracing::error!(%chat, %error, cause = ?std::error::Error::source(&error), "a turn was not continued");
            }
        }
    }

    /// Returns whether the turn continues, if only to end what it has begun and to say so.
    async fn resume_turn(&self, owner: Owner, chat: &str, open: OpenTurn) -> Result<bool> {
        let Some(chat_ref) = ChatRef::stored(self, owner.clone(), chat.to_owned()).await? else {
            return Ok(false);
        };
        if open.resumed >= MAX_RESUMED {
            return Ok(false);
        }
        let permit = self.turns.resume(&chat_ref.key, &owner, open.id.clone())?;
        chat_ref.chats.resume_turn(chat, &open.id).await?;
        let mut before = chat_ref.chats.messages(chat).await?;
        let at = before.iter().position(|message| message.id == open.id);
        let stored = at.and_then(|at| before.drain(at..).next());
        let Some(question) = before.iter().rfind(|message| message.role == Role::User) else {
            return Ok(false);
        };
        let (session_ended, mut ends) = self.session_end(&owner, open.session.as_deref()).await?;
        let gates =
            if open.has_tools { Decision::Enabled } else { Decision::Disabled(Reason::NotConfigured) };
        let responder = match open.model.as_ref().map(|model| self.models.get(model)) {
            None => Responder::Bash(command_of(&question.text()).unwrap_or_default().to_owned()),
            Some(Some(entry)) => responder(self, gates, entry, &before),
            Some(None) => {
                ends = ends.or(Some("This answer was stopped because its model is not connected any more."));
                Responder::Bash(String::new())
            }
        };
        let cancel = permit.cancel().clone();
        if open.is_stopped {
            cancel.cancel();
        }
        let turn = Turn {
            responder,
            tools: self.toolkit(gates, &chat_ref),
            cancel,
            kept_as: Some(open.id),
            stored: stored.map(|message| Stored::new(message.parts, open.pending)),
        };
        self.spawn_turn(Answering { chat_ref, turn, permit, title: None, session_ended, ends });
        Ok(true)
    }

    /// The end of the session that has begun a turn, and why the turn ends now if there is no such session.
    async fn session_end(
        &self,
        owner: &Owner,
        session: Option<&str>,
    ) -> Result<(Ended, Option<&'static str>)> {
        const GONE: &str = "This answer was stopped because its session has ended.";
        let never = || std::future::pending().boxed().shared();
        Ok(match (owner, session) {
            (Owner::User(_), Some(session)) if self.store.has_session(session).await? => {
                (self.people.watch_session(session.to_owned()).ended().boxed().shared(), None)
            }
            (Owner::Everyone, None) if !self.people.has_accounts().await? => {
                (self.people.clone().until_accounts().boxed().shared(), None)
            }
            _ => (never(), Some(GONE)),
        })
    }
}
