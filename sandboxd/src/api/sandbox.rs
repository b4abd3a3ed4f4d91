//! Sandboxes: wire to model and back.

use std::time::Duration;

use axum::extract::State;
use sandbox_api::Done;
use sandbox_api::sandbox::{CreateSandbox, SandboxCreated, SandboxState};

use super::ApiState;
use super::body::Json;
use super::error::{ApiError, DoorError, Result};
use super::params::{self, Path};
use crate::model::sandbox::{IDLE_TTL_MS, checked, map, ports};
use crate::model::{Limits, NetworkMode, Resources, Runtime, SandboxSpec, SessionKey};
use crate::service;

/// `POST /v1/sandboxes`
pub(super) async fn create(
    State(state): State<ApiState>,
    Json(wish): Json<CreateSandbox>,
) -> Result<Json<SandboxCreated>> {
    let spec = spec_of(&wish, state.service.limits())?;
    let found = state.service.create_or_reconnect(spec.clone()).await?;
    Ok(Json(SandboxCreated {
        sandbox_id: found.id,
        created: found.created,
        state: SandboxState::Running,
        woken: found.woken,
        ignored: ignored(&wish, &spec, &found.spec),
    }))
}

/// `POST /v1/sandboxes/{id}:{verb}`
pub(super) async fn act(State(state): State<ApiState>, Path(target): Path<String>) -> Result<Json<Done>> {
    match params::verb(&target, "DELETE")? {
        (id, "stop") => remove(&state, id).await,
        _ => Err(DoorError::NoRoute.into()),
    }
}

/// `DELETE /v1/sandboxes/{id}`
pub(super) async fn delete(State(state): State<ApiState>, Path(id): Path<String>) -> Result<Json<Done>> {
    remove(&state, &id).await
}

async fn remove(state: &ApiState, id: &str) -> Result<Json<Done>> {
    // What is no id names no sandbox, and of that nothing is left.
    if let Ok(id) = id.parse() {
        state.service.delete(&id).await?;
    }
    Ok(Json(Done::OK))
}

fn spec_of(wish: &CreateSandbox, limits: Limits) -> Result<SandboxSpec> {
    let network = wish.network.as_ref().and_then(|network| network.mode.as_deref());
    let idle_ttl = match wish.idle_ttl_ms {
        Some(ms) => Duration::from_millis(checked("idleTtlMs", ms, IDLE_TTL_MS)?),
        None => limits.default_idle_ttl,
    };
    Ok(SandboxSpec {
        session_key: SessionKey::parse(&wish.session_key, "sessionKey")?,
        runtime: runtime_of(wish.runtime.as_deref())?,
        idle_ttl,
        resources: Resources::new(wish.resources.unwrap_or_default())?,
        network: network.map_or(Ok(NetworkMode::Default), |mode| NetworkMode::parse(mode, "network.mode"))?,
        ports: ports(wish.ports.as_deref().unwrap_or_default())?,
        image: wish.image.clone(),
        env: map("env", wish.env.clone().unwrap_or_default())?,
        metadata: map("metadata", wish.metadata.clone().unwrap_or_default())?,
    })
}

fn runtime_of(name: Option<&str>) -> Result<Runtime> {
    let parsed = name.map_or(Ok(Runtime::default()), str::parse);
    parsed.map_err(|unknown: crate::model::sandbox::UnknownRuntime| {
        ApiError::from(service::Error::UnknownRuntime { runtime: unknown.0 })
    })
}

/// Wishes that the session's sandbox does not follow: those it was made before, and those this version
/// does not offer.
fn ignored(wish: &CreateSandbox, asked: &SandboxSpec, found: &SandboxSpec) -> Vec<String> {
    let differs = [
        ("runtime", wish.runtime.is_some() && asked.runtime != found.runtime),
        ("resources", wish.resources.is_some() && asked.resources != found.resources),
        ("network", asked.network != found.network || found.network != NetworkMode::None),
        ("ports", wish.ports.is_some() && asked.ports != found.ports),
        ("idleTtlMs", wish.idle_ttl_ms.is_some() && asked.idle_ttl != found.idle_ttl),
        ("resources.diskMb", wish.resources.is_some_and(|resources| resources.disk_mb.is_some())),
        ("image", wish.image.is_some()),
        ("env", wish.env.is_some()),
        ("metadata", wish.metadata.is_some()),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()).collect()
}
