//! Pages of the newest lines, for the operator.

use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use super::Audit;
use crate::audit::page::{Content, Cursor, page};
use crate::model::FieldError;
use crate::service::{ByOperator, Error};

/// Which lines are wanted.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Those of this project.
    pub project: Option<String>,
    /// Those of this act, or of all acts whose names begin with it and a dot.
    pub act: Option<String>,
}

/// A line of the record.
#[derive(Debug, Clone)]
pub struct AuditLine {
    /// Its sequence number.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// Name of the act.
    pub act: String,
    /// Sequence number of the line of the act's beginning.
    pub of: Option<u64>,
    /// How the act ended. `None` in the line of its beginning.
    pub outcome: Option<String>,
    /// Project of the principal.
    pub project: Option<String>,
    /// Subject of the principal.
    pub subject: Option<String>,
    /// Name or id of its token. `None` for acts of the daemon itself.
    pub token: Option<String>,
    /// Id of the request.
    pub request_id: Option<String>,
    /// What the act is about.
    pub details: Map<String, Value>,
}

/// Lines of the record, newest first.
#[derive(Debug)]
pub struct AuditPage {
    /// The lines.
    pub lines: Vec<AuditLine>,
    /// Where the next page begins. `None` if this is the last one.
    pub next: Option<String>,
}

impl Audit {
    /// Lines of the record, newest first. A page may have fewer lines than `limit` although there are more.
    pub async fn list(
        &self,
        filter: AuditFilter,
        cursor: Option<&str>,
        limit: usize,
        _: &ByOperator,
    ) -> Result<AuditPage, Error> {
        let cursor = cursor.map(str::parse::<Cursor>).transpose();
        let cursor = cursor.map_err(|error| FieldError::new("cursor", error.to_string()))?;
        let dir = self.settings.dir.clone();
        let read = spawn_blocking(move || page(&dir, cursor, limit, |line| filter.wants(line)));
        let found = read.await.map_err(|source| Error::Task { source })??;
        let next = found.next.map(|cursor| cursor.to_string());
        Ok(AuditPage { lines: found.lines.into_iter().map(Into::into).collect(), next })
    }
}

impl AuditFilter {
    fn wants(&self, line: &Content) -> bool {
        let is_project = |project: &String| line.entry.project.as_ref() == Some(project);
        let is_act = |act: &String| {
            let rest = line.entry.act.strip_prefix(act.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.project.as_ref().is_none_or(is_project) && self.act.as_ref().is_none_or(is_act)
    }
}

impl From<Content> for AuditLine {
    fn from(Content { seq, at, entry }: Content) -> Self {
        Self {
            seq,
            at,
            act: entry.act.into_owned(),
            of: entry.of,
            outcome: entry.outcome.map(Into::into),
            project: entry.project,
            subject: entry.subject,
            token: entry.token,
            request_id: entry.request_id,
            details: entry.details,
        }
    }
}
