//! Results of tools for the model.

use serde::Serialize;
use serde_json::Value;

use crate::error::shortened;
use crate::{Error, Pending};

/// Result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The result for a model that reads text.
    pub blocks: Vec<Block>,
    /// The same result as JSON, as the tool's output schema says. Absent if there is no result, and beside an image,
    /// because hosts drop the image otherwise.
    pub structured: Option<Value>,
    /// Whether the call failed. A command with another exit code than 0 has not failed, unless it was denied a host and
    /// the user cannot be asked.
    pub is_error: bool,
    /// Questions to the user that must be answered first. The rest of the reply is empty.
    pub pending: Option<Box<Pending>>,
}

/// Part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// The file in base64.
        data_base64: String,
        /// Its media type.
        mime_type: &'static str,
    },
}

impl Reply {
    /// A result as text and as JSON.
    pub(crate) fn new(text: String, structured: &impl Serialize) -> Self {
        // Results consist of strings and numbers, which can always be serialized.
        Self {
            blocks: vec![Block::Text(text)],
            structured: serde_json::to_value(structured).ok(),
            is_error: false,
            pending: None,
        }
    }
}

impl From<Pending> for Reply {
    fn from(pending: Pending) -> Self {
        Self { blocks: Vec::new(), structured: None, is_error: false, pending: Some(Box::new(pending)) }
    }
}

impl Reply {
    /// A result as JSON, and as the same JSON in text.
    pub(crate) fn json(structured: &impl Serialize) -> Self {
        Self::new(serde_json::to_string(structured).unwrap_or_default(), structured)
    }

    /// A result as text only.
    pub(crate) fn text(text: String) -> Self {
        Self { blocks: vec![Block::Text(text)], structured: None, is_error: false, pending: None }
    }
}

impl From<Error> for Reply {
    fn from(error: Error) -> Self {
        let text = shortened(&error.to_string());
        Self { blocks: vec![Block::Text(text)], structured: None, is_error: true, pending: None }
    }
}
