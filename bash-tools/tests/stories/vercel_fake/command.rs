//! A command: its start, its output, its end. A kill does the least that Vercel might do: one process gets the signal,
//! and its children keep running.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::process::ExitStatusExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::timeout;

use super::machine::{HOME, send_signal};
use super::sandbox::now_ms;
use super::{Refusal, State};

pub(super) struct Command {
    id: String,
    request: Start,
    session: String,
    started_at: u64,
    began: Instant,
    pid: u32,
    /// Its output, as lines of JSON.
    log: Mutex<Vec<Bytes>>,
    progress: watch::Sender<Progress>,
}

#[derive(Clone, Copy, Default)]
struct Progress {
    lines: usize,
    ended: Option<(i32, u64)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Start {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) cwd: Option<String>,
    pub(super) env: BTreeMap<String, String>,
    #[serde(rename = "sudo")]
    _sudo: bool,
    timeout: Option<u64>,
    #[serde(default)]
    wait: bool,
    #[serde(default)]
    logs: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kill {
    signal: u8,
}

pub(super) async fn start(
    shared: State,
    Path(session): Path<String>,
    body: Bytes,
) -> Result<Response, Refusal> {
    let request: Start = shared.body("cmd", &body)?;
    let (waits, logs) = (request.wait, request.logs);
    let command = {
        let mut world = shared.world();
        let machine = world.machine(&session)?;
        machine.start(request)
    };
    if !waits {
        return Ok(Json(command.json()).into_response());
    }
    if !logs {
        return Err(shared.violated("cmd: wait without logs".into()));
    }
    let first = line(&command.first_json());
    Ok(stream(futures::stream::once(async { first }), command, true))
}

pub(super) async fn command(
    shared: State,
    Path((session, id)): Path<(String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Json<Value>, Refusal> {
    let command = shared.world().machine(&session)?.command(&id)?;
    if query.get("wait").is_some_and(|value| value == "true") {
        let mut progress = command.progress.subscribe();
        let _ = progress.wait_for(|progress| progress.ended.is_some()).await;
    }
    Ok(Json(command.json()))
}

pub(super) async fn logs(
    shared: State,
    Path((session, id)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let command = shared.world().machine(&session)?.command(&id)?;
    Ok(stream(futures::stream::empty(), command, false))
}

pub(super) async fn kill(
    shared: State,
    Path((session, id)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let Kill { signal } = shared.body("kill", &body)?;
    let command = shared.world().machine(&session)?.command(&id)?;
    if command.progress.borrow().ended.is_none() {
        send_signal(signal, command.pid);
    }
    Ok(Json(command.json()))
}

fn line(json: &Value) -> Bytes {
    format!("{json}\n").into()
}

/// Its output from the first byte to the last, and possibly its end.
fn stream(
    first: impl futures::Stream<Item = Bytes> + Send + 'static,
    command: Arc<Command>,
    tells_end: bool,
) -> Response {
    let progress = command.progress.subscribe();
    let output = futures::stream::unfold((command, progress, 0usize, false), move |state| async move {
        let (command, mut progress, at, is_over) = state;
        if is_over {
            return None;
        }
        let now = *progress.wait_for(|now| now.lines > at || now.ended.is_some()).await.ok()?;
        if now.lines > at {
            let lines = command.log.lock().unwrap()[at..now.lines].concat();
            return Some((Bytes::from(lines), (command, progress, now.lines, false)));
        }
        let last = line(&command.json());
        tells_end.then_some((last, (command, progress, at, true)))
    });
    let lines = first.chain(output).map(Ok::<_, std::io::Error>);
    ([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}

impl Command {
    /// The status of a process that has just started.
    pub(super) fn of(id: String, session: String, request: Start, mut child: Child) -> Arc<Self> {
        let command = Arc::new(Self {
            id,
            request,
            session,
            started_at: now_ms(),
            began: Instant::now(),
            pid: child.id().unwrap(),
            log: Mutex::default(),
            progress: watch::Sender::default(),
        });
        let stdout = tokio::spawn(drain(Arc::clone(&command), "stdout", child.stdout.take().unwrap()));
        let stderr = tokio::spawn(drain(Arc::clone(&command), "stderr", child.stderr.take().unwrap()));
        tokio::spawn(wait(Arc::clone(&command), child, [stdout, stderr]));
        command
    }

    fn json(&self) -> Value {
        let ended = self.progress.borrow().ended;
        let mut json = self.first_json();
        if let Some((exit_code, took)) = ended {
            json["command"]["exitCode"] = exit_code.into();
            json["command"]["durationMs"] = took.into();
        }
        json
    }

    fn first_json(&self) -> Value {
        json!({"command": {
            "id": self.id,
            "name": self.request.command,
            "args": self.request.args,
            "cwd": self.request.cwd.as_deref().unwrap_or(HOME),
            "sessionId": self.session,
            "exitCode": null,
            "startedAt": self.started_at,
        }})
    }
}

/// Waits for its end, and ends it at its timeout.
async fn wait(command: Arc<Command>, mut child: Child, drains: [tokio::task::JoinHandle<()>; 2]) {
    let limit = command.request.timeout.map_or(Duration::from_secs(300), Duration::from_millis);
    let status = match timeout(limit, child.wait()).await {
        Ok(status) => status.unwrap(),
        Err(_) => {
            child.start_kill().unwrap();
            child.wait().await.unwrap()
        }
    };
    // Output that its children keep open is not awaited.
    for drain in drains {
        let _ = timeout(Duration::from_millis(200), drain).await;
    }
    let exit_code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
    let took = u64::try_from(command.began.elapsed().as_millis()).unwrap();
    command.progress.send_modify(|progress| progress.ended = Some((exit_code, took)));
}

/// Reads its output, in complete characters.
async fn drain(command: Arc<Command>, name: &'static str, mut from: impl AsyncRead + Unpin) {
    let (mut kept, mut part) = (Vec::new(), vec![0; 32 * 1024]);
    loop {
        let read = from.read(&mut part).await.unwrap_or(0);
        kept.extend_from_slice(&part[..read]);
        let whole = if read == 0 { kept.len() } else { whole_characters(&kept) };
        let text = String::from_utf8_lossy(&kept[..whole]).into_owned();
        kept.drain(..whole);
        if !text.is_empty() {
            command.log.lock().unwrap().push(line(&json!({"stream": name, "data": text})));
            command.progress.send_modify(|progress| progress.lines += 1);
        }
        if read == 0 {
            return;
        }
    }
}

/// The length of the prefix that ends with a complete character.
fn whole_characters(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match std::str::from_utf8(&bytes[at..]) {
            Ok(_) => return bytes.len(),
            Err(error) => match error.error_len() {
                Some(bad) => at += error.valid_up_to() + bad,
                None => return at + error.valid_up_to(),
            },
        }
    }
}
