//! What a page sends of a chat, and what the person asks by it.
//!
//! A chat that is kept is the app's: of the page's messages only the person's last one counts, and for an answer that is wanted anew
//! not even that. One that is not kept is what its page says it is.

use serde::Deserialize;

use super::error::{Error, Result};
use super::who::Who;
use super::{Api, MAX_MESSAGE_CHARS, title};
use crate::store::{Cut, NewTurn};
use crate::turn::{MAX_COMMAND_CHARS, Message, Role, command_of};

/// Longest id of a message.
const MAX_MESSAGE_ID_BYTES: usize = 128;

/// What `useChat` sends.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Said {
    pub(super) id: String,
    messages: Vec<Message>,
    trigger: Option<Trigger>,
    /// The answer that is wanted anew, or the message that is edited.
    message_id: Option<String>,
    pub(super) model: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Trigger {
    SubmitMessage,
    RegenerateMessage,
}

/// What the person asks.
#[derive(Debug)]
pub(super) struct Question {
    message: Message,
    pub(super) text: String,
    /// What goes of the chat first, where it is kept.
    cut: Cut,
    is_again: bool,
    /// The chat up to here, as the page has it.
    sent: Vec<Message>,
}

impl Question {
    pub(super) async fn of(said: Said, api: &Api, who: &Who) -> Result<Self> {
        let Said { messages: sent, trigger, message_id: named, .. } = said;
        let is_again = trigger == Some(Trigger::RegenerateMessage);
        // A chat may be long, so it is read only for a page that goes back in it.
        let goes_back = who.is_kept && (is_again || named.is_some());
        let kept = if goes_back { api.store.messages(&who.id).await? } else { Vec::new() };
        let message = match who.is_kept && is_again {
            true => last_of_person(before_answer(&kept, named.as_deref())),
            false => last_of_person(&sent),
        };
        let message = message?;
        let text = checked_text(message)?;
        let message = Message::of_person(message.id.clone(), &text);
        let cut = match named.as_ref().filter(|id| kept.iter().any(|message| message.id == **id)) {
            Some(id) => Cut::From(id.clone()),
            None if is_again => Cut::LastAnswer,
            // One that is there already was edited.
            None => Cut::From(message.id.clone()),
        };
        let anew = named.filter(|_| is_again);
        let sent = sent.into_iter().filter(|message| anew.as_ref() != Some(&message.id)).collect();
        Ok(Self { message, text, cut, is_again, sent })
    }

    /// Keeps the chat up to here, where it is one that is kept. The title of one that begins.
    pub(super) async fn keep(&self, api: &Api, who: &Who, model: Option<&str>) -> Result<Option<String>> {
        if !who.is_kept {
            return Ok(None);
        }
        let is_new = api.store.chat(&who.id).await?.is_none();
        if self.is_again && is_new {
            return Err(Error::NotFound { what: "chat" });
        }
        let title = title::made_of(&self.text);
        let message = (!self.is_again).then_some(&self.message);
        api.store
            .begin_turn(NewTurn { chat: &who.id, title: &title, model, cut: &self.cut, message })
            .await?;
        Ok(is_new.then_some(title))
    }

    /// The chat up to here, with what is asked, once that is kept.
    pub(super) async fn history(self, api: &Api, who: &Who) -> Result<Vec<Message>> {
        match who.is_kept {
            true => Ok(api.store.messages(&who.id).await?),
            false => Ok(self.sent),
        }
    }
}

fn last_of_person(messages: &[Message]) -> Result<&Message> {
    let last = messages.iter().rfind(|message| message.role == Role::User);
    last.ok_or(Error::Invalid { field: "messages", problem: "must have one of the person's".into() })
}

/// What comes before an answer, or before the last one where none is named.
fn before_answer<'a>(messages: &'a [Message], answer: Option<&str>) -> &'a [Message] {
    let named = messages.iter().position(|message| answer == Some(&message.id));
    let end =
        named.or_else(|| messages.iter().rposition(|message| message.role == Role::User).map(|at| at + 1));
    &messages[..end.unwrap_or(messages.len())]
}

fn checked_text(message: &Message) -> Result<String> {
    let invalid = |problem: String| Err(Error::Invalid { field: "messages", problem });
    let text = message.text();
    if message.id.is_empty() || message.id.len() > MAX_MESSAGE_ID_BYTES {
        return invalid(format!("must have ids of 1 to {MAX_MESSAGE_ID_BYTES} bytes"));
    }
    if text.trim().is_empty() {
        return invalid("must have some text in the person's last one".into());
    }
    if text.chars().count() > MAX_MESSAGE_CHARS {
        return Err(Error::TooLarge { what: "a message", limit: MAX_MESSAGE_CHARS, unit: "characters" });
    }
    if command_of(&text).is_some_and(|command| command.chars().count() > MAX_COMMAND_CHARS) {
        return Err(Error::TooLarge { what: "a command", limit: MAX_COMMAND_CHARS, unit: "characters" });
    }
    Ok(text)
}
