//! Sandbox handlers: convert between wire and model types.

use std::time::Duration;

use jiff::Timestamp;
use sandbox_api::sandbox::{
    CreateSandbox, ListSandboxes, ParkSandbox, Posture, Resources as WireResources, Sandbox, SandboxCreated,
    SandboxList, SandboxState, TouchSandbox, Usage,
};
use sandbox_api::{Done, SandboxId};

use super::body::Json;
use super::caller::{Reader, User};
use super::error::{ApiError, Result};
use super::network;
use super::openapi::InSandbox;
use super::openapi::answers::*;
use super::params::{self, Params, Path};
use super::repository::{Source, files_to_wire, source_of};
use crate::model::field::checked;
use crate::model::network::NetworkRequest;
use crate::model::packages::PackageSet;
use crate::model::posture::Seccomp;
use crate::model::sandbox::{IDLE_TTL_MS, env, map, ports, session_key};
use crate::model::secret::secret_env;
use crate::model::{Checkpoints, FieldError, NetworkPolicy, Resources, Runtime, SandboxSpec, Stage, limits};
use crate::service::{
    self, Access, Changes, Reconnected, RepositoryFiles, SandboxView, Selection, SpecError,
};

/// Create or reconnect to a sandbox.
///
/// Creates the session's sandbox if there is none, and wakes it if it is parked. Responds when the sandbox is usable.
/// An existing sandbox keeps its container. A different `idleTtlMs`, `ports`, `network` or `checkpoints` is applied to
/// it. Other differences are listed in `ignored`.
#[utoipa::path(post, path = "/v1/sandboxes", operation_id = "createSandbox", tag = "sandboxes",
    request_body = CreateSandbox,
    responses((status = 200, body = SandboxCreated), ByName, ByRepository, ByPackages, ByBody, BySandbox))]
pub(super) async fn create(
    User(access): User,
    Json(request): Json<CreateSandbox>,
) -> Result<Json<SandboxCreated>> {
    let spec = spec_of(&request, &access)?;
    let changes = Changes {
        idle_ttl: request.idle_ttl_ms.map(|_| spec.idle_ttl),
        ports: request.ports.as_ref().map(|_| spec.ports.clone()),
        network: network_of(&request)?,
        checkpoints: request.checkpoints.map(|_| spec.checkpoints),
    };
    let (found, files) = create_with_files(&request, &access, spec.clone(), &changes).await?;
    access.found("sandboxId", &found.id);
    access.found("created", found.created);
    // It may have changed that of an existing sandbox.
    access.found("network", request.network.is_some().then(|| network::to_wire(&found.spec.network)));
    let ignored = ignored(&request, &spec, &found);
    Ok(Json(SandboxCreated {
        sandbox_id: found.id,
        created: found.created,
        state: SandboxState::Running,
        woken: found.woken,
        ignored,
        image_id: found.image_id,
        repository: files.map(files_to_wire),
    }))
}

/// Finds the session's sandbox, or creates it with the files that the request names.
async fn create_with_files(
    request: &CreateSandbox,
    access: &Access,
    spec: SandboxSpec,
    changes: &Changes,
) -> Result<(Reconnected, Option<RepositoryFiles>)> {
    let source = request.workspace.as_ref().map(|source| source_of(source, access)).transpose()?;
    let packages = packages_of(request)?;
    let found = match source {
        None => match packages {
            None => access.sandboxes().create_or_reconnect(spec, changes).await?,
            Some(packages) => access.packages().create(spec, changes, packages).await?,
        },
        Some(Source::Snapshot(id)) => {
            let snapshot = access.snapshot(id).await;
            access.snapshots().create(spec, changes, snapshot).await?
        }
        Some(Source::Repository(wanted)) => {
            return Ok(access.repositories().create(spec, changes, &wanted).await?);
        }
    };
    Ok((found, None))
}

/// List sandboxes.
///
/// Returns sandboxes sorted by id, without their resource usage. Neither wakes them nor counts as use.
#[utoipa::path(get, path = "/v1/sandboxes", operation_id = "listSandboxes", tag = "sandboxes",
    params(ListSandboxes), responses((status = 200, body = SandboxList), ByQuery))]
pub(super) async fn list(Reader(access): Reader, params: Params) -> Result<Json<SandboxList>> {
    let limit = params::optional(&params, "limit", "a number")?.unwrap_or(limits::DEFAULT_PAGE);
    let selection = Selection {
        owner: access.owner().clone(),
        only: access.only_sandbox().cloned(),
        session_key: params.get("sessionKey").map(|key| key.parse().map_err(FieldError::from)).transpose()?,
        stages: params.get("state").map(|state| stages_of(state)).transpose()?,
        after: params.get("cursor").map(|cursor| cursor_of(cursor)).transpose()?,
        limit: checked("limit", u64::from(limit), 1..=u64::from(limits::MAX_PAGE))? as usize,
    };
    let (views, more) = access.sandboxes().list(&selection)?;
    let sandboxes: Vec<Sandbox> = views.into_iter().map(to_wire).collect();
    let last = sandboxes.last().map(|sandbox| sandbox.sandbox_id.to_string());
    Ok(Json(SandboxList { next_cursor: last.filter(|_| more), sandboxes }))
}

/// Inspect a sandbox.
///
/// Returns its configuration, resource usage and hardening. Neither wakes it nor counts as use.
#[utoipa::path(get, path = "/v1/sandboxes/{id}", operation_id = "getSandbox", tag = "sandboxes",
    params(InSandbox), responses((status = 200, body = Sandbox), ByName))]
pub(super) async fn get(Reader(access): Reader, Path(id): Path<String>) -> Result<Json<Sandbox>> {
    Ok(Json(to_wire(access.sandboxes().get(&access.sandbox(params::sandbox(&id)?)?).await?)))
}

/// Touch a sandbox.
///
/// Counts as use, wakes a parked sandbox, and can change the idle time.
#[utoipa::path(post, path = "/v1/sandboxes/{id}:touch", operation_id = "touchSandbox", tag = "sandboxes",
    params(InSandbox), request_body = TouchSandbox, responses((status = 200, body = Done), ByName, ByBody, BySandbox))]
pub(super) async fn touch(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<TouchSandbox>,
) -> Result<Json<Done>> {
    let idle_ttl = request.idle_ttl_ms.map(idle_ttl_of).transpose()?;
    access
        .sandboxes()
        .touch(&access.sandbox(params::sandbox(&id)?)?, &Changes { idle_ttl, ..Changes::default() })
        .await?;
    Ok(Json(Done::OK))
}

/// Park a sandbox.
///
/// Removes the container and keeps the files. The next request for the sandbox wakes it. Rejected while a command or
/// a program on a terminal runs, unless `force` is set. Idempotent: succeeds if the sandbox is already parked.
#[utoipa::path(post, path = "/v1/sandboxes/{id}:park", operation_id = "parkSandbox", tag = "sandboxes",
    params(InSandbox), request_body = ParkSandbox, responses((status = 200, body = Done), ByName, ByBody, ByState))]
pub(super) async fn park(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<ParkSandbox>,
) -> Result<Json<Done>> {
    access.sandboxes().park(&access.sandbox(params::sandbox(&id)?)?, request.force.unwrap_or(false)).await?;
    Ok(Json(Done::OK))
}

/// Stop a sandbox.
///
/// Same as `DELETE`: deletes the sandbox and its files. Idempotent: succeeds if the sandbox does not exist.
#[utoipa::path(post, path = "/v1/sandboxes/{id}:stop", operation_id = "stopSandbox", tag = "sandboxes",
    params(InSandbox), responses((status = 200, body = Done)))]
pub(super) async fn stop(User(access): User, Path(id): Path<String>) -> Result<Json<Done>> {
    remove(&access, &id).await
}

/// Delete a sandbox.
///
/// Deletes the sandbox and its files. Idempotent: succeeds if the sandbox does not exist. With `ifState=parked`,
/// deletes it only if it is parked and no request is about to use it. Otherwise the response is 409 and nothing
/// changes. With `snapshots=true`, its snapshots are deleted too.
#[utoipa::path(delete, path = "/v1/sandboxes/{id}", operation_id = "deleteSandbox", tag = "sandboxes",
    params(InSandbox, ("ifState" = Option<String>, Query, description = "Deletes the sandbox only in this state."),
        ("snapshots" = Option<bool>, Query, description = "Also deletes its snapshots. Default: false.")),
    responses((status = 200, body = Done), ByQuery, ByState))]
pub(super) async fn delete(User(access): User, Path(id): Path<String>, params: Params) -> Result<Json<Done>> {
    let if_parked = match params.get("ifState").map(String::as_str) {
        None => false,
        Some("parked") => true,
        Some(_) => return Err(FieldError::new("ifState", "must be parked or absent").into()),
    };
    let with_snapshots = params::optional(&params, "snapshots", "`true` or `false`")?.unwrap_or(false);
    // A malformed id names no sandbox, so there is nothing to delete.
    if let Ok(id) = id.parse::<SandboxId>() {
        match access.sandbox_if_any(id.clone())? {
            Some(id) if if_parked => access.sandboxes().delete_if_parked(&id).await?,
            Some(id) => access.sandboxes().delete(&id).await?,
            None => {}
        }
        if with_snapshots && access.reaches(&id) {
            access.snapshots().delete_all_of(access.owner(), &id).await?;
        }
    }
    Ok(Json(Done::OK))
}

async fn remove(access: &Access, id: &str) -> Result<Json<Done>> {
    // A malformed id names no sandbox, so there is nothing to delete.
    if let Ok(id) = id.parse()
        && let Some(id) = access.sandbox_if_any(id)?
    {
        access.sandboxes().delete(&id).await?;
    }
    Ok(Json(Done::OK))
}

fn spec_of(request: &CreateSandbox, access: &Access) -> Result<SandboxSpec> {
    if let Some(image) = request.image.as_ref().filter(|image| !access.sandboxes().allows_image(image)) {
        return Err(service::Error::from(SpecError::ImageNotAllowed { image: image.clone() }).into());
    }
    let env = env("env", request.env.clone().unwrap_or_default())?;
    Ok(SandboxSpec {
        owner: access.creator()?.clone(),
        session_key: session_key(&request.session_key)?,
        runtime: runtime_of(request.runtime.as_deref())?,
        image: request.image.clone(),
        idle_ttl: request.idle_ttl_ms.map_or(Ok(access.limits().default_idle_ttl), idle_ttl_of)?,
        resources: Resources::new(request.resources.unwrap_or_default())?,
        network: NetworkPolicy::default().with(&network_of(request)?.unwrap_or_default()),
        ports: ports(request.ports.as_deref().unwrap_or_default())?,
        secret_env: secret_env(request.secret_env.clone().unwrap_or_default(), &env)?,
        env,
        metadata: map("metadata", request.metadata.clone().unwrap_or_default())?,
        checkpoints: Checkpoints::new(&request.checkpoints.unwrap_or_default())?,
    })
}

fn packages_of(request: &CreateSandbox) -> std::result::Result<Option<PackageSet>, FieldError> {
    let packages = PackageSet::parse(request.packages.as_deref().unwrap_or_default())?;
    match packages.is_some() && request.workspace.is_some() {
        true => Err(FieldError::new("packages", "must not be combined with workspace")),
        false => Ok(packages),
    }
}

fn network_of(request: &CreateSandbox) -> std::result::Result<Option<NetworkRequest>, FieldError> {
    request.network.as_ref().map(|network| NetworkRequest::new(network, "network.")).transpose()
}

fn idle_ttl_of(ms: u64) -> std::result::Result<Duration, FieldError> {
    Ok(Duration::from_millis(checked("idleTtlMs", ms, IDLE_TTL_MS)?))
}

fn runtime_of(name: Option<&str>) -> Result<Runtime> {
    let parsed = name.map_or(Ok(Runtime::default()), str::parse);
    parsed.map_err(|unknown: crate::model::sandbox::UnknownRuntime| {
        ApiError::from(service::Error::from(SpecError::UnknownRuntime { runtime: unknown.0 }))
    })
}

fn cursor_of(text: &str) -> std::result::Result<SandboxId, FieldError> {
    text.parse().map_err(|_| FieldError::new("cursor", "must be the `nextCursor` of the previous page"))
}

fn stages_of(state: &str) -> std::result::Result<Vec<Stage>, FieldError> {
    let state = serde_json::from_value(state.into()).map_err(|_| {
        FieldError::new("state", "must be creating, running, parked, failed, lost or deleted")
    })?;
    Ok(Stage::of_state(state))
}

fn to_wire(view: SandboxView) -> Sandbox {
    let SandboxView { record, image, posture, unenforced, expires_at_ms, running_commands, .. } = view;
    let spec = record.spec;
    let disk_quota_bytes = record.disk.is_some().then(|| spec.resources.disk_bytes());
    let lower = record.disk.as_ref().and_then(|disk| disk.lower());
    let base = lower.map(|lower| lower.base().to_owned());
    Sandbox {
        sandbox_id: record.id,
        session_key: spec.session_key.to_string(),
        subject: spec.owner.subject.map(|subject| subject.to_string()),
        state: record.stage.state(),
        runtime: spec.runtime.as_str().to_owned(),
        image,
        resources: WireResources {
            vcpus: Some(spec.resources.vcpus().into()),
            memory_mb: Some(spec.resources.memory_mb().into()),
            pids: Some(spec.resources.pids().into()),
            disk_mb: Some(spec.resources.disk_mb().into()),
        },
        network: network::to_wire(&spec.network),
        ports: spec.ports,
        env_keys: spec.env.into_keys().collect(),
        secret_env: spec.secret_env,
        metadata: spec.metadata,
        checkpoints: spec.checkpoints.map(Checkpoints::to_wire),
        checkpoint_id: view.checkpoint,
        checkpoint_pending: view.checkpoint_pending,
        created_at: time(record.created_at_ms),
        last_active_at: time(record.last_active_ms),
        idle_ttl_ms: spec.idle_ttl.as_millis() as u64,
        expires_at: expires_at_ms.map(time),
        running_commands,
        usage: view.usage.map(|usage| Usage {
            memory_bytes: usage.container.memory_bytes,
            pids: usage.container.pids,
            disk_bytes: usage.disk_bytes,
            cpu_ms: usage.container.cpu_ms,
        }),
        posture: posture.map(|posture| Posture {
            readonly_rootfs: posture.readonly_rootfs,
            capabilities: posture.capabilities,
            no_new_privileges: posture.no_new_privileges,
            seccomp: match posture.seccomp {
                Seccomp::Own => "sandboxd".into(),
                Seccomp::Other => "other".into(),
            },
            user: posture.user,
            pids_limit: posture.pids_limit,
            memory_bytes: posture.memory_bytes,
            swap_bytes: posture.swap_bytes,
            nano_cpus: posture.nano_cpus,
            disk_quota_bytes,
            base,
            network: posture.network,
            runtime: posture.runtime,
            image_id: posture.image_id,
            unenforced,
        }),
    }
}

/// Converts a time. One outside the supported range becomes the Unix epoch.
pub(super) fn time(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Names of requested fields that an existing sandbox does not follow.
fn ignored(request: &CreateSandbox, requested: &SandboxSpec, reconnected: &Reconnected) -> Vec<String> {
    let found = &reconnected.spec;
    let differs = [
        ("runtime", request.runtime.is_some() && requested.runtime != found.runtime),
        ("image", request.image.is_some() && requested.image != found.image),
        ("resources", request.resources.is_some() && requested.resources != found.resources),
        ("env", request.env.is_some() && requested.env != found.env),
        ("secretEnv", request.secret_env.is_some() && requested.secret_env != found.secret_env),
        ("metadata", request.metadata.is_some() && requested.metadata != found.metadata),
        ("workspace", request.workspace.is_some() && !reconnected.created),
        ("packages", request.packages.as_ref().is_some_and(|some| !some.is_empty()) && !reconnected.created),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()).collect()
}
