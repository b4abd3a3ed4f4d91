//! Why a sandbox cannot have what its request specifies.

use sandbox_api::ErrorCode;
use serde_json::json;
use thiserror::Error;

use crate::engine;
use crate::model::PublicError;
use crate::model::echo::Echo;

/// Why a sandbox cannot have what its request specifies.
#[derive(Debug, Error)]
#[error("{}", self.to_public().message)]
pub enum SpecError {
    /// The runtime does not exist.
    UnknownRuntime {
        /// As in the request.
        runtime: String,
    },
    /// The operator does not allow the image.
    ImageNotAllowed {
        /// As in the request.
        image: String,
    },
    /// The image is allowed but missing, and a pull failed.
    ImageUnavailable {
        /// As in the request.
        image: String,
        /// The engine's error.
        source: engine::Error,
    },
    /// The operator does not allow sandboxes with a network of their own.
    OpenNotAllowed,
    /// A sandbox with a container keeps the container's network.
    NetworkHeld,
}

impl SpecError {
    /// The part of the error that clients see.
    pub(super) fn to_public(&self) -> PublicError {
        match self {
            Self::UnknownRuntime { runtime } => PublicError::new(
                ErrorCode::Refused,
                format!("the runtime {} is not offered, only node24 and python3.13", Echo(runtime)),
                json!({ "field": "runtime", "value": runtime }),
            ),
            Self::ImageNotAllowed { image } => PublicError::new(
                ErrorCode::Refused,
                format!("the image {} is not allowed here; see SANDBOXD_ALLOWED_IMAGES", Echo(image)),
                json!({ "field": "image", "value": image }),
            ),
            Self::ImageUnavailable { image, .. } => PublicError::new(
                ErrorCode::Refused,
                format!("the image {} is not on the engine and cannot be pulled", Echo(image)),
                json!({ "field": "image", "value": image }),
            ),
            Self::OpenNotAllowed => PublicError::new(
                ErrorCode::Forbidden,
                "the network mode `open` is not allowed here; SANDBOXD_ALLOW_OPEN_NETWORK=1 allows it",
                json!({ "field": "network.mode" }),
            ),
            Self::NetworkHeld => PublicError::new(
                ErrorCode::WrongState,
                "the network mode changes from or to `open` only while the sandbox is parked; park it first",
                json!({ "field": "network.mode" }),
            ),
        }
    }
}
