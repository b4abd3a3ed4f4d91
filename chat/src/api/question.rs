//! The content of a chat request.
//!
//! For a stored chat, only the user's last message of the request counts. To regenerate an answer, the stored
//! message is used instead. For a temporary chat, the request has the whole history.

use bash_tools::session::Subject;
use serde::Deserialize;

use super::chat_ref::ChatRef;
use super::error::{Error, Result};
use super::{MAX_MESSAGE_CHARS, title};
use crate::store::{NewTurn, OpenTurn, Removal};
use crate::turn::{MAX_COMMAND_CHARS, Message, Role, command_of};

/// Maximum length of a message's id.
const MAX_MESSAGE_ID_BYTES: usize = 128;

/// Body that `useChat` sends.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChatRequest {
    pub(super) id: String,
    messages: Vec<Message>,
    trigger: Option<Trigger>,
    /// The answer to regenerate, or the edited message.
    message_id: Option<String>,
    pub(super) model: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Trigger {
    SubmitMessage,
    RegenerateMessage,
}

/// The user's question.
#[derive(Debug)]
pub(super) struct Question {
    message: Message,
    pub(super) text: String,
    /// The messages that are removed first, if the chat is stored.
    removal: Removal,
    is_again: bool,
    /// The chat so far, as the page sent it.
    sent: Vec<Message>,
}

impl Question {
    pub(super) async fn of(request: ChatRequest, chat_ref: &ChatRef) -> Result<Self> {
        let ChatRequest { messages: sent, trigger, message_id: named, .. } = request;
        let is_again = trigger == Some(Trigger::RegenerateMessage);
        // A chat may be long, so it is only read if the page goes back in it.
        let goes_back = chat_ref.is_kept && (is_again || named.is_some());
        let kept = if goes_back { chat_ref.chats.messages(&chat_ref.id).await? } else { Vec::new() };
        let message = match chat_ref.is_kept && is_again {
            true => last_user_message(before_answer(&kept, named.as_deref())),
            false => last_user_message(&sent),
        };
        let message = message?;
        let text = checked_text(message)?;
        let message = Message::of_user(message.id.clone(), &text);
        let removal = match named.as_ref().filter(|id| kept.iter().any(|message| message.id == **id)) {
            Some(id) => Removal::From(id.clone()),
            None if is_again => Removal::LastAnswer,
            // An existing message was edited.
            None => Removal::From(message.id.clone()),
        };
        let regenerated = named.filter(|_| is_again);
        let sent = sent.into_iter().filter(|message| regenerated.as_ref() != Some(&message.id)).collect();
        Ok(Self { message, text, removal, is_again, sent })
    }

    /// Stores the chat so far and that it is being answered, unless it is temporary. Returns the title of a new chat.
    pub(super) async fn store(&self, chat_ref: &ChatRef, open: &OpenTurn) -> Result<Option<String>> {
        if !chat_ref.is_kept {
            return Ok(None);
        }
        let is_new = chat_ref.chats.chat(&chat_ref.id).await?.is_none();
        if self.is_again && is_new {
            return Err(Error::NotFound { what: "chat" });
        }
        let title = title::made_of(&self.text);
        let message = (!self.is_again).then_some(&self.message);
        let (chat, removal) = (chat_ref.id.as_str(), &self.removal);
        let subject = chat_ref.key.subject().map(Subject::as_str);
        let (model, open) = (open.model.as_deref(), Some(open));
        let turn = NewTurn { chat, title: &title, subject, model, removal, message, open };
        chat_ref.chats.begin_turn(turn).await?;
        Ok(is_new.then_some(title))
    }

    /// Returns the chat so far with the question, once it is stored.
    pub(super) async fn history(self, chat_ref: &ChatRef) -> Result<Vec<Message>> {
        match chat_ref.is_kept {
            true => Ok(chat_ref.chats.messages(&chat_ref.id).await?),
            false => Ok(self.sent),
        }
    }
}

fn last_user_message(messages: &[Message]) -> Result<&Message> {
    let last = messages.iter().rfind(|message| message.role == Role::User);
    last.ok_or(Error::Invalid { field: "messages", problem: "must contain a message of the user".into() })
}

/// Returns the messages before an answer, or before the last one if none is named.
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
        return invalid("must contain text in the last message of the user".into());
    }
    if text.chars().count() > MAX_MESSAGE_CHARS {
        return Err(Error::TooLarge { what: "a message", limit: MAX_MESSAGE_CHARS, unit: "characters" });
    }
    if command_of(&text).is_some_and(|command| command.chars().count() > MAX_COMMAND_CHARS) {
        return Err(Error::TooLarge { what: "a command", limit: MAX_COMMAND_CHARS, unit: "characters" });
    }
    Ok(text)
}
