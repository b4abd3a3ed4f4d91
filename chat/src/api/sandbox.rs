//! A chat's sandbox, for its user.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use bash_tools::Workspace;
use bash_tools::config::BashTools;
use bash_tools::provider::{NetworkPolicy, SandboxState};
use bash_tools::seed::SeedState;
use bash_tools::session::SessionState;
use bash_tools::tools;
use sandbox_api::limits::MAX_NETWORK_RULE_BYTES;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Api;
use super::chat_ref::{ChatRef, ChatWorkspace};
use super::error::{Error, Result};

/// A host to allow.
#[derive(Debug, Deserialize)]
pub(super) struct AllowHost {
    host: String,
}

/// `GET /api/chats/{id}/sandbox`
pub(super) async fn read(State(api): State<Api>, found: ChatWorkspace) -> Result<Json<Value>> {
    let ChatWorkspace(chat_ref, workspace) = found;
    status_of(&api, &chat_ref, &workspace).await
}

/// `POST /api/chats/{id}/sandbox/park`
pub(super) async fn park(State(api): State<Api>, found: ChatWorkspace) -> Result<Json<Value>> {
    let ChatWorkspace(chat_ref, workspace) = found;
    workspace.park().await?;
    chat_ref.tell(&api.changes);
    status_of(&api, &chat_ref, &workspace).await
}

/// `DELETE /api/chats/{id}/sandbox`
pub(super) async fn delete(State(api): State<Api>, found: ChatWorkspace) -> Result<StatusCode> {
    let ChatWorkspace(chat_ref, workspace) = found;
    let _place = api.turns.end(&chat_ref.key).await?;
    workspace.delete().await?;
    chat_ref.tell(&api.changes);
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /api/chats/{id}/network`: the network policy of the sandbox, and its denials.
pub(super) async fn network(State(api): State<Api>, found: ChatWorkspace) -> Result<Json<Value>> {
    let ChatWorkspace(_, workspace) = found;
    let docker = api.configured.as_deref().and_then(BashTools::docker);
    let docker = docker.ok_or(Error::NotFound { what: "network of this sandbox" })?;
    let found = workspace.status().await?.and_then(|status| status.network);
    let policy = found.unwrap_or_else(|| docker.network.clone());
    network_of(&workspace, &policy).await
}

/// `POST /api/chats/{id}/network/allow`: adds a host to the allowed ones.
pub(super) async fn allow(
    State(api): State<Api>,
    found: ChatWorkspace,
    request: std::result::Result<Json<AllowHost>, JsonRejection>,
) -> Result<Json<Value>> {
    let ChatWorkspace(chat_ref, workspace) = found;
    let bad = |problem: String| Error::Invalid { field: "host", problem };
    let Json(AllowHost { host }) = request.map_err(|error| bad(error.body_text()))?;
    let is_odd = |char: char| char.is_whitespace() || char.is_control();
    if host.is_empty() || host.len() > MAX_NETWORK_RULE_BYTES || host.contains(is_odd) {
        return Err(bad(format!(
            "must be a host, perhaps with `:port`: 1 to {MAX_NETWORK_RULE_BYTES} bytes without blanks"
        )));
    }
    let policy = workspace.allow_host(&host).await?.ok_or(Error::NotFound { what: "sandbox" })?;
    chat_ref.tell(&api.changes);
    network_of(&workspace, &policy).await
}

async fn network_of(workspace: &Workspace, policy: &NetworkPolicy) -> Result<Json<Value>> {
    let denials = workspace.denials().await?;
    let refused = denials.iter().filter(|denial| !policy.has_allowed(denial));
    let refused: Vec<Value> = refused
        .map(|denial| {
            let mut status_of = json!(denial);
            // The entry that the page would send to allow it. Null if that would not help.
            status_of["entry"] = json!(policy.entry_for(denial));
            status_of
        })
        .collect();
    Ok(Json(json!({ "mode": policy.mode, "allow": policy.allow, "denials": refused })))
}

async fn status_of(api: &Api, chat_ref: &ChatRef, workspace: &Workspace) -> Result<Json<Value>> {
    let status = match workspace.status().await {
        Ok(status) => status,
        Err(tools::Error::Provider(error)) if error.is_temporary() => {
            let seed = seed(api, chat_ref);
            let provider = api.provider();
            return Ok(Json(
                json!({ "state": "unreachable", "reason": error.to_string(), "provider": provider, "seed": seed }),
            ));
        }
        Err(error) => return Err(error.into()),
    };
    let is_opening = matches!(workspace.state(), SessionState::Opening | SessionState::Seeding { .. });
    let state = match status.as_ref().map(|status| status.state) {
        _ if is_opening => "opening",
        None | Some(SandboxState::Ending) => "none",
        Some(SandboxState::Running) => "running",
        Some(SandboxState::Parked) => "parked",
        Some(SandboxState::Opening) => "opening",
        Some(SandboxState::Lost) => "lost",
    };
    let status = status.filter(|_| state != "none");
    let status = status.as_ref();
    Ok(Json(json!({
        "state": state,
        "sandboxId": status.map(|status| &status.sandbox),
        "provider": api.provider(),
        "seed": seed(api, chat_ref),
        "image": status.and_then(|status| status.image.as_deref()),
        "limits": status.map(|status| json!({
            "memoryBytes": status.limits.memory_bytes,
            "cpus": status.limits.vcpus,
            "diskBytes": status.limits.disk_bytes,
            "pids": status.limits.pids,
        })),
        "usage": status.and_then(|status| status.usage),
        "runningCommands": status.and_then(|status| status.running_commands),
        "expiresAt": status.and_then(|status| status.expires_at),
        "lastActiveAt": status.and_then(|status| status.last_active_at),
        "network": status.and_then(|status| status.network.as_ref()),
        "posture": status.and_then(|status| status.posture.as_ref()),
    })))
}

fn seed(api: &Api, chat_ref: &ChatRef) -> Value {
    let state = api.tools.as_ref().and_then(|tools| tools.sessions().seed_state(&chat_ref.key));
    match state {
        None => json!({ "state": "none", "reason": null }),
        Some(SeedState::Pending) => json!({ "state": "pending", "reason": null }),
        Some(SeedState::Running { step }) => json!({ "state": "running", "reason": step }),
        Some(SeedState::Done) => json!({ "state": "done", "reason": null }),
        Some(SeedState::Failed { reason }) => json!({ "state": "failed", "reason": reason }),
    }
}
