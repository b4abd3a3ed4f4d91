//! Rows of the tables `projects`, `tokens` and `revoked_subjects`.

use sandboxd_model::{ProjectRecord, RevokedSubject, Scopes, TokenDigest, TokenRecord};

use super::owner::{owner, project_column, subject_column};
use super::{BadColumn, number, row};

row! {
    /// A project.
    ProjectRow {
        name: String,
        created_at_ms: i64,
    }
}

row! {
    /// A token of a project.
    TokenRow {
        id: String,
        project: String,
        subject: String,
        name: Option<String>,
        scopes: i64,
        digest: Vec<u8>,
        created_at_ms: i64,
        expires_at_ms: Option<i64>,
        last_used_ms: Option<i64>,
    }
}

row! {
    /// A subject whose tokens were revoked.
    RevokedSubjectRow {
        project: String,
        subject: String,
        until_ms: i64,
    }
}

impl From<&RevokedSubject> for RevokedSubjectRow {
    fn from(revoked: &RevokedSubject) -> Self {
        Self {
            project: revoked.project.to_string(),
            subject: revoked.subject.to_string(),
            until_ms: revoked.until_ms,
        }
    }
}

impl RevokedSubjectRow {
    pub(crate) fn record(self) -> Result<RevokedSubject, BadColumn> {
        Ok(RevokedSubject {
            project: self.project.parse().map_err(|_| BadColumn("project"))?,
            subject: self.subject.parse().map_err(|_| BadColumn("subject"))?,
            until_ms: self.until_ms,
        })
    }
}

impl From<&ProjectRecord> for ProjectRow {
    fn from(record: &ProjectRecord) -> Self {
        Self { name: record.name.to_string(), created_at_ms: record.created_at_ms }
    }
}

impl ProjectRow {
    pub(crate) fn record(self) -> Result<ProjectRecord, BadColumn> {
        let name = self.name.parse().map_err(|_| BadColumn("name"))?;
        Ok(ProjectRecord { name, created_at_ms: self.created_at_ms })
    }
}

impl From<&TokenRecord> for TokenRow {
    fn from(record: &TokenRecord) -> Self {
        Self {
            id: record.id.to_string(),
            project: project_column(&record.owner),
            subject: subject_column(&record.owner),
            name: record.name.clone(),
            scopes: record.scopes.to_bits().into(),
            digest: record.digest.as_bytes().to_vec(),
            created_at_ms: record.created_at_ms,
            expires_at_ms: record.expires_at_ms,
            last_used_ms: record.last_used_ms,
        }
    }
}

impl TokenRow {
    pub(crate) fn record(self) -> Result<TokenRecord, BadColumn> {
        Ok(TokenRecord {
            id: self.id.parse().map_err(|_| BadColumn("id"))?,
            owner: owner(&self.project, &self.subject)?,
            name: self.name,
            scopes: Scopes::from_bits(number("scopes", self.scopes)?).ok_or(BadColumn("scopes"))?,
            digest: TokenDigest::from_bytes(&self.digest).ok_or(BadColumn("digest"))?,
            created_at_ms: self.created_at_ms,
            expires_at_ms: self.expires_at_ms,
            last_used_ms: self.last_used_ms,
        })
    }
}
