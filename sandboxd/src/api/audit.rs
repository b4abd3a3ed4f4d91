//! Handler for lines of the audit record.

use sandbox_api::audit::{AuditLine, AuditList};

use super::body::Json;
use super::caller::Operator;
use super::error::Result;
use super::openapi::answers::*;
use super::params::{self, Params};
use crate::model::field::checked;
use crate::model::limits;
use crate::service::{self, AuditFilter};

/// List lines of the audit record.
///
/// Returns the newest lines first. Only the operator can read them. A page may have fewer lines than `limit` although there
/// are more: one request reads at most 32 MiB of the record. The lines are not verified; `sandboxd audit verify` does that.
#[utoipa::path(get, path = "/v1/audit", operation_id = "listAudit", tag = "projects",
    params(
        ("project" = Option<String>, Query, description = "Only lines of this project."),
        ("act" = Option<String>, Query,
            description = "Only lines of this act, such as `token.create`, or of all acts of a kind, such as `token`."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number, default 100."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page.")),
    responses((status = 200, body = AuditList), ByQuery))]
pub(super) async fn list(Operator(access, proof): Operator, query: Params) -> Result<Json<AuditList>> {
    let limit = params::optional(&query, "limit", "a number")?.unwrap_or(limits::DEFAULT_AUDIT_PAGE);
    let limit = checked("limit", u64::from(limit), 1..=u64::from(limits::MAX_AUDIT_PAGE))? as usize;
    let filter = AuditFilter { project: query.get("project").cloned(), act: query.get("act").cloned() };
    let cursor = query.get("cursor").map(String::as_str);
    let page = access.audit().list(filter, cursor, limit, &proof).await?;
    Ok(Json(AuditList { lines: page.lines.into_iter().map(to_wire).collect(), next_cursor: page.next }))
}

fn to_wire(line: service::AuditLine) -> AuditLine {
    let service::AuditLine { seq, at, act, of, outcome, project, subject, token, request_id, details } = line;
    AuditLine { seq, at, act, of, outcome, project, subject, token, request_id, details }
}
