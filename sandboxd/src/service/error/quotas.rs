//! Why a project's quotas do not permit a request.

use sandbox_api::ErrorCode;
use serde_json::json;
use thiserror::Error;

use crate::model::echo::Echo;
use crate::model::{NetworkMode, PublicError, Quota};

/// Why a project's quotas do not permit a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", self.to_public().message)]
pub enum QuotaError {
    /// The project uses as much as it may. A retry helps when it uses less.
    Reached {
        /// The quota.
        quota: Quota,
        /// Its value.
        value: u64,
    },
    /// The subject has as many sandboxes as one of the project may have.
    OfSubject {
        /// The quota `sandboxesPerSubject`.
        value: u64,
    },
    /// One request wants more than the project may ever use.
    TooMuch {
        /// The quota.
        quota: Quota,
        /// Its value.
        value: u64,
        /// What the request wants.
        wanted: u64,
    },
    /// The project may not use the image.
    Image {
        /// As in the request, or the daemon's own.
        image: String,
    },
    /// The project may not use the network mode.
    NetworkMode {
        /// As in the request, or the default.
        mode: NetworkMode,
    },
    /// The running sandboxes that projects are guaranteed would be more than the daemon runs.
    Guarantees {
        /// What is left for the project.
        available: u64,
    },
}

impl QuotaError {
    /// The part of the error that clients see.
    pub(super) fn to_public(&self) -> PublicError {
        match self {
            Self::Reached { quota, value } => PublicError::new(
                ErrorCode::CapacityExhausted,
                format!("the project's quota is reached: {value} ({})", quota.as_str()),
                json!({ "quota": quota.as_str(), "value": value }),
            ),
            Self::OfSubject { value } => PublicError::new(
                ErrorCode::CapacityExhausted,
                format!("the subject's quota is reached: {value} (sandboxesPerSubject)"),
                json!({ "quota": "sandboxesPerSubject", "value": value }),
            ),
            Self::TooMuch { quota, value, wanted } => PublicError::new(
                ErrorCode::Refused,
                format!(
                    "the request needs {wanted}, which is more than the project's quota: {value} ({})",
                    quota.as_str()
                ),
                json!({ "quota": quota.as_str(), "value": value, "wanted": wanted }),
            ),
            Self::Image { image } => PublicError::new(
                ErrorCode::Refused,
                format!("the project's quota `images` does not include the image {}", Echo(image)),
                json!({ "quota": "images", "field": "image", "value": image }),
            ),
            Self::NetworkMode { mode } => PublicError::new(
                ErrorCode::Refused,
                format!("the project's quota `networkModes` does not include the mode `{}`", mode.as_str()),
                json!({ "quota": "networkModes", "field": "network.mode", "value": mode.as_str() }),
            ),
            Self::Guarantees { available } => PublicError::new(
                ErrorCode::InvalidRequest,
                format!(
                    "`quotas.guaranteedRunning` must be at most {available}: the projects together cannot be guaranteed more sandboxes than SANDBOXD_MAX_CONCURRENT"
                ),
                json!({ "field": "quotas.guaranteedRunning", "available": available }),
            ),
        }
    }
}
