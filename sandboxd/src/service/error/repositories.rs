//! Why a repository cannot be used.

use std::time::Duration;

use sandbox_api::ErrorCode;
use serde_json::json;
use thiserror::Error;

use crate::git;
use crate::model::PublicError;
use crate::model::echo::Echo;

/// Why a repository cannot be used.
#[derive(Debug, Error)]
#[error("{}", self.to_public().message)]
pub enum RepositoryError {
    /// The operator has turned repositories off.
    Off,
    /// There is no such repository, or it is not for us.
    NotFound {
        /// Its address, or the name of the package.
        repository: String,
    },
    /// The package does not name a repository.
    NoRepository {
        /// Name of the package.
        package: String,
    },
    /// The package has no such version, or the repository has no tag for it.
    NoVersion {
        /// Its address, or the name of the package.
        repository: String,
        /// As in the request. `None` is the latest.
        version: Option<String>,
    },
    /// The repository has no such branch, tag or commit.
    NoRef {
        /// Its address.
        repository: String,
        /// As in the request. `None` is the default branch.
        name: Option<String>,
    },
    /// Several commits begin with the digits of the request.
    Ambiguous {
        /// As in the request.
        name: String,
    },
    /// The server permits no more requests for now.
    RateLimited {
        /// Time after which it permits more, if it says so.
        retry_after: Option<Duration>,
    },
    /// The fetch transferred as much as one may.
    TooLarge {
        /// Maximum in bytes.
        max_bytes: u64,
    },
    /// The address must not be reached, or a redirect leads to one that must not.
    NotReached {
        /// What is wrong.
        problem: &'static str,
        /// Why.
        source: git::Error,
    },
    /// The server failed, or does not respond.
    Server {
        /// What is wrong.
        problem: String,
        /// Why.
        source: git::Error,
    },
    /// Git could not write the files.
    Failed,
    /// The fetch took too long.
    TooSlow,
    /// The directory cannot be read.
    Unreadable {
        /// Why.
        source: git::Error,
    },
    /// The directory has other files than when it was looked at.
    Changed,
    /// The directory has more entries than are read.
    TooManyFiles {
        /// Maximum number.
        max: usize,
    },
    /// The directory is something that is not read.
    Unsupported {
        /// What it is.
        problem: &'static str,
    },
    /// As many fetches run as may.
    Busy {
        /// Maximum number.
        max: usize,
    },
}

impl RepositoryError {
    /// The part of the error that clients see.
    pub(super) fn to_public(&self) -> PublicError {
        match self {
            Self::Off => PublicError::new(
                ErrorCode::Refused,
                "repositories are not available here; the operator has set SANDBOXD_REPOSITORIES_MB to 0",
                json!({}),
            ),
            Self::NotFound { repository } => PublicError::new(
                ErrorCode::RepoNotFound,
                format!("the repository {} was not found, or is private", Echo(repository)),
                json!({ "repository": repository }),
            ),
            Self::NoRepository { package } => PublicError::new(
                ErrorCode::RepoNotFound,
                format!("the package {} names no repository that can be fetched", Echo(package)),
                json!({ "repository": package }),
            ),
            Self::NoVersion { repository, version } => PublicError::new(
                ErrorCode::VersionNotFound,
                match version {
                    Some(version) => format!("{} has no version {}", Echo(repository), Echo(version)),
                    None => format!("{} has no version", Echo(repository)),
                },
                json!({ "repository": repository, "version": version }),
            ),
            Self::NoRef { repository, name } => PublicError::new(
                ErrorCode::TagNotFound,
                match name {
                    Some(name) => {
                        format!("{} has no branch, tag or commit {}", Echo(repository), Echo(name))
                    }
                    None => format!("{} has no default branch", Echo(repository)),
                },
                json!({ "repository": repository, "ref": name }),
            ),
            Self::Ambiguous { name } => PublicError::new(
                ErrorCode::TagNotFound,
                format!("several commits begin with {}; use more digits", Echo(name)),
                json!({ "ref": name }),
            ),
            Self::RateLimited { retry_after } => PublicError::new(
                ErrorCode::RateLimited,
                "the server of the repository or package permits no more requests for now",
                json!({}),
            )
            .with_retry_after(Some(retry_after.map_or(60, |after| after.as_secs().clamp(1, 3600)))),
            Self::TooLarge { max_bytes } => PublicError::new(
                ErrorCode::TooLarge,
                format!(
                    "the repository has more than {} MiB to fetch, which SANDBOXD_REPOSITORY_MAX_MB allows",
                    max_bytes / (1024 * 1024)
                ),
                json!({ "limit": max_bytes }),
            ),
            Self::NotReached { problem, .. } => {
                PublicError::new(ErrorCode::Refused, *problem, json!({ "field": "repository" }))
            }
            Self::Server { problem, .. } => {
                PublicError::new(ErrorCode::Unavailable, problem.clone(), json!({}))
            }
            Self::Failed => PublicError::new(
                ErrorCode::Refused,
                "git could not write the files of the repository; they may be too large for a sandbox",
                json!({}),
            ),
            Self::TooSlow => PublicError::new(
                ErrorCode::DeadlineExceeded,
                "the repository was not fetched in time",
                json!({}),
            ),
            Self::Unreadable { .. } => PublicError::new(
                ErrorCode::Unavailable,
                "the daemon cannot read the directory of the repository; its log says why",
                json!({}),
            ),
            Self::Changed => PublicError::new(
                ErrorCode::Unavailable,
                "the directory of the repository changes while it is read; try again",
                json!({}),
            ),
            Self::TooManyFiles { max } => PublicError::new(
                ErrorCode::TooLarge,
                format!("the directory of the repository has more than {max} entries"),
                json!({ "limit": max }),
            ),
            Self::Unsupported { problem } => PublicError::new(
                ErrorCode::Refused,
                format!("the directory of the repository cannot be used: {problem}"),
                json!({ "field": "repository" }),
            ),
            Self::Busy { max } => PublicError::new(
                ErrorCode::CapacityExhausted,
                format!("the limit of {max} fetches of repositories at once is reached; try again"),
                json!({ "limit": "fetches", "value": max }),
            ),
        }
    }
}
