//! Rows of the table `repositories`.

use sandboxd_model::repository::{RepositoryKey, RepositoryOrigin, RepositoryRecord, RepositoryWarning};

use super::{BadColumn, from_json, row, to_json};

row! {
    /// A fetched repository.
    RepositoryRow {
        url: String,
        commit_hash: String,
        with_token: i64,
        snapshot: String,
        size_bytes: i64,
        warnings: String,
        fetched_at_ms: i64,
        used_at_ms: i64,
    }
}

impl From<&RepositoryRecord> for RepositoryRow {
    fn from(repository: &RepositoryRecord) -> Self {
        let RepositoryRecord { key, snapshot, size_bytes, warnings, fetched_at_ms, used_at_ms } = repository;
        let warnings: Vec<&str> = warnings.iter().map(|warning| warning.as_str()).collect();
        Self {
            url: key.origin.to_string(),
            commit_hash: key.commit.to_string(),
            with_token: key.with_token.into(),
            snapshot: snapshot.to_string(),
            size_bytes: i64::try_from(*size_bytes).unwrap_or(i64::MAX),
            warnings: to_json(&warnings),
            fetched_at_ms: *fetched_at_ms,
            used_at_ms: *used_at_ms,
        }
    }
}

impl RepositoryRow {
    pub(crate) fn record(self) -> Result<RepositoryRecord, BadColumn> {
        let warnings: Vec<String> = from_json("warnings", &self.warnings)?;
        Ok(RepositoryRecord {
            key: RepositoryKey {
                origin: RepositoryOrigin::parse(&self.url).map_err(|_| BadColumn("url"))?,
                commit: self.commit_hash.parse().map_err(|_| BadColumn("commit_hash"))?,
                with_token: self.with_token != 0,
            },
            snapshot: self.snapshot.parse().map_err(|_| BadColumn("snapshot"))?,
            size_bytes: u64::try_from(self.size_bytes).map_err(|_| BadColumn("size_bytes"))?,
            warnings: warnings.iter().filter_map(|name| RepositoryWarning::parse(name)).collect(),
            fetched_at_ms: self.fetched_at_ms,
            used_at_ms: self.used_at_ms,
        })
    }
}
