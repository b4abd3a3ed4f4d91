//! A stored chat.

use jiff::Timestamp;
use serde::Serialize;

/// A chat without its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Chat {
    /// Id that the page chose.
    pub id: String,
    /// Title for the list.
    pub title: String,
    /// The last model that was used, if any.
    pub model: Option<String>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last message.
    pub updated_at: Timestamp,
}
