//! One wrapped server, from call to call.
//!
//! The server is started for the first call and for the first one after it has ended. A start that fails is not
//! repeated at once: the time to the next attempt doubles. So a server that always fails costs little. Callers get the error.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{Implementation, ProtocolVersion};
use sandbox_api::CommandId;
use sandbox_client::Client;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

use super::link::Link;
use super::listener::{Listener, Silent};
use super::outcome::{Ended, How, LinkError};
use super::process::{self, Launch};
use super::tools::{MAX_TOOLS, ToolList};

/// Time within which a server must complete the handshake. The first start may download a package.
const HANDSHAKE: Duration = Duration::from_secs(60);

/// Time to the next attempt after the first failed start. It doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(5 * 60);

/// A server that ends by itself within this time counts as a failed start.
const HEALTHY: Duration = Duration::from_secs(10);

/// A server whose remaining time is shorter is replaced before a call, if no other call waits.
const MIN_REMAINING: Duration = Duration::from_secs(60);

/// Maximum time that a call waits for its answer.
const MAX_CALL: Duration = Duration::from_secs(10 * 60);

/// Time for a server that accepts no more requests to end by itself.
const END: Duration = Duration::from_secs(3);

/// Maximum number of pages of a tool list.
const MAX_PAGES: usize = 16;

/// Maximum length of a tool list in bytes, as JSON.
const MAX_TOOLS_BYTES: usize = 1024 * 1024;

/// Maximum length of the answer to the handshake in bytes, as JSON.
const MAX_INFO_BYTES: usize = 64 * 1024;

/// Why a server does not answer. The message is for the model and the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    /// The start has failed, now or shortly before.
    #[error("the server could not be started: {why}. The next attempt is possible in {} s", .retry.as_secs().max(1))]
    NotStarted {
        /// The cause, with the end of standard error.
        why: String,
        /// Time to the next attempt.
        retry: Duration,
    },
    /// It ended while the call waited.
    #[error("the server ended before it answered: {0}. The next call starts it again")]
    Ended(String),
    /// It has not answered in time.
    #[error("the server has not answered in {} s", MAX_CALL.as_secs())]
    Late,
    /// Too many calls wait.
    #[error("the server is busy: {} calls wait for it", super::link::MAX_PENDING)]
    Busy,
    /// The server's own error.
    #[error("{}", .0.get("message").and_then(Value::as_str).unwrap_or("the server reports an error"))]
    Refused(Value),
}

/// A wrapped server, whether it runs or not.
#[derive(Debug, Default)]
pub(super) struct Upstream {
    state: Arc<Mutex<State>>,
    /// Held while the version of the package is decided.
    deciding: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    running: Option<Arc<Running>>,
    /// Failed starts in a row.
    failures: u32,
    failed: Option<Failed>,
}

/// The last failed start.
#[derive(Debug, Clone)]
struct Failed {
    why: String,
    at: Instant,
}

/// A server that has completed the handshake.
#[derive(Debug)]
pub(super) struct Running {
    link: Arc<Link>,
    /// Its answer to the handshake.
    pub(super) info: Value,
    /// Held while the tools are requested from the server.
    tools: Mutex<KnownTools>,
    launch: Launch,
    started: Instant,
    /// When its command reaches its time limit.
    expires: Instant,
}

/// The tools of a server, and how many changes it had reported when it was asked for them.
#[derive(Debug)]
struct KnownTools {
    list: Arc<ToolList>,
    changes: u64,
}

impl Upstream {
    /// Returns the server. Starts it if it does not run, or runs in another way than `launch` says.
    pub(super) async fn running(&self, client: &Client, launch: &Launch) -> Result<Arc<Running>, Problem> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        state.await_end().await;
        if let Some(running) = state.usable(launch) {
            return Ok(running);
        }
        state.check_pause()?;
        let (client, launch) = (client.clone(), launch.clone());
        // A task of its own, so that a start continues if its caller leaves. The next caller waits for it.
        let start = tokio::spawn(async move {
            match start(&client, &launch).await {
                Ok(running) => {
                    let running = Arc::new(running);
                    state.running = Some(Arc::clone(&running));
                    Ok(running)
                }
                Err(why) => Err(state.fail(why)),
            }
        });
        start.await.unwrap_or_else(|error| Err(Problem::Ended(error.to_string())))
    }

    /// Whether it neither runs nor is being started.
    pub(super) fn is_stopped(&self) -> bool {
        let Ok(state) = self.state.try_lock() else { return false };
        state.running.as_ref().is_none_or(|running| running.link.ended().is_some())
    }

    /// Fails while the time to the next attempt has not passed.
    pub(super) async fn check_pause(&self) -> Result<(), Problem> {
        let mut state = self.state.lock().await;
        state.forget_ended();
        state.check_pause()
    }

    /// Waits for its turn to decide the version of the package.
    pub(super) async fn turn_to_decide(&self) -> MutexGuard<'_, ()> {
        self.deciding.lock().await
    }

    /// Counts a start that failed before there was a command.
    pub(super) async fn fail(&self, why: String) -> Problem {
        self.state.lock().await.fail(why)
    }

    /// Ends the server, if it runs.
    pub(super) async fn stop(&self) {
        if let Some(running) = self.state.lock().await.running.take() {
            running.link.stop();
        }
    }
}

impl State {
    /// Waits for a server that accepts no more requests, to know how it ends.
    async fn await_end(&self) {
        if let Some(running) = self.running.as_ref().filter(|running| running.link.is_closing()) {
            let _ = timeout(END, running.link.done()).await;
        }
    }

    /// The running server, if it can take another call.
    fn usable(&mut self, launch: &Launch) -> Option<Arc<Running>> {
        self.forget_ended();
        let running = self.running.clone()?;
        let is_late = running.expires.saturating_duration_since(Instant::now()) < MIN_REMAINING;
        let is_replaced = running.launch != *launch || running.link.is_closing();
        if is_replaced || (is_late && running.link.is_idle()) {
            running.link.stop();
            self.running = None;
            return None;
        }
        Some(running)
    }

    fn forget_ended(&mut self) {
        let ended = self.running.as_ref().and_then(|running| Some((running.started, running.link.ended()?)));
        if let Some((started, ended)) = ended {
            self.note_end(started, &ended);
            self.running = None;
        }
    }

    /// Counts a server that ended soon after its start as a failed start.
    fn note_end(&mut self, started: Instant, ended: &Ended) {
        let ran = ended.at.saturating_duration_since(started);
        match &ended.how {
            How::Failed(_) if ran < HEALTHY => {
                self.failures += 1;
                self.failed = Some(Failed { why: describe(ended), at: ended.at });
            }
            _ => (self.failures, self.failed) = (0, None),
        }
    }

    /// Fails while the time to the next attempt has not passed.
    fn check_pause(&self) -> Result<(), Problem> {
        let Some(failed) = &self.failed else { return Ok(()) };
        let retry = pause_after(self.failures).saturating_sub(failed.at.elapsed());
        if retry.is_zero() {
            return Ok(());
        }
        Err(Problem::NotStarted { why: failed.why.clone(), retry })
    }

    fn fail(&mut self, why: String) -> Problem {
        // Several callers have tried at once, and another one has counted it.
        if let Err(problem) = self.check_pause() {
            return problem;
        }
        self.failures += 1;
        self.failed = Some(Failed { why: why.clone(), at: Instant::now() });
        Problem::NotStarted { why, retry: pause_after(self.failures) }
    }
}

/// Stops the task that reads the server's output, so that it does not delay a shutdown.
impl Drop for Running {
    fn drop(&mut self) {
        self.link.stop();
    }
}

impl Running {
    /// Sends a request. Returns `None` if the server has ended and certainly did not receive it.
    pub(super) async fn request(
        &self,
        method: &str,
        params: Value,
        listener: &dyn Listener,
    ) -> Result<Option<Value>, Problem> {
        let began = Instant::now();
        match timeout(MAX_CALL, self.link.request(method, params, listener)).await {
            Ok(Ok(result)) => Ok(Some(result)),
            Ok(Err(LinkError::NotSent)) => Ok(None),
            Ok(Err(error)) => Err(Problem::of(error)),
            Err(_) => {
                // The next call starts a server that hangs again.
                self.link.stop_if_silent_since(began);
                Err(Problem::Late)
            }
        }
    }

    /// The tools of the server. Requests them again if it has reported a change. A server that does not answer that request
    /// is ended, because its tools are unknown.
    pub(super) async fn tools(&self) -> Result<Arc<ToolList>, Problem> {
        let mut known = self.tools.lock().await;
        let changes = self.link.tool_changes();
        if known.changes != changes {
            let listed = timeout(HANDSHAKE, list_tools(&self.link, &self.info)).await;
            let late = || Err(format!("it has not listed its tools in {} s", HANDSHAKE.as_secs()));
            let list = listed.unwrap_or_else(|_| late());
            let list = list.inspect_err(|why| self.link.close(How::Failed(why.clone())));
            *known = KnownTools { list: Arc::new(list.map_err(Problem::Ended)?), changes };
        }
        Ok(Arc::clone(&known.list))
    }
}

impl Problem {
    fn of(error: LinkError) -> Self {
        match error {
            LinkError::Busy => Self::Busy,
            LinkError::Refused(error) => Self::Refused(error),
            LinkError::Ended(ended) => Self::Ended(describe(&ended)),
            LinkError::NotSent => Self::Ended("it ended at once".into()),
        }
    }
}

/// Time to the next attempt after this many failed starts in a row.
fn pause_after(failures: u32) -> Duration {
    let doubled = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(doubled).min(MAX_PAUSE)
}

fn describe(ended: &Ended) -> String {
    let how = match &ended.how {
        How::Stopped => "it was stopped",
        How::Parked => "its sandbox was parked or deleted",
        How::Disconnected => "the connection to the daemon broke",
        How::TimeLimit => "its command has reached the daemon's time limit for commands",
        How::Failed(why) => why,
    };
    with_stderr(how, &ended.stderr)
}

fn with_stderr(how: &str, stderr: &str) -> String {
    match stderr.trim() {
        "" => how.to_owned(),
        stderr => format!("{how}; its last output to standard error: {stderr}"),
    }
}

/// Ends a server that has not completed the handshake in time. Returns why.
async fn end_late(link: &Link) -> String {
    link.stop();
    let _ = timeout(END, link.done()).await;
    let stderr = link.ended().map(|ended| ended.stderr).unwrap_or_default();
    with_stderr(&format!("it has not completed the handshake in {} s", HANDSHAKE.as_secs()), &stderr)
}

/// Starts a server and completes the handshake. The error says why not.
async fn start(client: &Client, launch: &Launch) -> Result<Running, String> {
    let id = CommandId::random().map_err(|error| error.to_string())?;
    let started = process::start(client, launch, id).await.map_err(|error| error.to_string())?;
    let link = started.link;
    let changes = link.tool_changes();
    let opened = match timeout(HANDSHAKE, open(&link)).await {
        Ok(opened) => opened,
        Err(_) => Err(end_late(&link).await),
    };
    let (info, tools) = opened.inspect_err(|_| link.stop())?;
    let now = Instant::now();
    Ok(Running {
        link,
        info,
        tools: Mutex::new(KnownTools { list: Arc::new(tools), changes }),
        launch: launch.clone(),
        started: now,
        expires: now + started.limit,
    })
}

/// Completes the handshake of the revisions that have one, and asks for the tools.
async fn open(link: &Link) -> Result<(Value, ToolList), String> {
    let mut capabilities = json!({});
    if link.allowed().elicitation {
        capabilities["elicitation"] = json!({});
    }
    if link.allowed().sampling {
        capabilities["sampling"] = json!({});
    }
    let client = Implementation::new("sandboxd", env!("CARGO_PKG_VERSION"));
    let params = json!({
        "protocolVersion": ProtocolVersion::V_2025_11_25, "capabilities": capabilities, "clientInfo": client,
    });
    let info = link.request("initialize", params, &Silent).await.map_err(|error| Problem::of(error).why())?;
    if info.to_string().len() > MAX_INFO_BYTES {
        return Err(format!("its answer to the handshake is longer than {MAX_INFO_BYTES} bytes"));
    }
    link.notify("notifications/initialized", &json!({}));
    let tools = list_tools(link, &info).await?;
    Ok((info, tools))
}

/// Asks for all pages of the tool list.
async fn list_tools(link: &Link, info: &Value) -> Result<ToolList, String> {
    if info.pointer("/capabilities/tools").is_none() {
        return Ok(ToolList::new(Vec::new()));
    }
    let (mut tools, mut cursor, mut bytes) = (Vec::new(), Value::Null, 0);
    for _ in 0..MAX_PAGES {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page =
            link.request("tools/list", params, &Silent).await.map_err(|error| Problem::of(error).why())?;
        tools.extend(page.get("tools").and_then(Value::as_array).cloned().unwrap_or_default());
        bytes += page.to_string().len();
        if tools.len() > MAX_TOOLS || bytes > MAX_TOOLS_BYTES {
            return Err(format!(
                "it has more than {MAX_TOOLS} tools, or a list of more than {MAX_TOOLS_BYTES} bytes"
            ));
        }
        cursor = page.get("nextCursor").cloned().unwrap_or_default();
        if cursor.is_null() {
            return Ok(ToolList::new(tools));
        }
    }
    Err(format!("its tool list has more than {MAX_PAGES} pages"))
}

impl Problem {
    /// The reason alone.
    fn why(self) -> String {
        match self {
            Self::Ended(why) => why,
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_maximum() {
        let seconds = [1, 2, 3, 9, 10, 40].map(|failures| pause_after(failures).as_secs());
        assert_eq!(seconds, [1, 2, 4, 256, 300, 300]);
    }

    #[test]
    fn a_failed_start_delays_the_next() {
        let mut state = State::default();
        assert!(state.check_pause().is_ok());
        state.fail("no such program".into());
        let Err(Problem::NotStarted { why, retry }) = state.check_pause() else { panic!() };
        assert!(why == "no such program" && retry <= FIRST_PAUSE);
        let text = Problem::NotStarted { why, retry }.to_string();
        assert!(text.contains("in 1 s"), "{text}");
        // Callers that have tried at once count once.
        state.fail("no such program".into());
        assert_eq!(state.failures, 1);
    }
}
