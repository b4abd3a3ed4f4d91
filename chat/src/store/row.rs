//! Converts rows to values.

use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};

use super::chat::Chat;
use super::error::Error;
use crate::turn::{Message, Role};

pub(super) struct ChatRow {
    id: String,
    title: String,
    model: Option<String>,
    created_at: i64,
    updated_at: i64,
}

pub(super) struct MessageRow {
    id: String,
    role: String,
    parts: String,
}

impl FromRow<'_, SqliteRow> for ChatRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            title: row.try_get("title")?,
            model: row.try_get("model")?,
            created_at: row.try_get("created_at")?,
            updated_at: row.try_get("updated_at")?,
        })
    }
}

impl FromRow<'_, SqliteRow> for MessageRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self { id: row.try_get("id")?, role: row.try_get("role")?, parts: row.try_get("parts")? })
    }
}

impl From<ChatRow> for Chat {
    fn from(row: ChatRow) -> Self {
        Self {
            id: row.id,
            title: row.title,
            model: row.model,
            created_at: time(row.created_at),
            updated_at: time(row.updated_at),
        }
    }
}

impl TryFrom<MessageRow> for Message {
    type Error = Error;

    fn try_from(row: MessageRow) -> Result<Self, Error> {
        Ok(Self { id: row.id, role: role(&row.role), parts: serde_json::from_str(&row.parts)? })
    }
}

pub(super) fn role_name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// An unknown role, which this program did not write, counts as a system message.
fn role(name: &str) -> Role {
    match name {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => Role::System,
    }
}

pub(super) fn time(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH)
}
