//! What a line says.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// First line of a file. `details` has its number and the last MAC of the file before it.
pub(crate) const FILE: &str = "record.file";

/// The last line was incomplete when the daemon started, and was removed. It was of an act that had not been answered.
pub(crate) const TORN: &str = "record.torn";

/// Lines were missing or changed when the daemon started.
pub(crate) const DAMAGED: &str = "record.damaged";

/// Acts of the daemon itself that could not be recorded while the disk was full.
pub(crate) const OMITTED: &str = "record.omitted";

/// Old files are removed, because there are more than the operator keeps.
pub(crate) const REMOVE: &str = "record.remove";

/// What a line says, besides its sequence number and its time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Name of the act.
    pub act: Cow<'static, str>,
    /// Sequence number of the line that this one gives the outcome of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// How the act ended: `ok`, or the code of an error. `None` before it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Cow<'static, str>>,
    /// Project of the principal. `None` for acts of the daemon itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Name or id of its token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Id of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What the act is about.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

impl Entry {
    /// An act, without anything else.
    pub fn new(act: impl Into<Cow<'static, str>>) -> Self {
        Self { act: act.into(), ..Self::default() }
    }

    /// Adds a detail. A `None` adds nothing.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        let value = json!(value);
        if !value.is_null() {
            self.details.insert(name.to_owned(), value);
        }
        self
    }

    /// The number in a detail.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.details.get(name)?.as_u64()
    }

    /// The text in a detail.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.details.get(name)?.as_str()
    }
}
