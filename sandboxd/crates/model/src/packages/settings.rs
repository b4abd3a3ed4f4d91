//! The operator's settings for packages.

use crate::repository::{GitTokens, HttpsUrl};

/// Settings for packages on request.
#[derive(Debug, Clone)]
pub struct PackageSettings {
    /// Total size of the resolved sets that are kept, in bytes. 0 resolves nothing.
    pub kept_bytes: u64,
    /// Maximum that one resolution transfers, in bytes.
    pub max_fetched_bytes: u64,
    /// The index: what is below it is the simple repository API (PEP 503 and 691).
    pub index: HttpsUrl,
    /// Credentials of the index, by host.
    pub credentials: GitTokens,
}
