//! Context handlers: convert between wire and model types.

use axum::response::Response;
use sandbox_api::context::{
    Context, ContextInterrupted, ContextList, ContextOpened, Language, OpenContext, RunCode,
};
use sandbox_api::{CommandId, ContextId, Done};

use super::body::Json;
use super::caller::{Reader, User};
use super::command::{env_of, text, timeout_of};
use super::context_tools;
use super::error::Result;
use super::openapi::answers::*;
use super::openapi::{InContext, InSandbox};
use super::params::{self, Path};
use super::{ndjson, run_records};
use crate::model::context::{ContextSpec, ContextStatus, RunSpec};
use crate::model::packages::PackageSet;
use crate::model::{FieldError, Limits, Refusal, limits};
use crate::service;

/// Open a context.
///
/// Starts an interpreter that keeps its state between runs of code. It ends when it is closed, and when the sandbox is
/// parked.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/contexts", operation_id = "openContext", tag = "contexts",
    params(InSandbox), request_body = OpenContext,
    responses((status = 200, body = ContextOpened), ByName, ByPackages, ByBody, BySandbox))]
pub(super) async fn open(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<OpenContext>,
) -> Result<Json<ContextOpened>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let packages = packages_of(&request)?;
    let mut spec = spec_of(request)?;
    let context_id = spec.id.clone();
    access.found("contextId", &context_id);
    if let Some(packages) = packages {
        access.packages().add(&id, packages, &mut spec).await?;
    }
    access.contexts().open(&id, spec).await?;
    Ok(Json(ContextOpened { context_id }))
}

/// List contexts.
///
/// Returns all contexts of the sandbox, oldest first. Wakes the sandbox.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/contexts", operation_id = "listContexts", tag = "contexts",
    params(InSandbox), responses((status = 200, body = ContextList), ByName, BySandbox))]
pub(super) async fn list(Reader(access): Reader, Path(id): Path<String>) -> Result<Json<ContextList>> {
    let contexts = access.contexts().list(&access.sandbox(params::sandbox(&id)?)?).await?;
    Ok(Json(ContextList { contexts: contexts.into_iter().map(to_wire).collect() }))
}

/// Inspect a context.
///
/// Returns the state of the context. Wakes the sandbox.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/contexts/{contextId}", operation_id = "getContext", tag = "contexts",
    params(InContext), responses((status = 200, body = Context), ByName, BySandbox))]
pub(super) async fn inspect(
    Reader(access): Reader,
    Path((id, context)): Path<(String, String)>,
) -> Result<Json<Context>> {
    let (id, context) = (access.sandbox(params::sandbox(&id)?)?, params::context(&context)?);
    Ok(Json(to_wire(access.contexts().inspect(&id, &context).await?)))
}

/// Run code.
///
/// Runs the code in the context and streams its output, the value of its last expression, what it displays, and last
/// `end`. A context runs one piece of code at a time: meanwhile, another request returns 409. Closing the stream
/// interrupts the run. If the interpreter has ended, a new one is started.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/contexts/{contextId}:run", operation_id = "runCode", tag = "contexts",
    params(InContext), request_body = RunCode,
    responses((status = 200, description = "One record per line.", body = sandbox_api::context::RunRecord, content_type = "application/x-ndjson"),
        ByName, ByBody, BySandbox))]
pub(super) async fn run(
    User(access): User,
    Path((id, context)): Path<(String, String)>,
    Json(request): Json<RunCode>,
) -> Result<Response> {
    let (id, context) = (access.sandbox(params::sandbox(&id)?)?, params::context(&context)?);
    let spec = run_of(context, request, access.limits())?;
    let (run_id, timeout) = (spec.id.clone(), spec.timeout);
    let id = access.record_run(id, &spec).await?;
    Ok(run_records::response(
        access.contexts().run(&id, access.shared_principal(), spec).await?,
        run_id,
        timeout,
    ))
}

/// Interrupt a run.
///
/// Interrupts the code that runs in the context, as Ctrl-C does. Succeeds also if none does.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/contexts/{contextId}:interrupt", operation_id = "interruptContext",
    tag = "contexts", params(InContext), responses((status = 200, body = ContextInterrupted), ByName, BySandbox))]
pub(super) async fn interrupt(
    User(access): User,
    Path((id, context)): Path<(String, String)>,
) -> Result<Json<ContextInterrupted>> {
    let (id, context) = (access.sandbox(params::sandbox(&id)?)?, params::context(&context)?);
    let interrupted = access.contexts().interrupt(&id, &context).await?;
    Ok(Json(ContextInterrupted { ok: true, interrupted }))
}

/// Restart a context.
///
/// Ends the interpreter with everything that was started from it, and starts a new one. Its state is lost.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/contexts/{contextId}:restart", operation_id = "restartContext",
    tag = "contexts", params(InContext), responses((status = 200, body = Done), ByName, BySandbox))]
pub(super) async fn restart(
    User(access): User,
    Path((id, context)): Path<(String, String)>,
) -> Result<Json<Done>> {
    let (id, context) = (access.sandbox(params::sandbox(&id)?)?, params::context(&context)?);
    access.contexts().restart(&id, &context).await?;
    Ok(Json(Done::OK))
}

/// Close a context.
///
/// Ends the interpreter with everything that was started from it, and responds when no process of it is left.
#[utoipa::path(delete, path = "/v1/sandboxes/{id}/contexts/{contextId}", operation_id = "closeContext",
    tag = "contexts", params(InContext), responses((status = 200, body = Done), ByName, BySandbox))]
pub(super) async fn close(
    User(access): User,
    Path((id, context)): Path<(String, String)>,
) -> Result<Json<Done>> {
    let (id, context) = (access.sandbox(params::sandbox(&id)?)?, params::context(&context)?);
    access.contexts().close(&id, &context).await?;
    Ok(Json(Done::OK))
}

fn packages_of(request: &OpenContext) -> std::result::Result<Option<PackageSet>, FieldError> {
    let packages = PackageSet::parse(request.packages.as_deref().unwrap_or_default())?;
    match packages.is_some() && request.language != Language::Python {
        true => Err(FieldError::new("packages", "must be absent if the language is not python")),
        false => Ok(packages),
    }
}

fn spec_of(request: OpenContext) -> Result<ContextSpec> {
    Ok(ContextSpec {
        id: ContextId::random().map_err(|source| service::Error::Randomness { source })?,
        language: request.language,
        cwd: text("cwd", request.cwd.unwrap_or_default(), limits::MAX_PATH_BYTES)?,
        env: env_of(request.env.unwrap_or_default())?,
        secrets: Vec::new(),
        tools: context_tools::tools_of(request.tools, request.language)?,
    })
}

fn run_of(context: ContextId, request: RunCode, limits_of_operator: Limits) -> Result<RunSpec> {
    if request.code.len() > limits::MAX_CODE_BYTES {
        let limit = limits::MAX_CODE_BYTES as u64;
        return Err(Refusal::TooLarge { what: "`code`".into(), limit }.into());
    }
    Ok(RunSpec {
        id: CommandId::random().map_err(|source| service::Error::Randomness { source })?,
        context,
        code: text("code", request.code, limits::MAX_CODE_BYTES)?,
        timeout: timeout_of(request.timeout_ms, None, limits_of_operator),
    })
}

fn to_wire(status: ContextStatus) -> Context {
    Context {
        context_id: status.id,
        language: status.language,
        cwd: status.cwd,
        started_at: ndjson::time(status.started_at_ms),
        running: status.is_running,
        runs: status.runs,
        tools: status.tools,
        tool_calls: status.tool_calls,
    }
}
