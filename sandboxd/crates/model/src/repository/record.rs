//! Repositories that were fetched.

use sandbox_api::SnapshotId;

use super::{CommitHash, RepositoryOrigin};

/// How the session keys of sandboxes begin in which the daemon fetches a repository, or runs commands in one.
pub const SANDBOX_KEYS: &str = "fetched-repository:";

/// What distinguishes the files of one repository from those of another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepositoryKey {
    /// Where they come from.
    pub origin: RepositoryOrigin,
    /// The commit. Of a directory that is not a git repository, a hash of its files in the same form.
    pub commit: CommitHash,
    /// Whether the request for it had the token of its host. Then only those who may use that token get its files.
    pub with_token: bool,
}

/// A repository at one commit, as a request means it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Its files.
    pub key: RepositoryKey,
    /// The branch that the request named, or the default one.
    pub branch: Option<String>,
    /// Tags of the commit.
    pub tags: Vec<String>,
    /// The version of the package, if the request named one.
    pub version: Option<String>,
}

/// What is missing in the files of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RepositoryWarning {
    /// It has submodules, whose directories are empty.
    Submodules,
    /// It has files in Git LFS, which are pointers.
    Lfs,
    /// The directory has files that are not regular, or that the daemon may not read. They were skipped.
    Skipped,
}

impl RepositoryWarning {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Submodules, Self::Lfs, Self::Skipped];

    /// The name on the wire, and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submodules => "submodules",
            Self::Lfs => "lfs",
            Self::Skipped => "skipped",
        }
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|warning| warning.as_str() == text)
    }
}

/// A fetched repository, as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryRecord {
    /// Its files.
    pub key: RepositoryKey,
    /// The snapshot with them.
    pub snapshot: SnapshotId,
    /// Size of all files in bytes.
    pub size_bytes: u64,
    /// What is missing in them.
    pub warnings: Vec<RepositoryWarning>,
    /// When it was fetched, in milliseconds since the Unix epoch.
    pub fetched_at_ms: i64,
    /// When it was last used, in milliseconds since the Unix epoch. Written now and then.
    pub used_at_ms: i64,
}
