//! Errors of seeding a workspace.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::provider::{self, EndReason};

/// Result of seeding.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a workspace could not be seeded. No variant contains a secret, whatever git and its server report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The sandbox or its provider failed.
    #[error("{0}")]
    Provider(#[source] provider::Error),
    /// The workspace was used before, and may contain something that reads the credentials.
    #[error(
        "the workspace has no seed, and was in use before, so the repository's credentials are not sent there: delete the chat's sandbox to start again"
    )]
    UsedBefore,
    /// The URL is not valid for a repository. It is not repeated, because it may contain a password.
    #[error(
        "app.bash_tools.seed.git_url must be the https URL of a repository, without a name and password: {fault}"
    )]
    BadGitUrl {
        /// What is wrong with it.
        fault: GitUrlFault,
    },
    /// The revision is not a valid name.
    #[error(
        "app.bash_tools.seed.git_revision must be the name of a branch or tag, or a commit, not {revision:?}"
    )]
    BadGitRevision {
        /// Beginning of the revision.
        revision: String,
    },
    /// Without https, the token could be read in transit.
    #[error("a repository's token is only sent over https, and app.bash_tools.seed.git_url uses http")]
    TokenWithoutHttps,
    /// The credentials cannot be sent unchanged.
    #[error(
        "the name and token for the repository must have 1 to {limit_bytes} bytes each, and no line breaks or control characters"
    )]
    BadGitCredentials {
        /// Maximum number of bytes of either.
        limit_bytes: usize,
    },
    /// The repository needs credentials or does not exist. Servers do not distinguish the two.
    #[error("the repository needs credentials, or does not exist: set app.bash_tools.seed.git_token_env")]
    NeedsCredentials,
    /// The server rejected the credentials.
    #[error(
        "the repository's server rejects the token that app.bash_tools.seed.git_token_env names: {message}"
    )]
    CredentialsRefused {
        /// Message of git.
        message: String,
    },
    /// The server reports that the repository does not exist.
    #[error("the repository of app.bash_tools.seed.git_url does not exist, or needs credentials")]
    NoRepository,
    /// The repository has no commits.
    #[error("the repository of app.bash_tools.seed.git_url is empty")]
    EmptyRepository,
    /// No branch, tag or commit has this name.
    #[error("the repository has no branch, tag or commit {revision:?} (app.bash_tools.seed.git_revision)")]
    NoRevision {
        /// Requested revision.
        revision: String,
    },
    /// The fetched pack or the checked-out files are too large.
    #[error(
        "the repository is larger than {limit_bytes} bytes (app.bash_tools.seed.max_bytes), packed or checked out, or has more than {limit_files} files"
    )]
    RepositoryTooLarge {
        /// Maximum size of the pack, and of all files together.
        limit_bytes: u64,
        /// Maximum number of files.
        limit_files: u64,
    },
    /// The server is unreachable, or the network policy denies it.
    #[error("the repository's server was not reached from the sandbox: {message}")]
    NotReached {
        /// Message of git.
        message: String,
    },
    /// Git failed for another reason.
    #[error("git could not clone the repository: {message}")]
    Git {
        /// Message of git.
        message: String,
    },
    /// The time limit expired.
    #[error("seeding the workspace timed out after {} s", .after.as_secs())]
    TimedOut {
        /// Time limit.
        after: Duration,
    },
    /// The seed was ended from outside.
    #[error("seeding the workspace was interrupted ({reason:?})")]
    Ended {
        /// Why it was ended.
        reason: EndReason,
    },
    /// A script around git failed.
    #[error("the workspace could not be prepared (exit code {exit_code}): {message}")]
    Workspace {
        /// Exit code of the script.
        exit_code: i32,
        /// Message of the script.
        message: String,
    },
    /// The directory to upload cannot be read.
    #[error("app.bash_tools.project_root cannot be read: {}", .source.kind())]
    NoRoot {
        /// Path as configured.
        root: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The path to upload is not a directory.
    #[error("app.bash_tools.project_root is not a directory")]
    RootIsNoDirectory {
        /// Path as configured.
        root: PathBuf,
    },
    /// The pattern is not a valid glob.
    #[error("app.bash_tools.seed.upload_include {include:?} is not a glob")]
    BadInclude {
        /// Pattern as configured.
        include: String,
        /// Cause.
        source: globset::Error,
    },
    /// The pattern matches no file.
    #[error(
        "app.bash_tools.seed.upload_include {include:?} matches none of the {candidates} files in app.bash_tools.project_root"
    )]
    NothingIncluded {
        /// Pattern as configured.
        include: String,
        /// Directory that was searched.
        root: PathBuf,
        /// Number of files in it.
        candidates: usize,
    },
    /// There are too many files. Nothing was sent.
    #[error("{}{found} files exceed the upload limit of {limit}: narrow app.bash_tools.seed.upload_include", if *.is_all { "" } else { "more than " })]
    TooManyFiles {
        /// Maximum number of files.
        limit: usize,
        /// Number of files found.
        found: usize,
        /// Whether all files were counted.
        is_all: bool,
    },
    /// The files are too large. Nothing was sent.
    #[error(
        "{found} bytes exceed the upload limit of {limit} (app.bash_tools.seed.max_bytes): narrow app.bash_tools.seed.upload_include"
    )]
    TooManyBytes {
        /// Maximum number of bytes.
        limit: u64,
        /// Actual number of bytes.
        found: u64,
    },
    /// A file or directory cannot be read. Silently skipping it would be worse than no upload.
    #[error("{} cannot be read: {}: make it readable, or exclude it with .gitignore or app.bash_tools.seed.upload_include", .path.display(), .source.kind())]
    Unreadable {
        /// Path relative to the root.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file became shorter before it was packed.
    #[error("{} became shorter while it was uploaded", .path.display())]
    Shrunk {
        /// Path relative to the root.
        path: PathBuf,
    },
    /// Packing failed on this machine.
    #[error("the upload could not be packed: {}", .0.kind())]
    Packing(#[source] io::Error),
    /// A bug.
    #[error("the upload was aborted")]
    Stopped,
}

/// Why a repository's URL is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GitUrlFault {
    /// It is not a URL, for example because it begins with `-`.
    #[error("it is not a URL")]
    NoUrl,
    /// It contains characters that a URL must escape, such as white space, control characters, quotes or backslashes.
    #[error("it contains an invalid character")]
    OddCharacter,
    /// It is too long for a command's environment.
    #[error("it is longer than {limit_bytes} bytes")]
    TooLong {
        /// Maximum number of bytes.
        limit_bytes: usize,
    },
    /// Its scheme is not supported, such as `ext`, `file` or `ssh`.
    #[error("it must be an https URL")]
    Scheme,
    /// It uses `http` without permission.
    #[error("http does not protect the data in transit; use https, or set git_allow_http")]
    Http,
    /// It contains credentials, which would be visible to everything in the sandbox.
    #[error("it contains a name or password; use app.bash_tools.seed.git_token_env instead")]
    Credentials,
}

impl From<provider::Error> for Error {
    fn from(error: provider::Error) -> Self {
        Self::Provider(error)
    }
}
