//! Request and response bodies for repositories.

use serde::{Deserialize, Serialize};

use crate::SandboxId;
use crate::command::{EndReason, OutputOptions};
use crate::object;

/// Request body of `POST /v1/repositories:run`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunInRepository {
    /// `owner/name`, an address that begins with `https://`, the name of an npm package, or `dir:name` for a directory that the
    /// operator allows. At most 512 bytes.
    pub repository: String,
    /// A branch, a tag or the hash of a commit. A hash may be shortened to 7 digits if a branch or tag has the commit.
    /// Default: the default branch, or the latest version of a package.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub git_ref: Option<String>,
    /// A version such as `1.2.3`. Not together with `ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Script for bash. It runs in the directory of the repository and cannot write to it.
    pub command: String,
    /// Time limit of the command in milliseconds, as for other commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Session for which the command runs. Commands of other sessions use other sandboxes, and see none of its output and
    /// temporary files. Default: none, and all commands without one share a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// How much of the output is returned.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputOptions>,
}

/// Query parameters of `GET /v1/repositories:run`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(rename_all = "camelCase")]
pub struct QueryRepository {
    /// `owner/name`, an address that begins with `https://`, the name of an npm package, or `dir:name` for a directory that the
    /// operator allows. At most 512 bytes.
    pub repository: String,
    /// A branch, a tag or the hash of a commit, as in a body.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub git_ref: Option<String>,
    /// A version such as `1.2.3`. Not together with `ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Script for bash, at most 4096 bytes.
    pub command: String,
    /// Time limit of the command in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Response to `POST /v1/repositories:run` and `GET /v1/repositories:run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RepositoryRan {
    /// Sandbox in which the command ran. It is deleted when it is idle.
    pub sandbox_id: SandboxId,
    /// Address of the repository, or `dir:name`.
    pub repository: String,
    /// Hash of the commit. Of a directory that is not a git repository, a hash of its files.
    pub resolved_ref: String,
    /// Version of the package, or the version that the request named.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub resolved_version: Option<String>,
    /// The branch that the request named, or the default one. Null if it named something else.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub branch: Option<String>,
    /// Tags of the commit, at most 20. Empty if nothing was looked up, because the request or the registry named the commit.
    pub tags: Vec<String>,
    /// Whether the repository was there already, so that nothing was fetched.
    pub cached: bool,
    /// What is missing in the files: `submodules`, whose directories are empty, `lfs`, whose files are pointers, or `skipped`,
    /// special and unreadable files of a directory.
    pub warnings: Vec<String>,
    /// Exit code, as a shell would report it.
    pub exit_code: i32,
    /// Why the command ended.
    pub reason: EndReason,
    /// Time from the start of the command to its end in milliseconds.
    pub duration_ms: u64,
    /// Standard output as text, as of other commands that are run to their end.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
    /// Whether a part of the output is omitted.
    pub truncated: bool,
    /// File of the sandbox with the output as it was written. Null if the output is short.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub output_path: Option<String>,
}

/// The repository whose files a new sandbox has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceRepository {
    /// Address of the repository, or `dir:name`.
    pub repository: String,
    /// Hash of the commit. Of a directory that is not a git repository, a hash of its files.
    pub resolved_ref: String,
    /// Version of the package, or the version that the request named.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub resolved_version: Option<String>,
    /// The branch that the request named, or the default one. Null if it named something else.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub branch: Option<String>,
    /// Tags of the commit, at most 20. Empty if nothing was looked up, because the request or the registry named the commit.
    pub tags: Vec<String>,
    /// Whether the repository was there already, so that nothing was fetched.
    pub cached: bool,
    /// What is missing in the files, as in the response of `POST /v1/repositories:run`.
    pub warnings: Vec<String>,
}
