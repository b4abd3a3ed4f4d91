//! A chat's sandbox, for its person.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use bash_tools::Workspace;
use bash_tools::config::BashTools;
use bash_tools::provider::SandboxState;
use bash_tools::seed::SeedState;
use bash_tools::session::SessionState;
use bash_tools::tools;
use serde_json::{Value, json};

use super::Api;
use super::error::{Error, Result};
use super::who::{ItsWorkspace, Who};

/// `GET /api/chats/{id}/sandbox`
pub(super) async fn look(State(api): State<Api>, its: ItsWorkspace) -> Result<Json<Value>> {
    let ItsWorkspace(who, workspace) = its;
    told(&api, &who, &workspace).await
}

/// `POST /api/chats/{id}/sandbox/park`
pub(super) async fn park(State(api): State<Api>, its: ItsWorkspace) -> Result<Json<Value>> {
    let ItsWorkspace(who, workspace) = its;
    workspace.park().await?;
    told(&api, &who, &workspace).await
}

/// `DELETE /api/chats/{id}/sandbox`
pub(super) async fn delete(State(api): State<Api>, its: ItsWorkspace) -> Result<StatusCode> {
    let ItsWorkspace(who, workspace) = its;
    let _place = api.turns.end(&who.key).await?;
    workspace.delete().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /api/chats/{id}/network`: what its sandbox was refused. Nothing can be allowed from here: the tools' settings have no list.
pub(super) async fn network(State(api): State<Api>, its: ItsWorkspace) -> Result<Json<Value>> {
    let ItsWorkspace(_, workspace) = its;
    let docker = api.configured.as_deref().and_then(BashTools::docker);
    let mode = docker.ok_or(Error::NotFound { what: "network of this sandbox" })?.has_network;
    let denials = workspace.denials().await?;
    Ok(Json(json!({ "mode": if mode { "default" } else { "none" }, "allow": [], "denials": denials })))
}

async fn told(api: &Api, who: &Who, workspace: &Workspace) -> Result<Json<Value>> {
    let status = match workspace.status().await {
        Ok(status) => status,
        Err(tools::Error::Provider(error)) if error.is_passing() => {
            let seed = seed(api, who);
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
    };
    let status = status.filter(|_| state != "none");
    let status = status.as_ref();
    Ok(Json(json!({
        "state": state,
        "sandboxId": status.map(|status| &status.sandbox),
        "provider": api.provider(),
        "seed": seed(api, who),
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
        "posture": status.and_then(|status| status.posture.as_ref()),
    })))
}

fn seed(api: &Api, who: &Who) -> Value {
    let state = api.tools.as_ref().and_then(|tools| tools.sessions().seed_state(&who.key));
    match state {
        None => json!({ "state": "none", "reason": null }),
        Some(SeedState::Pending) => json!({ "state": "pending", "reason": null }),
        Some(SeedState::Running { step }) => json!({ "state": "running", "reason": step }),
        Some(SeedState::Done) => json!({ "state": "done", "reason": null }),
        Some(SeedState::Failed { reason }) => json!({ "state": "failed", "reason": reason }),
    }
}
