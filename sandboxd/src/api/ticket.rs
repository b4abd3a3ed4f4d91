//! Handler for tickets.

use axum::extract::State;
use jiff::Timestamp;
use sandbox_api::project::{CreateTicket, Ticket};

use super::ApiState;
use super::body::Json;
use super::caller::Reader;
use super::error::Result;
use super::openapi::answers::*;
use crate::model::{FieldError, limits};

/// Make a ticket.
///
/// Returns a ticket with which a browser opens one WebSocket: it cannot send a token in a header. The ticket is for one
/// path, can be used once, and expires after 30 seconds. Append it to the URL as `?ticket=…`.
#[utoipa::path(post, path = "/v1/tickets", operation_id = "createTicket", tag = "projects",
    request_body = CreateTicket, responses((status = 200, body = Ticket), ByBody))]
pub(super) async fn create(
    State(state): State<ApiState>,
    Reader(access): Reader,
    Json(request): Json<CreateTicket>,
) -> Result<Json<Ticket>> {
    let is_path = request.path.starts_with("/v1/")
        && request.path.len() <= limits::MAX_TICKET_PATH_BYTES
        && request.path.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#'));
    if !is_path {
        let problem = format!(
            "must be a path that begins with /v1/, with at most {} visible ASCII characters",
            limits::MAX_TICKET_PATH_BYTES
        );
        return Err(FieldError::new("path", problem).into());
    }
    let expires_at = Timestamp::now().saturating_add(limits::TICKET_TTL).unwrap_or(Timestamp::MAX);
    let ticket = state.tickets.issue(access.shared_principal(), request.path)?;
    Ok(Json(Ticket { ticket, expires_at }))
}
