//! The registrations of the servers of calls, and their approved tools.

use std::sync::Arc;

use http::request::Parts;
use rmcp::model::Extensions;
use sandbox_api::mcp::{ApproveMcpServer, McpServer};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::Client;
use surface_caller::{Callers, Conversation};

use super::listener::Allowed;
use super::pin::{Floating, floating};
use super::process::{Launch, Registered};
use super::resolve;
use super::single::Single;
use super::tools::{Approved, ToolList};
use super::upstream::Upstream;
use super::upstreams::{Entry, Upstreams};

/// Name of the token that may use every sandbox.
const ADMIN: &str = "admin";

/// Beginning of the path of every wrapped server.
const PREFIX: &str = "/mcp/";

/// How calls find their server.
#[derive(Clone)]
pub(super) enum Registrations {
    /// The URL of each request names a registration of the daemon.
    Daemon { callers: Arc<dyn Callers>, upstreams: Upstreams },
    /// All calls are for one server.
    Single(Arc<Single>),
}

/// The server of a call.
pub(super) struct Target {
    pub(super) upstream: Arc<Upstream>,
    /// Sends the requests of the server's command, which may outlive the call.
    pub(super) client: Client,
    pub(super) launch: Launch,
    approved: Option<Approved>,
    /// The registration, if the daemon has it.
    registered: Option<Box<McpServer>>,
}

impl Registrations {
    /// The server of a request.
    pub(super) async fn target(&self, extensions: &Extensions) -> Result<Target, String> {
        match self {
            Self::Single(single) => Ok(Target {
                upstream: single.upstream(),
                client: single.client().clone(),
                launch: single.launch().clone(),
                approved: single.approved(),
                registered: None,
            }),
            Self::Daemon { callers, upstreams } => {
                let head = extensions.get::<Parts>().ok_or("the request has no head")?;
                let caller = callers.caller(head);
                let (sandbox, name) = named_by(head.uri.path()).ok_or_else(|| unknown(head.uri.path()))?;
                let found = match caller.client.mcp_server(&sandbox, name).await {
                    Ok(found) => found,
                    Err(error) if error.code() == Some(ErrorCode::NotFound) => {
                        upstreams.end(&sandbox, name).await;
                        return Err(unknown(head.uri.path()));
                    }
                    Err(error) => return Err(error.to_string()),
                };
                check_access(&caller.token_name, head, &found)?;
                let upstream = upstreams.of(&found)?;
                let launch = launch_of(&caller.background, &upstream, &found).await?;
                let approved =
                    found.tools_hash.clone().map(|hash| Approved { hash, tools: found.tools.clone() });
                Ok(Target {
                    upstream: upstream.server(),
                    client: caller.background,
                    launch,
                    approved,
                    registered: Some(Box::new(found)),
                })
            }
        }
    }

    /// Checks the tools of a server against those that were approved. The first ones that it has are approved.
    pub(super) async fn check(&self, target: &Target, tools: &ToolList) -> Result<(), String> {
        let is_same = |approved: &Approved| approved.hash == tools.hash;
        match &target.approved {
            Some(approved) if is_same(approved) && !approved.tools.is_empty() => return Ok(()),
            Some(approved) if is_same(approved) && tools.digests.is_empty() => return Ok(()),
            Some(approved) if !is_same(approved) => {
                return Err(changed(tools, approved, &self.advice(target, tools)));
            }
            // Not approved yet, or approved by the digest of the list alone.
            _ => {}
        }
        match (self, &target.registered) {
            (Self::Single(single), _) => single.approve(tools),
            (_, Some(server)) => {
                let request = ApproveMcpServer {
                    tools_hash: Some(tools.hash.clone()),
                    tools: Some(tools.digests.clone()),
                    version: None,
                    if_unset: Some(target.approved.is_none()),
                };
                let now = target.client.approve_mcp_server(&server.sandbox_id, &server.name, &request).await;
                let now = now.map_err(|error| format!("its tools could not be recorded: {error}"))?;
                if now.tools_hash.as_deref() == Some(&tools.hash) {
                    return Ok(());
                }
                let approved = Approved { hash: now.tools_hash.unwrap_or_default(), tools: now.tools };
                Err(changed(tools, &approved, &self.advice(target, tools)))
            }
            (Self::Daemon { .. }, None) => Ok(()),
        }
    }

    /// How a user approves the tools.
    fn advice(&self, target: &Target, tools: &ToolList) -> String {
        match &target.registered {
            Some(server) => format!(
                "POST /v1/sandboxes/{}/mcp/{}:approve {{\"toolsHash\":\"{}\"}}",
                server.sandbox_id, server.name, tools.hash
            ),
            None => format!("start it again with --tools-hash {}", tools.hash),
        }
    }
}

fn changed(tools: &ToolList, approved: &Approved, advice: &str) -> String {
    let changes = match approved.tools.is_empty() {
        true => String::new(),
        false => format!(" ({})", tools.changes_since(&approved.tools)),
    };
    format!(
        "the tools of this server have changed since they were approved{changes}, so it is not used. \
         If the user agrees to the new tools: {advice}"
    )
}

fn unknown(path: &str) -> String {
    format!("there is no server at {}", path.escape_debug())
}

/// Sandbox and server that a path names.
fn named_by(path: &str) -> Option<(SandboxId, &str)> {
    let (sandbox, name) = path.strip_prefix(PREFIX)?.split_once('/')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_valid = !name.is_empty() && name.bytes().all(is_name);
    Some((sandbox.parse().ok().filter(|_| is_valid)?, name))
}

/// Checks that the sandbox is one of the caller's. The message is that for a server that does not exist.
fn check_access(token_name: &str, head: &Parts, server: &McpServer) -> Result<(), String> {
    if token_name == ADMIN {
        return Ok(());
    }
    let conversation = Conversation::of(token_name, &head.headers).map_err(|error| error.to_string())?;
    if conversation.namespace.contains(&server.session_key) { Ok(()) } else { Err(unknown(head.uri.path())) }
}

/// How a registered server is started. Decides the version of its package at the first start.
async fn launch_of(client: &Client, upstream: &Entry, server: &McpServer) -> Result<Launch, String> {
    let mut args = server.args.clone();
    let found = if server.unpinned { Ok(None) } else { floating(&server.cmd, &server.args) };
    let found = found.map_err(|error| error.to_string())?;
    if let Some(package) = found {
        let version = match &server.version {
            Some(version) => version.clone(),
            None => {
                let running = upstream.server();
                let _turn = running.turn_to_decide().await;
                running.check_pause().await.map_err(|problem| problem.to_string())?;
                match decide_version(client, server, &package).await {
                    Ok(version) => version,
                    Err(why) => return Err(running.fail(why).await.to_string()),
                }
            }
        };
        args = package.with_version(&args, &version);
    }
    let sandbox = upstream.sandbox(client, server).await?;
    Ok(Launch {
        sandbox,
        cmd: server.cmd.clone(),
        args,
        cwd: server.cwd.clone(),
        // Variables are those of the server's own sandbox.
        env: Default::default(),
        allowed: Allowed { elicitation: server.allow_elicitation, sampling: server.allow_sampling },
        registered: Some(Registered {
            sandbox: server.sandbox_id.clone(),
            name: server.name.clone(),
            created_at: server.created_at.as_nanosecond(),
        }),
    })
}

async fn decide_version(client: &Client, server: &McpServer, package: &Floating) -> Result<String, String> {
    let (sandbox, name) = (&server.sandbox_id, &server.name);
    // Another caller may have decided it meanwhile.
    let now = client.mcp_server(sandbox, name).await.map_err(|error| error.to_string())?;
    if let Some(version) = now.version {
        return Ok(version);
    }
    let opened = client.open_mcp_server(sandbox, name).await.map_err(|error| error.to_string())?;
    let version =
        resolve::current(client, &opened.runs_in, package).await.map_err(|error| error.to_string())?;
    let request = ApproveMcpServer {
        version: Some(version.clone()),
        if_unset: Some(true),
        ..ApproveMcpServer::default()
    };
    let now = client.approve_mcp_server(sandbox, name, &request).await.map_err(|error| error.to_string())?;
    Ok(now.version.unwrap_or(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_sandbox_and_server() {
        let (sandbox, name) = named_by("/mcp/sbx_0123456789abcdef/files").unwrap();
        assert_eq!((sandbox.to_string().as_str(), name), ("sbx_0123456789abcdef", "files"));
        for path in
            ["/mcp", "/mcp/", "/mcp/sbx_0123456789abcdef/", "/mcp/x/y", "/mcp/sbx_0123456789abcdef/a/b"]
        {
            assert!(named_by(path).is_none(), "{path}");
        }
    }

    #[test]
    fn a_change_names_the_way_to_approve_it() {
        let tools = ToolList::new(vec![serde_json::json!({ "name": "new" })]);
        let approved = Approved { hash: "old".into(), tools: [("gone".to_owned(), String::new())].into() };
        let text = changed(&tools, &approved, "do this");
        assert!(text.contains("added: `new`; removed: `gone`") && text.ends_with("do this"), "{text}");
    }
}
