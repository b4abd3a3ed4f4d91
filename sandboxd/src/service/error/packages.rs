//! Why packages are not available.

use std::time::Duration;

use sandbox_api::ErrorCode;
use serde_json::json;
use thiserror::Error;

use crate::git::{self, Lacks};
use crate::model::PublicError;
use crate::model::echo::Echo;

/// What uv says of a package whose wheels are all for other platforms or versions of Python, or whose source code it could not
/// build.
const NO_WHEELS: [&str; 4] = ["has no wheels", "have no wheels", "no usable wheels", "Failed to build"];

/// Why packages are not available.
#[derive(Debug, Error)]
#[error("{}", self.to_public().message)]
pub enum PackageError {
    /// The operator has turned packages off.
    Off,
    /// The network policy of the sandbox forbids the index.
    NotAllowed {
        /// The host of the index.
        host: String,
    },
    /// The index does not have the package.
    NotFound {
        /// Its normalized name.
        package: String,
    },
    /// The index has no wheel of the package for this platform, and its source code could not be built.
    NoWheel {
        /// Its normalized name. `None` if uv's explanation has it.
        package: Option<String>,
        /// What uv says.
        explanation: String,
    },
    /// No versions meet all requirements.
    NoVersions {
        /// What uv says.
        explanation: String,
    },
    /// The index permits no more requests for now.
    RateLimited {
        /// Time after which it permits more, if it says so.
        retry_after: Option<Duration>,
    },
    /// The resolution transferred as much as one may.
    TooLarge {
        /// Maximum in bytes.
        max_bytes: u64,
    },
    /// The index must not be reached, or a redirect leads to an address that must not.
    NotReached {
        /// Why.
        source: git::Error,
    },
    /// The index failed, or does not respond.
    Server {
        /// Why.
        source: git::Error,
    },
    /// The wheels could not be unpacked.
    Failed,
    /// The resolution took too long.
    TooSlow,
    /// As many resolutions run as may.
    Busy {
        /// Maximum number.
        max: usize,
    },
}

impl PackageError {
    /// What an error of the index means.
    pub(in crate::service) fn of(error: git::Error) -> Self {
        match error {
            git::Error::RateLimited { retry_after } => Self::RateLimited { retry_after },
            git::Error::TooLarge { max } => Self::TooLarge { max_bytes: max },
            git::Error::Redirect | git::Error::Gate { source: crate::egress::Error::Denied { .. } } => {
                Self::NotReached { source: error }
            }
            error => Self::Server { source: error },
        }
    }

    /// Why uv found no versions. `explanation` comes from uv and names what the index has.
    pub(in crate::service) fn unresolved(lacks: Lacks, explanation: &str) -> Self {
        let explanation = plain(explanation);
        let Lacks { packages, wheels } = lacks;
        if let Some(package) = packages.into_iter().next() {
            return Self::NotFound { package };
        }
        let package = wheels.into_iter().next();
        if package.is_some() || NO_WHEELS.iter().any(|words| explanation.contains(words)) {
            return Self::NoWheel { package, explanation };
        }
        Self::NoVersions { explanation }
    }

    /// The part of the error that clients see.
    pub(super) fn to_public(&self) -> PublicError {
        match self {
            Self::Off => PublicError::new(
                ErrorCode::Refused,
                "packages are not available here; the operator has set SANDBOXD_PACKAGES_MB to 0",
                json!({ "field": "packages" }),
            ),
            Self::NotAllowed { host } => PublicError::new(
                ErrorCode::Refused,
                format!(
                    "the network policy of the sandbox does not allow the package index; add {} to `network.allow`",
                    Echo(host)
                ),
                json!({ "field": "packages", "host": host }),
            ),
            Self::NotFound { package } => PublicError::new(
                ErrorCode::PackageNotFound,
                format!("the index has no package {}", Echo(package)),
                json!({ "package": package }),
            ),
            Self::NoWheel { package, explanation } => PublicError::new(
                ErrorCode::NoWheel,
                match package {
                    Some(package) => format!(
                        "the index has no wheel of {}, and none could be built from its source code",
                        Echo(package)
                    ),
                    None => "the index has no wheels for this platform that meet the requirements, and none could be \
                             built from source code"
                        .to_owned(),
                },
                json!({ "package": package, "explanation": explanation }),
            ),
            Self::NoVersions { explanation } => PublicError::new(
                ErrorCode::VersionNotFound,
                "no versions of the packages meet all requirements",
                json!({ "explanation": explanation }),
            ),
            Self::RateLimited { retry_after } => PublicError::new(
                ErrorCode::RateLimited,
                "the package index permits no more requests for now",
                json!({}),
            )
            .with_retry_after(Some(retry_after.map_or(60, |after| after.as_secs().clamp(1, 3600)))),
            Self::TooLarge { max_bytes } => PublicError::new(
                ErrorCode::TooLarge,
                format!(
                    "the packages have more than {} MiB to fetch, which SANDBOXD_PACKAGES_MAX_MB allows",
                    max_bytes / (1024 * 1024)
                ),
                json!({ "limit": max_bytes }),
            ),
            Self::NotReached { .. } => PublicError::new(
                ErrorCode::Refused,
                "the package index, or what it redirects to, must not be reached from here",
                json!({ "field": "packages" }),
            ),
            Self::Server { .. } => PublicError::new(
                ErrorCode::Unavailable,
                "the package index fails or does not respond",
                json!({}),
            ),
            Self::Failed => PublicError::new(
                ErrorCode::Refused,
                "the packages could not be unpacked; they may be too large for a sandbox",
                json!({}),
            ),
            Self::TooSlow => PublicError::new(
                ErrorCode::DeadlineExceeded,
                "the packages were not resolved in time",
                json!({}),
            ),
            Self::Busy { max } => PublicError::new(
                ErrorCode::CapacityExhausted,
                format!("the limit of {max} resolutions of packages at once is reached; try again"),
                json!({ "limit": "resolutions", "value": max }),
            ),
        }
    }
}

/// A text of another program in one line, without control characters.
fn plain(text: &str) -> String {
    let words = text.split(|char: char| char.is_whitespace() || char.is_control());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_index_lacks_precedes_what_uv_says() {
        let code = |packages: &[&str], wheels: &[&str], text: &str| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let lacks = Lacks { packages: owned(packages), wheels: owned(wheels) };
            PackageError::unresolved(lacks, text).to_public().code
        };
        assert_eq!(code(&["a"], &["b"], ""), ErrorCode::PackageNotFound);
        assert_eq!(code(&[], &["b"], ""), ErrorCode::NoWheel);
        assert_eq!(code(&[], &[], "Because a has no wheels\nwith a tag"), ErrorCode::NoWheel);
        assert_eq!(code(&[], &[], "× Failed to build `a==1`"), ErrorCode::NoWheel);
        assert_eq!(code(&[], &[], "Because only a<3 is available"), ErrorCode::VersionNotFound);
        let error = PackageError::unresolved(Lacks::default(), "  × No\u{1b}[31m solution\n  ╰─▶ found ");
        let details = error.to_public().details;
        assert_eq!(details["explanation"], "× No [31m solution ╰─▶ found");
    }
}
