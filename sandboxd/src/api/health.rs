//! Health and readiness. Both routes are public, so they return nothing more.

use axum::extract::State;
use sandbox_api::health::{Health, Ready};

use super::ApiState;
use super::body::Json;
use super::error::Result;
use crate::service::{Error, Readiness};

/// Health check.
///
/// Whether the engine responds. If it does not, the status is 503.
#[utoipa::path(get, path = "/v1/health", operation_id = "health", tag = "daemon",
    responses((status = 200, body = Health)))]
pub(super) async fn health(State(state): State<ApiState>) -> Result<Json<Health>> {
    let version = state.service.engine_version().await?;
    Ok(Json(Health { ok: true, engine: "docker".into(), version }))
}

/// Readiness check.
///
/// Whether the daemon can serve requests. If it cannot, the status is 503 and the error names what is missing.
#[utoipa::path(get, path = "/v1/ready", operation_id = "ready", tag = "daemon",
    responses((status = 200, body = Ready)))]
pub(super) async fn ready(State(state): State<ApiState>) -> Result<Json<Ready>> {
    match state.service.readiness() {
        Readiness::Waiting { missing } => Err(Error::NotReady { missing }.into()),
        Readiness::Ready => {
            state.service.check_engine()?;
            state.service.engine_version().await?;
            state.service.check_store().await?;
            Ok(Json(Ready { ready: true, disk_short: state.service.is_space_short() }))
        }
    }
}
