//! Every route, asked by principals who must not see the sandbox: the response is that for an id that does not exist.

use std::collections::BTreeSet;

use futures::future::join_all;
use sandbox_api::context::{Language, OpenContext};
use sandbox_api::project::{CreateChildToken, CreateToken};
use sandbox_api::sandbox::{CreateSandbox, SandboxState};
use sandbox_api::snapshot::MakeSnapshot;
use sandbox_api::terminal::OpenTerminal;
use sandbox_api::{SandboxId, SnapshotId, TokenId};
use sandbox_client::Client;
use serde_json::Value;

use super::jwt::{with_secret, wrong_tokens};
use super::{client_of, token_of, without_rate_limits};
use crate::support::harness::{Daemon, Home, script, until};
use crate::support::http::{Answer, HttpClient};
use crate::support::operations::{NO_COMMAND, NO_CONTEXT, NO_SANDBOX, NO_TERMINAL};

/// Requests of each principal to each route at the same time.
pub(super) const PROBES: usize = 30;

/// Content of its file.
const CONTENT: &str = "of the victim only";

/// Routes without an id of the victim, and what they do for an intruder: only what is its own.
const OWN: [&str; 22] = [
    "GET /docs",
    "GET /docs/{file}",
    "GET /metrics",
    "GET /openapi.json",
    "GET /v1/audit",
    "GET /v1/orphans",
    "DELETE /v1/orphans/{name}",
    "GET /v1/projects",
    "POST /v1/projects",
    "PUT /v1/projects/{project}",
    "GET /v1/sandboxes",
    "POST /v1/sandboxes",
    "GET /v1/snapshots",
    "GET /v1/repositories:run",
    "POST /v1/repositories:run",
    "POST /v1/snapshots:check",
    "POST /v1/snapshots:import",
    "POST /v1/child-tokens",
    "POST /v1/tickets",
    "GET /v1/whoami",
    "GET /v1/health",
    "GET /v1/ready",
];

/// Routes that list nothing for an id that does not exist.
const LISTS: [&str; 1] = ["GET /v1/sandboxes/{id}/snapshots"];

/// Routes that change the protocol, and to which. Without an upgrade, they refuse a request before they look at its ids.
const UPGRADES: [(&str, &str); 2] = [
    ("/v1/sandboxes/{id}/terminals/{terminalId}/attach", "websocket"),
    ("/v1/sandboxes/{id}/ports/{port}/tunnel", "tcp"),
];

const SOCKET_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAA==";

/// What an intruder tries to reach.
pub(super) struct Victim {
    pub(super) sandbox: SandboxId,
    command: String,
    terminal: String,
    context: String,
    link: String,
    snapshot: SnapshotId,
    pub(super) token: TokenId,
}

struct Route {
    method: String,
    path: String,
    body: Option<Value>,
}

impl Route {
    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The path with these values for its parameters.
    fn filled(&self, values: &[(&str, &str)]) -> String {
        let common = [
            ("{port}", "3000"),
            ("{call}", "1"),
            ("{denialId}", "den_0000000000000000"),
            ("{name}", "server"),
            ("{key}", "secret"),
            ("{file}", "page.js"),
        ];
        let all = values.iter().chain(&common);
        let path = all.fold(self.path.clone(), |path, (name, value)| path.replace(name, value));
        assert!(!path.contains('{'), "a parameter without a value: {path}");
        // The path of a file, which some routes need.
        if self.path.contains("/files") { format!("{path}?path=mine.txt") } else { path }
    }
}

async fn routes(api: &HttpClient) -> Vec<Route> {
    let document = api.get("/openapi.json").await.json();
    let schemas = &document["components"]["schemas"];
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, said) in item.as_object().unwrap() {
            let reference = said["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str();
            let schema = reference.and_then(|name| name.rsplit('/').next()).map(|name| &schemas[name]);
            let body = schema.map(|schema| schema["examples"][0].clone());
            routes.push(Route { method: method.to_uppercase(), path: path.clone(), body });
        }
    }
    routes
}

async fn ask(api: &HttpClient, token: &str, route: &Route, path: &str) -> Answer {
    let mut request =
        api.without_token(&route.method, path).header("authorization", format!("Bearer {token}"));
    if let Some((_, protocol)) = UPGRADES.iter().find(|(upgraded, _)| *upgraded == route.path) {
        request = request.header("connection", "upgrade").header("upgrade", *protocol);
        request = request.header("sec-websocket-version", "13").header("sec-websocket-key", SOCKET_KEY);
    }
    Answer::to(match &route.body {
        Some(body) => request.json(body),
        None => request,
    })
    .await
}

/// What an intruder may compare: the status, the names of the headers, and the body without the id of the request.
fn shape(answer: &Answer) -> (u16, BTreeSet<String>, String) {
    let headers = answer.headers.keys().map(ToString::to_string).collect();
    let mut body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if let Some(body) = body.as_object_mut() {
        body.remove("requestId");
    }
    (answer.status, headers, body.to_string())
}

pub(super) async fn victim(client: &Client) -> Victim {
    let request = CreateSandbox {
        session_key: "chat:victim".into(),
        ports: Some(vec![3000]),
        ..CreateSandbox::default()
    };
    let sandbox = client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    client.put_file(&sandbox, "mine.txt", CONTENT, Default::default()).await.unwrap();
    let sleeper = sandbox_api::command::StartCommand { detached: Some(true), ..script("sleep 3600") };
    let command = client.start(&sandbox, &sleeper).await.unwrap().command_id.to_string();
    let terminal = client.open_terminal(&sandbox, &OpenTerminal::default()).await.unwrap().terminal_id;
    let context = client.open_context(&sandbox, &OpenContext::new(Language::Bash)).await.unwrap();
    let context = context.context_id.to_string();
    let link = client.create_link(&sandbox, 3000, &Default::default()).await.unwrap().link_id;
    let snapshot =
        client.make_snapshot(&sandbox, &MakeSnapshot::default()).await.unwrap().snapshot.snapshot_id;
    let token = client.create_token("lab", &CreateToken::default()).await.unwrap().properties.token_id;
    Victim {
        sandbox,
        command,
        terminal: terminal.to_string(),
        context,
        link: link.to_string(),
        snapshot,
        token,
    }
}

/// A principal that must not reach what belongs to the victim.
struct Intruder {
    token: String,
    of_project: bool,
    manages: bool,
}

/// Asks all routes, and compares the responses with those for ids that do not exist.
async fn intrude(api: &HttpClient, routes: &[Route], by: &Intruder, victim: &Victim) {
    let Intruder { token, of_project, manages } = by;
    let (sandbox, snapshot, token_id) =
        (victim.sandbox.to_string(), victim.snapshot.to_string(), victim.token.to_string());
    let real = [
        ("{id}", sandbox.as_str()),
        ("{commandId}", &victim.command),
        ("{terminalId}", &victim.terminal),
        ("{contextId}", &victim.context),
        ("{linkId}", &victim.link),
        ("{snapshotId}", &snapshot),
        ("{project}", "lab"),
        ("{tokenId}", &token_id),
    ];
    let unknown = [
        ("{id}", NO_SANDBOX),
        ("{commandId}", NO_COMMAND),
        ("{terminalId}", NO_TERMINAL),
        ("{contextId}", NO_CONTEXT),
        ("{linkId}", "lnk_0000000000000000"),
        ("{snapshotId}", "snap_0000000000000000"),
        ("{project}", if *of_project { "lab" } else { "no-such-project" }),
        ("{tokenId}", "tok_0000000000000000"),
    ];
    // A principal of the same project sees its quotas, and may list and create tokens of its own subject there.
    let is_own = |route: &Route| {
        let is_of_project = route.path.starts_with("/v1/projects/{project}");
        // Everything of a project but a single token.
        let is_own = *of_project && is_of_project && !route.path.contains("{tokenId}");
        OWN.contains(&route.name().as_str()) || is_own || (!manages && is_of_project)
    };
    for route in routes.iter().filter(|route| !is_own(route)) {
        let (there, nowhere) = (route.filled(&real), route.filled(&unknown));
        assert_ne!(there, nowhere, "{}: not in `OWN`, and without an id of the victim", route.name());
        let expected = shape(&ask(api, token, route, &nowhere).await);
        // Otherwise the request was refused before its ids were looked at, and the comparison would show nothing.
        let is_delete = route.method == "DELETE" || route.path.ends_with(":stop");
        assert!(
            expected.0 == 404 || (is_delete && expected.0 == 200) || LISTS.contains(&route.name().as_str()),
            "{} reports {expected:?} for an id that does not exist",
            route.name()
        );
        let probes = join_all((0..PROBES).map(|_| ask(api, token, route, &there))).await;
        for answer in &probes {
            assert_eq!(shape(answer), expected, "{}", route.name());
            let body = String::from_utf8_lossy(&answer.body);
            assert!(!body.contains(CONTENT), "{}: {body}", route.name());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_ids_are_answered_as_unknown_ones_on_every_route() {
    let daemon = Daemon::start_in(without_rate_limits(Home::new())).await;
    let api = HttpClient::of(&daemon);
    let owner = client_of(&daemon, "lab", Some("ann"), &["use", "manage"]).await;
    let victim = victim(&owner).await;
    let routes = routes(&api).await;
    assert!(routes.len() > 70, "{}", routes.len());

    let all = ["use", "manage"];
    let mut intruders = Vec::new();
    for (project, subject) in [("press", None), ("press", Some("ann")), ("lab", Some("bob"))] {
        let token = token_of(&daemon, project, subject, &all).await.token;
        intruders.push(Intruder { token, of_project: project == "lab", manages: true });
    }
    for intruder in &intruders {
        intrude(&api, &routes, intruder, &victim).await;
        let token = &intruder.token;
        // Lists and creates show and make only what is the intruder's own.
        for list in ["/v1/sandboxes", "/v1/sandboxes?sessionKey=chat%3Avictim", "/v1/snapshots"] {
            let route = Route { method: "GET".into(), path: list.into(), body: None };
            let answer = ask(&api, token, &route, list).await;
            let body = String::from_utf8_lossy(&answer.body);
            assert!(
                answer.status == 200 && !body.contains("sbx_") && !body.contains("snap_"),
                "{list}: {body}"
            );
        }
        for forbidden in ["/metrics", "/v1/orphans"] {
            let route = Route { method: "GET".into(), path: forbidden.into(), body: None };
            assert_eq!(ask(&api, token, &route, forbidden).await.status, 403, "{forbidden}");
        }
        let intruder = Client::new(&daemon.base, token).unwrap();
        let request = CreateSandbox { session_key: "chat:victim".into(), ..CreateSandbox::default() };
        let own = intruder.create_or_reconnect(&request).await.unwrap();
        assert!(own.created && own.sandbox_id != victim.sandbox);
        intruder.delete(&own.sandbox_id).await.unwrap();
        let from = sandbox_api::sandbox::WorkspaceSource::snapshot(victim.snapshot.clone());
        let stolen = CreateSandbox {
            session_key: "chat:stolen".into(),
            workspace: Some(from),
            ..CreateSandbox::default()
        };
        intruder.create_or_reconnect(&stolen).await.unwrap_err();
    }
    // A token of the victim's own subject, but for another sandbox.
    let request = CreateSandbox { session_key: "chat:other".into(), ..CreateSandbox::default() };
    let other = owner.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let request = CreateChildToken { sandbox_id: Some(other), ..CreateChildToken::default() };
    let token = owner.create_child_token(&request).await.unwrap().token;
    intrude(&api, &routes, &Intruder { token, of_project: true, manages: false }, &victim).await;
    assert_unharmed(&owner, &victim).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_are_not_valid_open_no_route() {
    let daemon = Daemon::start_in(with_secret(Home::new())).await;
    let api = HttpClient::of(&daemon);
    let owner = client_of(&daemon, "lab", Some("ann"), &["use", "manage"]).await;
    let victim = victim(&owner).await;
    let revoked = token_of(&daemon, "lab", Some("ann"), &["use", "manage"]).await;
    daemon.client.revoke_token("lab", &revoked.properties.token_id).await.unwrap();
    let short = CreateToken { ttl_ms: Some(1_000), ..CreateToken::default() };
    let expired = daemon.client.create_token("lab", &short).await.unwrap();
    let client = Client::new(&daemon.base, &expired.token).unwrap();
    until("the token has expired", async || client.whoami().await.is_err()).await;
    let valid = token_of(&daemon, "lab", Some("ann"), &["use"]).await.token;
    let (id, secret) = valid.rsplit_once('_').unwrap();
    let child = async |parent: &str| {
        let parent = Client::new(&daemon.base, parent).unwrap();
        parent.create_child_token(&CreateChildToken::default()).await.unwrap().token
    };
    let of_revoked = token_of(&daemon, "lab", Some("ann"), &["use", "manage"]).await;
    let orphan = child(&of_revoked.token).await;
    daemon.client.revoke_token("lab", &of_revoked.properties.token_id).await.unwrap();
    let own_child = child(&valid).await;
    let mut wrong = vec![
        orphan,
        format!("{}A", &own_child[..own_child.len() - 4]),
        own_child.replacen("sbc_", "sbt_", 1),
        valid.replacen("sbt_", "sbc_", 1),
        revoked.token.clone(),
        expired.token.clone(),
        format!("{id}_{}", "0".repeat(secret.len())),
        format!("{id}_{}", revoked.token.rsplit('_').next().unwrap()),
        format!("{id}_"),
        valid.replacen("sbt_", "sbt_tok_", 1),
        valid.to_uppercase(),
    ];
    wrong.extend(wrong_tokens());
    let sandbox = victim.sandbox.to_string();
    let values = [
        ("{id}", sandbox.as_str()),
        ("{commandId}", &victim.command),
        ("{terminalId}", &victim.terminal),
        ("{contextId}", &victim.context),
        ("{linkId}", &victim.link),
        ("{snapshotId}", victim.snapshot.as_str()),
        ("{project}", "lab"),
        ("{tokenId}", victim.token.as_str()),
    ];
    for route in
        routes(&api).await.iter().filter(|route| !matches!(route.path.as_str(), "/v1/health" | "/v1/ready"))
    {
        let path = route.filled(&values);
        for answer in join_all(wrong.iter().map(|token| ask(&api, token, route, &path))).await {
            // After many wrong tokens, the daemon says so.
            assert!(matches!(answer.status, 401 | 429), "{} {path}: {}", route.method, answer.status);
        }
    }
    assert_unharmed(&owner, &victim).await;
    daemon.stop().await;
}

pub(super) async fn assert_unharmed(owner: &Client, victim: &Victim) {
    let found = owner.get(&victim.sandbox).await.unwrap();
    assert_eq!((found.state, found.ports.as_slice()), (SandboxState::Running, [3000].as_slice()));
    assert_eq!(owner.read_file(&victim.sandbox, "mine.txt").await.unwrap().unwrap(), CONTENT.as_bytes());
    let commands = owner.commands(&victim.sandbox, 10).await.unwrap().commands;
    assert_eq!(commands.len(), 1, "{commands:?}");
    owner.snapshot(&victim.snapshot).await.unwrap();
    assert_eq!(owner.terminals(&victim.sandbox).await.unwrap().terminals.len(), 1);
    let contexts = owner.contexts(&victim.sandbox).await.unwrap().contexts;
    assert!(contexts.len() == 1 && contexts[0].runs == 0, "{contexts:?}");
    let tokens = owner.tokens("lab", None).await.unwrap().tokens;
    assert!(tokens.iter().any(|token| token.token_id == victim.token), "{tokens:?}");
}
