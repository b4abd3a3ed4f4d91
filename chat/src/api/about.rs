//! What the page needs to know about the app at the start.

use axum::Json;
use axum::extract::{Request, State};
use bash_tools::config::Access;
use bash_tools::gates::{Decision, Reason};
use serde_json::{Value, json};

use super::caller::Caller;
use super::error::Result;
use super::{Api, MAX_MESSAGE_CHARS, MAX_UPLOAD_BYTES};
use crate::turn::MAX_COMMAND_CHARS;

/// `GET /api/health`
pub(super) async fn health() -> Json<Value> {
    Json(json!({ "ok": true, "version": env!("CARGO_PKG_VERSION") }))
}

/// `GET /api/app`
pub(super) async fn app(State(api): State<Api>, gates: Decision, request: Request) -> Result<Json<Value>> {
    let caller = request.extensions().get::<Caller>();
    let user = match caller {
        Some(Caller::User(who)) => Some(&who.user),
        Some(Caller::Everyone) | None => None,
    };
    let tools = api.configured.as_deref();
    let models: Vec<Value> = api
        .settings
        .models
        .iter()
        .map(|model| json!({ "id": model.id, "name": model.name, "provider": model.provider.name() }))
        .collect();
    let reason = match gates {
        Decision::Enabled => None,
        Decision::Disabled(reason) => Some(reason.to_string()),
    };
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "access": tools.map(|tools| match tools.access { Access::Localhost => "localhost", Access::Lan => "lan" }),
        "mayUse": caller.is_some(),
        "accounts": api.people.has_accounts().await?,
        "user": user,
        "identityProvider": api.oidc.is_some(),
        "tools": {
            "enabled": gates.is_enabled(),
            "reason": reason,
            "isPassing": gates == Decision::Disabled(Reason::Unhealthy),
            "provider": api.provider(),
            "ports": tools.map(|tools| tools.sandbox.ports.clone()).unwrap_or_default(),
            "commandTimeoutMs": tools.map(|tools| tools.command_timeout.as_millis()),
            "maxStdoutChars": tools.map(|tools| tools.max_stdout_chars),
            "maxStderrChars": tools.map(|tools| tools.max_stderr_chars),
        },
        "models": models,
        "defaultModel": api.settings.models.first().map(|model| &model.id),
        "limits": { "messageChars": MAX_MESSAGE_CHARS, "commandChars": MAX_COMMAND_CHARS, "uploadBytes": MAX_UPLOAD_BYTES },
    })))
}
