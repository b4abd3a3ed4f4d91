//! Whether the daemon lives, and whether it can be used. Open to all, so both tell nothing more.

use axum::extract::State;
use sandbox_api::health::{Health, Ready};

use super::ApiState;
use super::body::Json;
use super::error::Result;
use crate::service::{Error, Readiness};

/// Health
///
/// Whether the engine answers; a 503 where it does not.
#[utoipa::path(get, path = "/v1/health", operation_id = "health", tag = "daemon",
    responses((status = 200, body = Health)))]
pub(super) async fn health(State(state): State<ApiState>) -> Result<Json<Health>> {
    let version = state.service.engine_version().await?;
    Ok(Json(Health { ok: true, engine: "docker".into(), version }))
}

/// Readiness
///
/// Whether requests can be served; a 503 names what is missing.
#[utoipa::path(get, path = "/v1/ready", operation_id = "ready", tag = "daemon",
    responses((status = 200, body = Ready)))]
pub(super) async fn ready(State(state): State<ApiState>) -> Result<Json<Ready>> {
    match state.service.readiness() {
        Readiness::Waiting { missing } => Err(Error::NotReady { missing }.into()),
        Readiness::Ready => {
            state.service.check_engine()?;
            state.service.engine_version().await?;
            state.service.check_store().await?;
            Ok(Json(Ready { ready: true, disk_short: state.service.is_room_short() }))
        }
    }
}
