//! Repositories: how a request names one, which commit it means, and what is kept of one that was fetched.
//!
//! Nothing here ever becomes an argument of a program. A name from a request is parsed into an `https` address or into the name
//! of a directory in the operator's settings, and a commit into its hash.

mod commit;
mod directory;
mod git_ref;
mod https_url;
mod npm;
mod origin;
mod record;
mod refs;
mod settings;
mod source;

pub use commit::CommitHash;
pub use directory::{AllowedDirectories, DirectoryName};
pub use git_ref::GitRef;
pub use https_url::HttpsUrl;
pub use npm::{PackageName, PackageVersion, normalized_url};
pub use origin::RepositoryOrigin;
pub use record::{Repository, RepositoryKey, RepositoryRecord, RepositoryWarning, SANDBOX_KEYS};
pub use refs::{Advertisement, Found, NoCommit};
pub use settings::{GitTokens, RepositorySettings};
pub use source::{RepositorySource, tags_for};
