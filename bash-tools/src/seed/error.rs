//! Why a workspace has not got its first files.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::provider::{self, EndReason};

/// Whether a seed is there.
pub type Result<T> = std::result::Result<T, Error>;

/// It is not. No variant has a secret in it, whatever git and its server have said.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The sandbox or its provider.
    #[error("{0}")]
    Provider(#[source] provider::Error),
    /// Somebody may have worked in the workspace before, and could have left something that reads the credentials.
    #[error(
        "the workspace has no seed, and was in use before, so the repository's credentials are not sent there: delete the chat's sandbox to begin anew"
    )]
    UsedBefore,
    /// What is no address of a repository. It is not repeated, because it may hold a password.
    #[error(
        "app.bash_tools.seed.git_url must be the https URL of a repository, without a name and password: {fault}"
    )]
    BadGitUrl {
        /// What is wrong with it.
        fault: GitUrlFault,
    },
    /// What names nothing in a repository, or is more than a name.
    #[error(
        "app.bash_tools.seed.git_revision must be the name of a branch or tag, or a commit, and {revision:?} is none"
    )]
    BadGitRevision {
        /// Its beginning.
        revision: String,
    },
    /// Anybody on the way could read the token.
    #[error("a token for a repository is only sent by https, and app.bash_tools.seed.git_url is not")]
    TokenWithoutHttps,
    /// It would not reach the server as it is.
    #[error(
        "the name and token for the repository must have 1 to {limit_bytes} bytes each, and no line breaks or control characters"
    )]
    BadGitCredentials {
        /// Most that either may have.
        limit_bytes: usize,
    },
    /// Servers answer the same for both.
    #[error("the repository needs credentials, or does not exist: set app.bash_tools.seed.git_token_env")]
    NeedsCredentials,
    /// The server knows them, or not, and does not let them in.
    #[error("the repository's server refuses the token that app.bash_tools.seed.git_token_env names: {said}")]
    CredentialsRefused {
        /// Git's words.
        said: String,
    },
    /// The server says so.
    #[error("the repository of app.bash_tools.seed.git_url does not exist, or needs credentials to be seen")]
    NoRepository,
    /// Nothing has been committed yet.
    #[error("the repository of app.bash_tools.seed.git_url is empty")]
    EmptyRepository,
    /// Neither branch, tag nor commit.
    #[error("the repository has no branch, tag or commit {revision:?} (app.bash_tools.seed.git_revision)")]
    NoRevision {
        /// What was asked for.
        revision: String,
    },
    /// What is fetched, or what it unpacks to.
    #[error(
        "the repository is larger than {limit_bytes} bytes (app.bash_tools.seed.max_bytes), packed or checked out, or has more than {limit_files} files"
    )]
    RepositoryTooLarge {
        /// For its pack, and for its files together.
        limit_bytes: u64,
        /// For their number.
        limit_files: u64,
    },
    /// The network or its policy.
    #[error("the repository's server was not reached from the sandbox: {said}")]
    NotReached {
        /// Git's words.
        said: String,
    },
    /// Git, for any other reason.
    #[error("git could not clone the repository: {said}")]
    Git {
        /// Its words.
        said: String,
    },
    /// It took too long.
    #[error("planting the seed was given up after {} s", .after.as_secs())]
    TimedOut {
        /// How long it took.
        after: Duration,
    },
    /// It was ended from outside.
    #[error("planting the seed was ended in the middle ({reason:?})")]
    Ended {
        /// Why.
        reason: EndReason,
    },
    /// Not git, but what is around it.
    #[error("the workspace could not be prepared (exit code {exit_code}): {said}")]
    Workspace {
        /// Of the script.
        exit_code: i32,
        /// What was said.
        said: String,
    },
    /// What should be uploaded is not there.
    #[error("app.bash_tools.project_root cannot be read: {}", .source.kind())]
    NoRoot {
        /// As configured.
        root: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What should be uploaded is a file or worse.
    #[error("app.bash_tools.project_root is not a directory")]
    RootIsNoDirectory {
        /// As configured.
        root: PathBuf,
    },
    /// What is no pattern.
    #[error("app.bash_tools.seed.upload_include {include:?} is not a glob")]
    BadInclude {
        /// As configured.
        include: String,
        /// Why.
        source: globset::Error,
    },
    /// A pattern for other files, most likely.
    #[error(
        "app.bash_tools.seed.upload_include {include:?} matches none of the {candidates} files in app.bash_tools.project_root"
    )]
    NothingIncluded {
        /// As configured.
        include: String,
        /// Where it was looked for.
        root: PathBuf,
        /// How many there were.
        candidates: usize,
    },
    /// Nothing was sent.
    #[error("{}{found} files would be uploaded, and at most {limit} may be: narrow app.bash_tools.seed.upload_include", if *.is_all { "" } else { "more than " })]
    TooManyFiles {
        /// Most that may be.
        limit: usize,
        /// How many there are.
        found: usize,
        /// Whether all were counted.
        is_all: bool,
    },
    /// Nothing was sent.
    #[error(
        "{found} bytes would be uploaded, and at most {limit} may be (app.bash_tools.seed.max_bytes): narrow app.bash_tools.seed.upload_include"
    )]
    TooManyBytes {
        /// Most that may be.
        limit: u64,
        /// How many there are.
        found: u64,
    },
    /// A file or directory. One that is missing in silence would be worse than none at all.
    #[error("{} cannot be read: {}: make it readable, or leave it out by .gitignore or app.bash_tools.seed.upload_include", .path.display(), .source.kind())]
    Unreadable {
        /// Beneath the root.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that had lost some of its end when its turn came.
    #[error("{} became shorter while it was uploaded", .path.display())]
    Shrunk {
        /// Beneath the root.
        path: PathBuf,
    },
    /// This machine's own trouble while packing.
    #[error("the upload could not be packed: {}", .0.kind())]
    Packing(#[source] io::Error),
    /// A bug.
    #[error("the upload was given up in the middle")]
    Stopped,
}

/// What is wrong with a repository's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GitUrlFault {
    /// Such as something that begins with `-`.
    #[error("it is no URL")]
    NoUrl,
    /// Blanks, control characters, quotes, backslashes and others that a URL cannot have as they are.
    #[error("it has a character that no URL has")]
    OddCharacter,
    /// For one command's environment.
    #[error("it is longer than {limit_bytes} bytes")]
    TooLong {
        /// Most that may be.
        limit_bytes: usize,
    },
    /// Such as `ext`, `file` or `ssh`.
    #[error("git may only use https for it")]
    Scheme,
    /// Without leave.
    #[error("anybody on the way can change what comes by http; use https, or set git_allow_http")]
    Http,
    /// Here they would be seen by everybody in the sandbox.
    #[error("it has a name or password, which app.bash_tools.seed.git_token_env is for")]
    Credentials,
}

impl From<provider::Error> for Error {
    fn from(error: provider::Error) -> Self {
        Self::Provider(error)
    }
}
