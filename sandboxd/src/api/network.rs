//! Network handlers: convert between wire and model types.

use axum::extract::State;
use jiff::Timestamp;
use sandbox_api::network::{self as wire, DenialList};
use sandbox_api::sandbox::Network;

use super::ApiState;
use super::body::Json;
use super::error::Result;
use super::openapi::InSandbox;
use super::openapi::answers::*;
use super::params::{self, Path};
use crate::model::NetworkPolicy;
use crate::model::network::NetworkRequest;
use crate::service::Denial;

/// Change the network policy.
///
/// Absent fields keep their value. Open connections that the new policy does not allow are closed. A parked sandbox
/// stays parked. `mode` can change from or to `open` only while the sandbox is parked.
#[utoipa::path(patch, path = "/v1/sandboxes/{id}/network", operation_id = "changeNetwork", tag = "network",
    params(InSandbox), request_body = Network, responses((status = 200, body = Network), ByName, ByBody, BySandbox))]
pub(super) async fn change(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Json(request): Json<Network>,
) -> Result<Json<Network>> {
    let id = params::sandbox(&id)?;
    let policy = state.service.sandboxes().change_network(&id, NetworkRequest::new(&request, "")?).await?;
    Ok(Json(to_wire(&policy)))
}

/// List denials.
///
/// Returns the latest hosts that the sandbox's processes requested and were denied, since the daemon started.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/network/denials", operation_id = "listDenials", tag = "network",
    params(InSandbox), responses((status = 200, body = DenialList), ByName, BySandbox))]
pub(super) async fn denials(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<DenialList>> {
    let denials = state.service.sandboxes().denials(&params::sandbox(&id)?)?;
    Ok(Json(DenialList { denials: denials.into_iter().map(denial).collect() }))
}

/// Converts a policy to its wire form.
pub(super) fn to_wire(policy: &NetworkPolicy) -> Network {
    Network { mode: Some(policy.mode.as_str().to_owned()), allow: Some(policy.allow_texts()) }
}

fn denial(denial: Denial) -> wire::Denial {
    let Denial { host, port, reason, count, last_at_ms } = denial;
    let last_at = Timestamp::from_millisecond(last_at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    wire::Denial { host, port, count, last_at, reason }
}
