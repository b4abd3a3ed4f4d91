//! Network handlers: convert between wire and model types.

use axum::Extension;
use axum::response::{IntoResponse, Response};
use sandbox_api::network::{AllowDenied, DenialAllowed, DenialList, DenialRecord};
use sandbox_api::sandbox::Network;
use tokio_util::sync::CancellationToken;

use super::body::Json;
use super::caller::{Reader, User};
use super::denial;
use super::error::Result;
use super::openapi::answers::*;
use super::openapi::{InDenial, InSandbox};
use super::params::{self, Params, Path};
use super::server::Held;
use crate::model::NetworkPolicy;
use crate::model::network::NetworkRequest;
use crate::service::Allowed;

/// Change the network policy.
///
/// Absent fields keep their value. Open connections that the new policy does not allow are closed. A parked sandbox
/// stays parked. `mode` can change from or to `open` only while the sandbox is parked.
#[utoipa::path(patch, path = "/v1/sandboxes/{id}/network", operation_id = "changeNetwork", tag = "network",
    params(InSandbox), request_body = Network, responses((status = 200, body = Network), ByName, ByBody, BySandbox))]
pub(super) async fn change(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<Network>,
) -> Result<Json<Network>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let policy = access.sandboxes().change_network(&id, NetworkRequest::new(&request, "")?).await?;
    let policy = to_wire(&policy);
    access.found("network", &policy);
    Ok(Json(policy))
}

/// List denials.
///
/// Returns the latest hosts that the sandbox's processes requested and were denied, since the daemon started. With
/// `follow=true`, the response is a stream of JSON lines: the denials so far, oldest first, then `ready`, then each
/// denial as it happens, with a heartbeat after every 15 seconds of silence. `dropped` reports denials that the reader
/// was too slow for. The last record is `gone` if the sandbox was deleted, or `lost` if the daemon stops. Does not wake
/// the sandbox, and the stream does not count as use.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/network/denials", operation_id = "listDenials", tag = "network",
    params(InSandbox, ("follow" = Option<bool>, Query, description = "Keeps streaming new denials.")),
    responses((status = 200, content((DenialList = "application/json"), (DenialRecord = "application/x-ndjson"))),
        ByName, ByQuery, BySandbox))]
pub(super) async fn denials(
    Reader(access): Reader,
    Path(id): Path<String>,
    query: Params,
    held: Option<Extension<Held>>,
) -> Result<Response> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    if params::optional(&query, "follow", "`true` or `false`")?.unwrap_or(false) {
        let stopping = held.map_or_else(CancellationToken::new, |Extension(held)| held.stopping);
        return Ok(denial::follow(access.sandboxes().follow_denials(&id)?, stopping));
    }
    let denials = access.sandboxes().denials(&id)?;
    Ok(Json(DenialList { denials: denials.into_iter().map(denial::to_wire).collect() }).into_response())
}

/// Allow a denied host.
///
/// With the scope `sandbox`, the host becomes an entry in `allow` of the sandbox's network policy. With `once`, it is
/// allowed for one use: from its next connection, which must begin within 10 minutes, until none has been open for 5
/// seconds. A change of the policy ends that. Both cover the ports 80 and 443 if the denied port is one of them, and
/// otherwise only that port. A host whose address is not public returns 422 `refused`, and so does every host if the mode is
/// `none`. Does not wake the sandbox. Safe to repeat.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/network/denials/{denialId}:allow", operation_id = "allowDenied",
    tag = "network", params(InDenial), request_body = AllowDenied,
    responses((status = 200, body = DenialAllowed), ByName, ByBody, BySandbox))]
pub(super) async fn allow(
    User(access): User,
    Path((id, denied)): Path<(String, String)>,
    Json(request): Json<AllowDenied>,
) -> Result<Json<DenialAllowed>> {
    let (id, denied) = (access.sandbox(params::sandbox(&id)?)?, params::denial(&denied)?);
    let allowed = access.sandboxes().allow_denied(&id, &denied, request.scope).await?;
    let Allowed { host, port, rule, until_ms } = allowed;
    let (rule, until) = (rule.to_string(), until_ms.map(denial::time));
    Ok(Json(DenialAllowed { host, port, scope: request.scope, rule, until }))
}

/// Converts a policy to its wire form.
pub(super) fn to_wire(policy: &NetworkPolicy) -> Network {
    Network { mode: Some(policy.mode.as_str().to_owned()), allow: Some(policy.allow_texts()) }
}
