//! Projects and their tokens.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::quota::Quotas;
use crate::{SandboxId, TokenId};

/// A project: sandboxes and snapshots that no other project can see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// Its quotas. The daemon's defaults, which apply where it has none, are not among them.
    #[serde(default)]
    pub quotas: Quotas,
}

/// Body of `POST /v1/projects`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CreateProject {
    /// Name: 1 to 63 lower-case letters, digits and `-`, without a `-` at either end.
    pub name: String,
}

/// Response of `GET /v1/projects`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProjectList {
    /// Projects in the order of their names.
    pub projects: Vec<Project>,
    /// Cursor of the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Body of `POST /v1/projects/{project}/tokens`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CreateToken {
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Limits the token to what belongs to this person or program of the project: 1 to 256 visible ASCII characters.
    /// Without it, the token reaches the whole project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What the token permits: `read`, `use` (includes `read`) and `manage` (tokens of the project). Default: `use`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// Time in milliseconds after which the token expires. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

/// A token of a project, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Its id.
    pub token_id: TokenId,
    /// Its project.
    pub project: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The person or program that it is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What it permits.
    pub scopes: Vec<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires. Absent is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to about a minute. Absent if it was not used yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
}

/// Response of `POST /v1/projects/{project}/tokens`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TokenCreated {
    /// The token: `sbt_…`. It is stored nowhere and never returned again.
    pub token: String,
    /// Its properties.
    #[serde(flatten)]
    pub properties: Token,
}

impl std::fmt::Debug for TokenCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenCreated").field("properties", &self.properties).finish_non_exhaustive()
    }
}

/// Response of `GET /v1/projects/{project}/tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TokenList {
    /// Tokens in the order of their ids.
    pub tokens: Vec<Token>,
    /// Cursor of the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Response of `GET /v1/whoami`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WhoAmI {
    /// Project of the token.
    pub project: String,
    /// Subject that the token is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What the token permits.
    pub scopes: Vec<String>,
    /// Id of a project token, or name of another one.
    pub token: String,
    /// Whether it is the operator's token.
    pub operator: bool,
    /// The only sandbox that the token reaches. Absent if it reaches every one that belongs to its project and subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// When the token expires. Absent is never, or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Body of `POST /v1/child-tokens`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CreateChildToken {
    /// Limits the token to what belongs to this person or program of the project: 1 to 256 visible ASCII characters.
    /// Default: that of the token of this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What the token permits: `read`, `use` (includes `read`) and `manage` (tokens of the project). Default: what the token
    /// of this request permits, without `manage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// Limits the token to one sandbox. It cannot create others, and `scopes` must not contain `manage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// Time in milliseconds after which the token expires, a day at most. Default: an hour, but not later than the token of
    /// this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

/// Response of `POST /v1/child-tokens`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildToken {
    /// The token: `sbc_…`. It is stored nowhere.
    pub token: String,
    /// Its project.
    pub project: String,
    /// The person or program that it is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What it permits.
    pub scopes: Vec<String>,
    /// The only sandbox that it reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// When it expires.
    pub expires_at: Timestamp,
}

impl std::fmt::Debug for ChildToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChildToken").field("subject", &self.subject).finish_non_exhaustive()
    }
}

/// Body of `POST /v1/tickets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CreateTicket {
    /// Path of the WebSocket: begins with `/v1/`, without a query.
    pub path: String,
}

/// Response of `POST /v1/tickets`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ticket {
    /// The ticket: letters and digits. It is used up by the first request that has it.
    pub ticket: String,
    /// When it expires.
    pub expires_at: Timestamp,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// Body of `POST /v1/projects/{project}/subjects:revoke`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RevokeSubject {
    /// The person or program: 1 to 256 visible ASCII characters.
    pub subject: String,
}
