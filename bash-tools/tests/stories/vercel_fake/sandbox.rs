//! Sandboxes with names and files, and the machines that they use one after the other.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::machine::Machine;
use super::{PROJECT, Refusal, State};

/// Boot time of a new machine: short, but long enough for a story to act meanwhile.
const BOOT: Duration = Duration::from_millis(50);

/// The whole state.
#[derive(Default)]
pub(super) struct World {
    sandboxes: HashMap<String, Sandbox>,
    machines: HashMap<String, Machine>,
    made: u64,
}

struct Sandbox {
    name: String,
    created_at: u64,
    persistent: bool,
    ports: Vec<u16>,
    machine: String,
    /// The directory that stands for /vercel/sandbox.
    files: TempDir,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Create {
    project_id: String,
    ports: Vec<u16>,
    name: Option<String>,
    persistent: Option<bool>,
    source: Option<Source>,
    runtime: Option<String>,
    image: Option<String>,
    #[serde(rename = "timeout")]
    _timeout: Option<u64>,
    #[serde(rename = "resources")]
    _resources: Option<Resources>,
    #[serde(rename = "env")]
    _env: Option<Value>,
    #[serde(rename = "tags")]
    _tags: Option<Value>,
    #[serde(rename = "networkPolicy")]
    _network_policy: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resources {
    #[serde(rename = "vcpus")]
    _vcpus: u64,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum Source {
    Git { url: String, revision: Option<String>, depth: Option<u32> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Find {
    #[serde(default)]
    resume: bool,
    #[serde(rename = "teamId")]
    _team: String,
    #[serde(rename = "projectId")]
    _project: String,
}

type Answer = Result<Json<Value>, Refusal>;

pub(super) async fn create(shared: State, body: Bytes) -> Answer {
    let request: Create = shared.body("create", &body)?;
    let is_plain = |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if request.project_id != PROJECT
        || request.ports.len() > 15
        || request.runtime.is_some() == request.image.is_some() && request.image.is_some()
        || request.name.as_ref().is_some_and(|name| !is_plain(name) || name.is_empty() || name.len() > 63)
    {
        return Err(shared.violated(format!("create: {}", String::from_utf8_lossy(&body))));
    }
    tokio::time::sleep(BOOT).await;
    let files = TempDir::new().unwrap();
    if let Some(Source::Git { url, revision, depth }) = &request.source {
        clone(url, revision.as_deref(), *depth, files.path().into()).await?;
    }
    let mut world = shared.world();
    world.made += 1;
    let name = request.name.unwrap_or_else(|| format!("sb-{}", world.made));
    if world.sandboxes.contains_key(&name) {
        return Err(Refusal(StatusCode::CONFLICT, "conflict", format!("{name} is there")));
    }
    let sandbox = Sandbox {
        name: name.clone(),
        // Two sandboxes of the same millisecond need different ids.
        created_at: now_ms() + world.made,
        persistent: request.persistent.unwrap_or(true),
        ports: request.ports,
        machine: String::new(),
        files,
    };
    world.sandboxes.insert(name.clone(), sandbox);
    world.boot(&name);
    Ok(Json(world.found(&name)))
}

async fn clone(url: &str, revision: Option<&str>, depth: Option<u32>, into: PathBuf) -> Result<(), Refusal> {
    let mut git = tokio::process::Command::new("git");
    git.args(["clone", "--quiet"]);
    git.args(depth.map(|depth| format!("--depth={depth}"))).args(revision.map(|it| format!("--branch={it}")));
    let cloned = git.arg(url).arg(into).status().await.unwrap();
    if !cloned.success() {
        return Err(Refusal(StatusCode::BAD_REQUEST, "bad_request", format!("{url} cannot be cloned")));
    }
    Ok(())
}

pub(super) async fn find(shared: State, Path(name): Path<String>, query: Query<Find>) -> Answer {
    let mut world = shared.world();
    let Some(sandbox) = world.sandboxes.get(&name) else { return Err(Refusal::not_found("sandbox")) };
    if query.resume && world.machines[&sandbox.machine].has_stopped {
        if !sandbox.persistent {
            for entry in sandbox.files.path().read_dir().unwrap() {
                std::fs::remove_dir_all(entry.unwrap().path()).unwrap();
            }
        }
        world.boot(&name);
    }
    Ok(Json(world.found(&name)))
}

pub(super) async fn delete(
    shared: State,
    Path(name): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    let mut world = shared.world();
    let Some(sandbox) = world.sandboxes.get(&name) else { return Err(Refusal::not_found("sandbox")) };
    if query.get("deleteOrphanSnapshots").is_some_and(|value| value != "true") {
        return Err(shared.violated(format!("delete: {query:?}")));
    }
    let (machine, json) = (sandbox.machine.clone(), sandbox.json("stopped"));
    world.machines.remove(&machine).unwrap().stop();
    world.sandboxes.remove(&name);
    Ok(Json(json!({"sandbox": json})))
}

pub(super) async fn session(shared: State, Path(session): Path<String>) -> Answer {
    let world = shared.world();
    let Some(machine) = world.machines.get(&session) else { return Err(Refusal::not_found("session")) };
    let sandbox = &world.sandboxes[&machine.sandbox];
    Ok(Json(json!({"session": machine.json(), "routes": sandbox.routes()})))
}

pub(super) async fn stop(shared: State, Path(session): Path<String>) -> Answer {
    let mut world = shared.world();
    let machine = world.machine(&session)?;
    machine.stop();
    let json = machine.json();
    Ok(Json(json!({"session": json})))
}

impl World {
    /// Gives the sandbox a new machine.
    fn boot(&mut self, name: &str) {
        self.made += 1;
        let id = format!("sess_{}", self.made);
        let sandbox = self.sandboxes.get_mut(name).unwrap();
        sandbox.machine.clone_from(&id);
        let machine = Machine::new(id.clone(), name.to_owned(), sandbox.files.path().into());
        self.machines.insert(id, machine);
    }

    /// A running machine.
    pub(super) fn machine(&mut self, session: &str) -> Result<&mut Machine, Refusal> {
        let machine = self.machines.get_mut(session).ok_or_else(|| Refusal::not_found("session"))?;
        if machine.has_stopped {
            return Err(Refusal(StatusCode::GONE, "sandbox_stopped", "the session has stopped".into()));
        }
        Ok(machine)
    }

    pub(super) fn stop_all(&mut self) {
        self.machines.values_mut().for_each(Machine::stop);
    }

    fn found(&self, name: &str) -> Value {
        let sandbox = &self.sandboxes[name];
        let machine = &self.machines[&sandbox.machine];
        json!({"sandbox": sandbox.json(machine.status()), "session": machine.json(), "routes": sandbox.routes()})
    }
}

impl Sandbox {
    fn json(&self, status: &str) -> Value {
        json!({
            "name": self.name,
            "persistent": self.persistent,
            "createdAt": self.created_at,
            "updatedAt": self.created_at,
            "currentSessionId": self.machine,
            "status": status,
        })
    }

    fn routes(&self) -> Vec<Value> {
        let route = |port: &u16| {
            let subdomain = format!("{}-{port}", self.name);
            json!({"url": format!("https://{subdomain}.vercel.run"), "subdomain": subdomain, "port": port})
        };
        self.ports.iter().map(route).collect()
    }
}

pub(super) fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// For handlers that release the state before they wait.
pub(super) fn files_of(shared: &Arc<super::Shared>, session: &str) -> Result<PathBuf, Refusal> {
    Ok(shared.world().machine(session)?.files.clone())
}
