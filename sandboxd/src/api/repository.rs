//! Handlers of repositories: convert between wire and model types.

use sandbox_api::command::{CommandRan, StartCommand};
use sandbox_api::repository::{QueryRepository, RepositoryRan, RunInRepository, WorkspaceRepository};
use sandbox_api::sandbox::{RepositorySource, WorkspaceSource};

use super::body::Json;
use super::caller::User;
use super::command::spec_of;
use super::error::Result;
use super::openapi::answers::*;
use super::params::{self, Params};
use super::run::{limit_of, run_to_end};
use crate::model::{CommandSpec, FieldError, limits};
use crate::service::{Access, Opened, RepositoryFiles, RepositoryRequest};

/// The workspace is the home directory, so a repository could configure the git of the script.
const GIT_CONFIG: (&str, &str) = ("GIT_CONFIG_GLOBAL", "/dev/null");

/// Where the files of a new sandbox come from, checked.
pub(super) enum Source {
    Snapshot(sandbox_api::SnapshotId),
    Repository(RepositoryRequest),
}

/// Run a command in a repository.
///
/// Fetches the repository if it is not kept yet, and runs a script that reads it. Its files cannot be written, and the script
/// reaches no network. Responds when the script has ended, with its output as text for a language model. The sandbox is kept
/// for later commands in the same repository at the same commit, and deleted when it is idle.
#[utoipa::path(post, path = "/v1/repositories:run", operation_id = "runInRepository", tag = "repositories",
    request_body = RunInRepository,
    responses((status = 200, body = RepositoryRan), ByRepository, ByBody, BySandbox))]
pub(super) async fn run(
    User(access): User,
    Json(request): Json<RunInRepository>,
) -> Result<Json<RepositoryRan>> {
    run_for(access, request).await
}

/// Run a command in a repository, described by a query.
///
/// Does the same as `POST /v1/repositories:run`, for clients that can only follow links. The script has at most 4096 bytes.
#[utoipa::path(get, path = "/v1/repositories:run", operation_id = "queryRepository", tag = "repositories",
    params(QueryRepository), responses((status = 200, body = RepositoryRan), ByRepository, ByQuery, BySandbox))]
pub(super) async fn query(User(access): User, params: Params) -> Result<Json<RepositoryRan>> {
    let text = |name: &str| params.get(name).cloned();
    let required = |name: &'static str| text(name).ok_or_else(|| FieldError::new(name, "is missing"));
    let command = required("command")?;
    if command.len() > limits::MAX_QUERY_SCRIPT_BYTES {
        let problem = format!("must be at most {} bytes long in a query", limits::MAX_QUERY_SCRIPT_BYTES);
        return Err(FieldError::new("command", problem).into());
    }
    let request = RunInRepository {
        repository: required("repository")?,
        git_ref: text("ref"),
        version: text("version"),
        command,
        timeout_ms: params::optional(&params, "timeoutMs", "a number")?,
        session_key: None,
        output: None,
    };
    run_for(access, request).await
}

async fn run_for(access: Access, request: RunInRepository) -> Result<Json<RepositoryRan>> {
    let RunInRepository { repository, git_ref, version, command, timeout_ms, session_key, output } = request;
    let session_key = session_key.map(|key| key.parse().map_err(FieldError::from)).transpose()?;
    let repositories = access.repositories();
    let wanted = repositories.request(&repository, git_ref.as_deref(), version.as_deref())?;
    let limit = limit_of(output.unwrap_or_default())?;
    let command = StartCommand {
        script: Some(command),
        read_only: Some(true),
        env: Some([(GIT_CONFIG.0.to_owned(), GIT_CONFIG.1.to_owned())].into()),
        timeout_ms,
        ..StartCommand::default()
    };
    // First, so that an invalid command fetches nothing.
    let spec = CommandSpec { output_file_after: Some(limit.bytes()), ..spec_of(command, access.limits())? };
    let idle_ttl = access.limits().default_idle_ttl;
    let opened = repositories.open(access.creator()?, session_key.as_ref(), &wanted, idle_ttl).await?;
    access.found("sandboxId", &opened.sandbox.id);
    let key = &opened.files.repository.key;
    access.found("repository", key.origin.to_string());
    access.found("commit", key.commit.as_str());
    let id = access.sandbox(opened.sandbox.id.clone())?;
    let id = access.record_commands(id, std::slice::from_ref(&spec)).await?;
    Ok(Json(to_wire(opened, run_to_end(&access, &id, spec, limit).await?)))
}

/// Checks the source of a new sandbox's files.
pub(super) fn source_of(source: &WorkspaceSource, access: &Access) -> Result<Source> {
    let RepositorySource { repository, git_ref, version } = match source {
        WorkspaceSource::Snapshot(source) => return Ok(Source::Snapshot(source.snapshot_id.clone())),
        WorkspaceSource::Repository(source) => source,
    };
    let request = access.repositories().request(repository, git_ref.as_deref(), version.as_deref());
    let in_workspace =
        |error: FieldError| FieldError::new(format!("workspace.{}", error.field), error.problem);
    Ok(Source::Repository(request.map_err(in_workspace)?))
}

/// Describes the files of a repository.
pub(super) fn files_to_wire(files: RepositoryFiles) -> WorkspaceRepository {
    let RepositoryFiles { repository, warnings, is_cached } = files;
    WorkspaceRepository {
        repository: repository.key.origin.to_string(),
        resolved_ref: repository.key.commit.to_string(),
        resolved_version: repository.version,
        branch: repository.branch,
        tags: repository.tags,
        cached: is_cached,
        warnings: warnings.into_iter().map(|warning| warning.as_str().to_owned()).collect(),
    }
}

fn to_wire(opened: Opened, ran: CommandRan) -> RepositoryRan {
    let WorkspaceRepository { repository, resolved_ref, resolved_version, branch, tags, cached, warnings } =
        files_to_wire(opened.files);
    RepositoryRan {
        sandbox_id: opened.sandbox.id,
        repository,
        resolved_ref,
        resolved_version,
        branch,
        tags,
        cached,
        warnings,
        exit_code: ran.exit_code,
        reason: ran.reason,
        duration_ms: ran.duration_ms,
        stdout: ran.stdout,
        stderr: ran.stderr,
        truncated: ran.truncated,
        output_path: ran.output_path,
    }
}
