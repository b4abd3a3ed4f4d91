//! Error responses, grouped by cause, so that a handler lists causes instead of statuses.
//!
//! Each status is described once, under `components/responses`, from the closed list of codes.

use std::collections::BTreeMap;

use sandbox_api::ErrorCode::{self, *};
use serde_json::{Map, Value, json};
use utoipa::openapi::{Ref, RefOr, Response};
use utoipa::{IntoResponses, PartialSchema};

type Answers = BTreeMap<String, RefOr<Response>>;

/// Errors of every request that needs the token.
const WITH_TOKEN: [ErrorCode; 5] = [Unauthenticated, Forbidden, RateLimited, Internal, Unavailable];

/// Errors of every request that needs no token.
const WITHOUT_TOKEN: [ErrorCode; 3] = [Forbidden, Internal, Unavailable];

/// The query is invalid.
pub(in crate::api) struct ByQuery;

impl IntoResponses for ByQuery {
    fn responses() -> Answers {
        refusals(&[InvalidRequest])
    }
}

/// The JSON body is invalid, too long or late.
pub(in crate::api) struct ByBody;

impl IntoResponses for ByBody {
    fn responses() -> Answers {
        refusals(&[InvalidRequest, TooLarge, UnsupportedMediaType, DeadlineExceeded])
    }
}

/// The path names something that does not exist.
pub(in crate::api) struct ByName;

impl IntoResponses for ByName {
    fn responses() -> Answers {
        refusals(&[NotFound])
    }
}

/// The request names a repository that does not exist, or not like this.
pub(in crate::api) struct ByRepository;

impl IntoResponses for ByRepository {
    fn responses() -> Answers {
        refusals(&[RepoNotFound, VersionNotFound, TagNotFound])
    }
}

/// The request asks for packages that the index does not have, or not as wheels.
pub(in crate::api) struct ByPackages;

impl IntoResponses for ByPackages {
    fn responses() -> Answers {
        refusals(&[PackageNotFound, VersionNotFound, NoWheel, TooLarge, RateLimited])
    }
}

/// The current state does not allow the operation.
pub(in crate::api) struct ByState;

impl IntoResponses for ByState {
    fn responses() -> Answers {
        refusals(&[WrongState])
    }
}

/// Creating, waking or using the sandbox fails.
pub(in crate::api) struct BySandbox;

impl IntoResponses for BySandbox {
    fn responses() -> Answers {
        refusals(&[
            WrongState,
            AlreadyExists,
            Refused,
            CapacityExhausted,
            DeadlineExceeded,
            InsufficientStorage,
        ])
    }
}

/// The file does not meet the request's conditions, or changed since it was read.
pub(in crate::api) struct ByCondition;

impl IntoResponses for ByCondition {
    fn responses() -> Answers {
        refusals(&[PreconditionFailed])
    }
}

/// The file has no byte in the range.
pub(in crate::api) struct ByRange;

impl IntoResponses for ByRange {
    fn responses() -> Answers {
        refusals(&[RangeNotSatisfiable])
    }
}

/// The body is incomplete or stalls.
pub(in crate::api) struct ByUpload;

impl IntoResponses for ByUpload {
    fn responses() -> Answers {
        refusals(&[InvalidRequest, DeadlineExceeded])
    }
}

/// There is no room for more.
pub(in crate::api) struct ByRoom;

impl IntoResponses for ByRoom {
    fn responses() -> Answers {
        refusals(&[TooLarge, Refused, CapacityExhausted, InsufficientStorage])
    }
}

/// The result is too large for one response.
pub(in crate::api) struct BySize;

impl IntoResponses for BySize {
    fn responses() -> Answers {
        refusals(&[TooLarge])
    }
}

/// Error responses that every operation may return.
pub(super) fn everywhere(is_open: bool) -> Vec<(String, Value)> {
    let codes: &[ErrorCode] = if is_open { &WITHOUT_TOKEN } else { &WITH_TOKEN };
    refusals(codes).into_iter().map(|(status, response)| (status, json!(response))).collect()
}

fn refusals(codes: &[ErrorCode]) -> Answers {
    let refused = |code: &ErrorCode| {
        let status = code.status().to_string();
        let component = Ref::from_response_name(name(code.status()));
        (status, RefOr::Ref(component))
    };
    codes.iter().map(refused).collect()
}

fn name(status: u16) -> String {
    format!("Refused{status}")
}

/// `components/responses`: one response for each status.
pub(super) fn components() -> Value {
    let mut components = Map::new();
    for status in codes().into_iter().map(ErrorCode::status) {
        let codes: Vec<ErrorCode> = codes().into_iter().filter(|code| code.status() == status).collect();
        components.insert(name(status), component(&codes));
    }
    components.into()
}

/// Every code, from the schema of the wire type.
fn codes() -> Vec<ErrorCode> {
    let schema = json!(ErrorCode::schema());
    let names = schema["enum"].as_array().cloned().unwrap_or_default();
    names.into_iter().filter_map(|name| serde_json::from_value(name).ok()).collect()
}

fn component(codes: &[ErrorCode]) -> Value {
    let names: Vec<String> = codes.iter().map(ErrorCode::to_string).collect();
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let mut headers = json!({ "x-request-id": {
        "description": "Id of the request in the daemon's log.",
        "schema": { "type": "string", "pattern": "^req_[0-9a-f]{32}$" },
    }});
    if codes.iter().any(|code| code.is_retryable()) {
        headers["retry-after"] = json!({
            "description": "Seconds to wait before a retry.",
            "schema": { "type": "integer", "minimum": 1 },
        });
    }
    json!({
        "description": format!("Error: {}", quoted.join(" or ")),
        "headers": headers,
        "content": { "application/json": { "schema": {
            "allOf": [
                { "$ref": "#/components/schemas/ErrorBody" },
                { "type": "object", "properties": { "code": { "enum": names } } },
            ],
        }}},
    })
}
