//! Handlers for wrapped servers: convert between wire and model types.

use jiff::Timestamp;
use sandbox_api::mcp::{ApproveMcpServer, McpServer, McpServerList, McpServerOpened, RegisterMcpServer};
use sandbox_api::{Done, StringMap};

use super::body::Json;
use super::caller::{Reader, User};
use super::command::{argv_of, text};
use super::error::Result;
use super::openapi::answers::*;
use super::openapi::{InMcpServer, InSandbox};
use super::params::{self, Path};
use crate::model::mcp::{McpApproval, McpServerSpec, digest, name};
use crate::model::sandbox::env;
use crate::model::{FieldError, limits};
use crate::service::McpServerView;

/// Register a wrapped server.
///
/// A wrapped server is an MCP server of a third party that runs in the sandbox and is served over streamable HTTP at
/// `path`. It is started by the first call, ends when it is idle, and does not keep the sandbox from parking. The first
/// start decides the version of its package, and approves its tools. A server with `env` runs in a sandbox of its own,
/// which has the same image, size and network and ends with the registration. Safe to repeat: another server of the
/// same name returns 409.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/mcp", operation_id = "registerMcpServer", tag = "mcp",
    params(InSandbox), request_body = RegisterMcpServer,
    responses((status = 200, body = McpServer), ByName, ByBody, ByState, BySandbox))]
pub(super) async fn register(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<RegisterMcpServer>,
) -> Result<Json<McpServer>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let (name, spec) = spec_of(request)?;
    Ok(Json(to_wire(access.mcp_servers().register(&id, name, spec).await?)))
}

/// List wrapped servers.
///
/// Returns the servers that are registered with a sandbox. Neither wakes it nor counts as use.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/mcp", operation_id = "listMcpServers", tag = "mcp",
    params(InSandbox), responses((status = 200, body = McpServerList), ByName))]
pub(super) async fn list(Reader(access): Reader, Path(id): Path<String>) -> Result<Json<McpServerList>> {
    let servers = access.mcp_servers().list(&access.sandbox(params::sandbox(&id)?)?)?;
    Ok(Json(McpServerList { servers: servers.into_iter().map(to_wire).collect() }))
}

/// Inspect a wrapped server.
///
/// Neither wakes its sandbox nor counts as use.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/mcp/{name}", operation_id = "getMcpServer", tag = "mcp",
    params(InMcpServer), responses((status = 200, body = McpServer), ByName))]
pub(super) async fn inspect(
    Reader(access): Reader,
    Path((id, name)): Path<(String, String)>,
) -> Result<Json<McpServer>> {
    Ok(Json(to_wire(access.mcp_servers().get(&access.sandbox(params::sandbox(&id)?)?, &name)?)))
}

/// Remove a wrapped server.
///
/// Deletes the sandbox that the server has for itself. Idempotent: succeeds if the server does not exist.
#[utoipa::path(delete, path = "/v1/sandboxes/{id}/mcp/{name}", operation_id = "removeMcpServer", tag = "mcp",
    params(InMcpServer), responses((status = 200, body = Done), ByName, ByState))]
pub(super) async fn remove(
    User(access): User,
    Path((id, name)): Path<(String, String)>,
) -> Result<Json<Done>> {
    access.mcp_servers().remove(&access.sandbox(params::sandbox(&id)?)?, &name).await?;
    Ok(Json(Done::OK))
}

/// Approve a wrapped server.
///
/// Approves a changed tool list by its digest, which the error of a refused call names, or another version of the
/// package. Does not wake the sandbox. Safe to repeat.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/mcp/{name}:approve", operation_id = "approveMcpServer", tag = "mcp",
    params(InMcpServer), request_body = ApproveMcpServer,
    responses((status = 200, body = McpServer), ByName, ByBody))]
pub(super) async fn approve(
    User(access): User,
    Path((id, name)): Path<(String, String)>,
    Json(request): Json<ApproveMcpServer>,
) -> Result<Json<McpServer>> {
    let (id, approval) = (access.sandbox(params::sandbox(&id)?)?, approval_of(request)?);
    Ok(Json(to_wire(access.mcp_servers().approve(&id, &name, approval).await?)))
}

/// Open the sandbox of a wrapped server.
///
/// Returns the sandbox in which the server runs. If it is one of its own, creates or wakes it. Starts no server. Safe
/// to repeat.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/mcp/{name}:open", operation_id = "openMcpServer", tag = "mcp",
    params(InMcpServer), responses((status = 200, body = McpServerOpened), ByName, BySandbox))]
pub(super) async fn open(
    User(access): User,
    Path((id, name)): Path<(String, String)>,
) -> Result<Json<McpServerOpened>> {
    let runs_in = access.mcp_servers().open(&access.sandbox(params::sandbox(&id)?)?, &name).await?;
    Ok(Json(McpServerOpened { runs_in }))
}

fn spec_of(request: RegisterMcpServer) -> Result<(String, McpServerSpec)> {
    let (cmd, args) = argv_of(request.cmd, request.args)?;
    let bytes = cmd.len() + args.iter().map(String::len).sum::<usize>();
    if bytes > limits::MAX_MCP_COMMAND_BYTES {
        let max = limits::MAX_MCP_COMMAND_BYTES;
        return Err(FieldError::new("args", format!("must be at most {max} bytes long, with `cmd`")).into());
    }
    let spec = McpServerSpec {
        cmd,
        args,
        cwd: request.cwd.map(|cwd| text("cwd", cwd, limits::MAX_PATH_BYTES)).transpose()?,
        env: env("env", request.env.unwrap_or_default())?,
        unpinned: request.unpinned.unwrap_or(false),
        allow_elicitation: request.allow_elicitation.unwrap_or(false),
        allow_sampling: request.allow_sampling.unwrap_or(false),
    };
    Ok((name(request.name)?, spec))
}

fn approval_of(request: ApproveMcpServer) -> Result<McpApproval> {
    let digests = request.tools.unwrap_or_default();
    let tools = match request.tools_hash {
        Some(hash) => Some((digest("toolsHash", hash)?, digests_of(digests)?)),
        None if digests.is_empty() => None,
        None => return Err(FieldError::new("tools", "needs `toolsHash`").into()),
    };
    let version =
        request.version.map(|version| text("version", version, limits::MAX_MCP_VERSION_BYTES)).transpose()?;
    Ok(McpApproval { tools, version, if_unset: request.if_unset.unwrap_or(false) })
}

fn digests_of(given: StringMap) -> Result<StringMap> {
    if given.len() > limits::MAX_MCP_TOOLS {
        let max = limits::MAX_MCP_TOOLS;
        return Err(FieldError::new("tools", format!("must have at most {max} entries")).into());
    }
    if given.keys().any(|name| name.len() > limits::MAX_MCP_TOOL_NAME_BYTES) {
        let max = limits::MAX_MCP_TOOL_NAME_BYTES;
        return Err(FieldError::new("tools", format!("must have names of at most {max} bytes")).into());
    }
    let checked: std::result::Result<StringMap, FieldError> =
        given.into_iter().map(|(name, given)| Ok((name, digest("tools", given)?))).collect();
    Ok(checked?)
}

fn to_wire(view: McpServerView) -> McpServer {
    let McpServerView { record, session_key } = view;
    let spec = record.spec;
    McpServer {
        path: format!("/mcp/{}/{}", record.sandbox, record.name),
        sandbox_id: record.sandbox,
        name: record.name,
        cmd: spec.cmd,
        args: spec.args,
        cwd: spec.cwd,
        env_keys: spec.env.into_keys().collect(),
        unpinned: spec.unpinned,
        allow_elicitation: spec.allow_elicitation,
        allow_sampling: spec.allow_sampling,
        version: record.version,
        tools_hash: record.tools_hash,
        tools: record.tools,
        session_key: session_key.to_string(),
        created_at: Timestamp::from_millisecond(record.created_at_ms).unwrap_or(Timestamp::UNIX_EPOCH),
    }
}
