//! Requests to a server and its answers.
//!
//! The link gives each request an id of its own, so equal ids of different hosts do not collide. A server that writes an
//! endless number of messages, or none at all, costs a bounded amount of memory.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use surface_caller::{MAX_VALUES, has_too_many_values};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::listener::{Allowed, Event, Listener};
use super::outcome::{Ended, How, LinkError};

/// Maximum number of requests that wait for their answer.
pub(super) const MAX_PENDING: usize = 64;

/// Maximum number of messages in a row that answer nothing. A server that writes more is ended.
const MAX_UNASKED: usize = 10_000;

/// Maximum number of events of one request that wait for the host. Progress beyond that is dropped.
const MAX_EVENTS: usize = 8;

/// Maximum number of characters of a progress message. The rest is not passed on.
const MAX_PROGRESS_CHARS: usize = 1000;

/// Maximum length of a request of the server in bytes.
const MAX_ASK_BYTES: usize = 256 * 1024;

/// Maximum length of an id of the server in bytes. A request with a longer one is not answered.
const MAX_ID_BYTES: usize = 256;

/// Maximum number of messages that wait until the server reads them.
const MAX_OUTGOING: usize = 64;

/// Error of JSON-RPC 2.0 for a method that does not exist.
const METHOD_NOT_FOUND: i64 = -32601;

/// Error of JSON-RPC 2.0 for parameters that cannot be used.
const INVALID_PARAMS: i64 = -32602;

/// Error of JSON-RPC 2.0 for a failure of the receiver.
const INTERNAL_ERROR: i64 = -32603;

/// The connection to one running server.
#[derive(Debug)]
pub(super) struct Link {
    state: Mutex<State>,
    outgoing: mpsc::Sender<Outgoing>,
    allowed: Allowed,
    stop: CancellationToken,
    /// Whether a request waits for its answer.
    is_busy: watch::Sender<bool>,
    /// Cancelled when the server has ended.
    done: CancellationToken,
}

#[derive(Debug)]
struct State {
    next_id: u64,
    pending: HashMap<u64, Pending>,
    ended: Option<Ended>,
    used: Instant,
    /// When the last answer came.
    answered: Option<Instant>,
    /// Whether requests are no longer accepted, because the server cannot get them.
    is_closing: bool,
    unasked: usize,
    /// Number of changes of the tools that the server has reported.
    tool_changes: u64,
}

/// A message for the server's standard input.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Id of the request, if it is one.
    pub(super) request: Option<u64>,
    /// The message with a line feed.
    pub(super) line: Vec<u8>,
}

#[derive(Debug)]
struct Pending {
    answer: oneshot::Sender<Result<Value, LinkError>>,
    events: mpsc::Sender<Event>,
}

impl Link {
    /// Creates a link. The messages for the server's standard input come out of the receiver.
    pub(super) fn new(allowed: Allowed) -> (Arc<Self>, mpsc::Receiver<Outgoing>) {
        let (outgoing, messages) = mpsc::channel(MAX_OUTGOING);
        let state = State {
            next_id: 1,
            pending: HashMap::new(),
            ended: None,
            used: Instant::now(),
            answered: None,
            is_closing: false,
            unasked: 0,
            tool_changes: 0,
        };
        let (stop, done, is_busy) =
            (CancellationToken::new(), CancellationToken::new(), watch::Sender::new(false));
        let link = Self { state: Mutex::new(state), outgoing, allowed, stop, is_busy, done };
        (Arc::new(link), messages)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and waits for the answer. If the caller leaves, the server receives a cancellation.
    pub(super) async fn request(
        &self,
        method: &str,
        mut params: Value,
        listener: &dyn Listener,
    ) -> Result<Value, LinkError> {
        let (answer, mut answered) = oneshot::channel();
        let (events, mut happened) = mpsc::channel(MAX_EVENTS);
        let id = self.begin(Pending { answer, events })?;
        let mut guard = Guard { link: self, id, is_sent: false };
        if listener.wants_progress() {
            params["_meta"]["progressToken"] = id.into();
        }
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        if self.outgoing.send(Outgoing { request: Some(id), line: line(&message) }).await.is_err() {
            return Err(LinkError::NotSent);
        }
        guard.is_sent = true;
        let outcome = loop {
            let event = tokio::select! {
                biased;
                Some(event) = happened.recv() => event,
                outcome = &mut answered => break outcome,
            };
            match event {
                Event::Progress(params) => listener.progress(params).await,
                Event::Ask { id, method, params } => tokio::select! {
                    () = self.ask(id, method, params, listener) => {}
                    // Withdraws the question.
                    outcome = &mut answered => break outcome,
                },
            }
        };
        guard.is_sent = false;
        match outcome {
            Ok(result) => result,
            Err(_) => Err(self.ended().map_or(LinkError::NotSent, LinkError::Ended)),
        }
    }

    fn begin(&self, pending: Pending) -> Result<u64, LinkError> {
        let mut state = self.lock();
        if state.ended.is_some() || state.is_closing || self.stop.is_cancelled() {
            return Err(LinkError::NotSent);
        }
        if state.pending.len() >= MAX_PENDING {
            return Err(LinkError::Busy);
        }
        let id = state.next_id;
        state.next_id += 1;
        state.pending.insert(id, pending);
        state.used = Instant::now();
        self.is_busy.send_replace(true);
        Ok(id)
    }

    async fn ask(&self, id: Value, method: String, params: Value, listener: &dyn Listener) {
        let answer = match listener.ask(method, params).await {
            Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            None => refusal(&id, INTERNAL_ERROR, "the host has not answered"),
        };
        self.send_if_read(&answer);
    }

    /// Sends a notification. It is dropped if the server does not read.
    pub(super) fn notify(&self, method: &str, params: &Value) {
        self.send_if_read(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn send_if_read(&self, message: &Value) {
        // A server that does not read misses the message. Its calls end by their own limits.
        let _ = self.outgoing.try_send(Outgoing { request: None, line: line(message) });
    }

    /// Takes a message of the server. Returns an error if the server must be ended.
    pub(super) fn receive(&self, text: &[u8]) -> Result<(), String> {
        if has_too_many_values(text) {
            return Err(format!("it wrote a message with more than {MAX_VALUES} values"));
        }
        let mut message: Value = match serde_json::from_slice(text) {
            Ok(message) => message,
            // Some servers write their log to standard output.
            Err(_) => return self.count_unasked(),
        };
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        match (method, message.get_mut("id").map(Value::take)) {
            (Some(method), Some(id)) if is_short(&id) => {
                let params = message.get_mut("params").map(Value::take).unwrap_or_default();
                self.answer(id, method, params, text.len());
                self.count_unasked()
            }
            (Some(method), None) => {
                self.note(&method, message.get("params"));
                self.count_unasked()
            }
            (None, Some(id)) if self.finish(id.as_u64(), &mut message) => Ok(()),
            _ => self.count_unasked(),
        }
    }

    fn count_unasked(&self) -> Result<(), String> {
        let mut state = self.lock();
        state.unasked += 1;
        if state.unasked > MAX_UNASKED {
            return Err(format!("it wrote {MAX_UNASKED} messages in a row that answer nothing"));
        }
        Ok(())
    }

    /// Passes an answer to the request with the id. Returns whether there is one.
    fn finish(&self, id: Option<u64>, message: &mut Value) -> bool {
        let mut state = self.lock();
        let Some(pending) = id.and_then(|id| state.pending.remove(&id)) else { return false };
        state.unasked = 0;
        (state.used, state.answered) = (Instant::now(), Some(Instant::now()));
        let mut take = |field: &str| message.get_mut(field).map(Value::take);
        let outcome = match (take("result"), take("error")) {
            (Some(result), None) => Ok(result),
            (_, Some(error)) => Err(LinkError::Refused(error)),
            (None, None) => Err(LinkError::Refused(
                json!({ "code": INTERNAL_ERROR, "message": "the answer has no result" }),
            )),
        };
        // The caller may have left.
        let _ = pending.answer.send(outcome);
        true
    }

    /// Answers a request of the server, or passes it to the host of a call.
    fn answer(&self, id: Value, method: String, params: Value, bytes: usize) {
        let allowed = match method.as_str() {
            "ping" => return self.send_if_read(&json!({ "jsonrpc": "2.0", "id": id, "result": {} })),
            "elicitation/create" => self.allowed.elicitation,
            "sampling/createMessage" => self.allowed.sampling,
            _ => false,
        };
        if !allowed {
            return self.send_if_read(&refusal(
                &id,
                METHOD_NOT_FOUND,
                "a wrapped server may not request this",
            ));
        }
        if bytes > MAX_ASK_BYTES {
            let why = format!("the request is longer than {MAX_ASK_BYTES} bytes");
            return self.send_if_read(&refusal(&id, INVALID_PARAMS, &why));
        }
        // The protocol does not say which call a request belongs to. It goes to the newest one.
        let newest = {
            let state = self.lock();
            state.pending.iter().max_by_key(|(id, _)| **id).map(|(_, pending)| pending.events.clone())
        };
        let event = Event::Ask { id: id.clone(), method, params };
        if newest.is_none_or(|events| events.try_send(event).is_err()) {
            self.send_if_read(&refusal(&id, INTERNAL_ERROR, "no call waits"));
        }
    }

    fn note(&self, method: &str, params: Option<&Value>) {
        match method {
            "notifications/progress" => {
                let Some(params) = params else { return };
                let id = params.get("progressToken").and_then(Value::as_u64);
                let state = self.lock();
                if let Some(pending) = id.and_then(|id| state.pending.get(&id)) {
                    let _ = pending.events.try_send(Event::Progress(progress_of(params)));
                }
            }
            "notifications/tools/list_changed" => self.lock().tool_changes += 1,
            _ => {}
        }
    }

    /// Requests to the host that the server may make.
    pub(super) fn allowed(&self) -> Allowed {
        self.allowed
    }

    /// Number of changes of its tools that the server has reported.
    pub(super) fn tool_changes(&self) -> u64 {
        self.lock().tool_changes
    }

    /// How the server has ended, if it has.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.lock().ended.clone()
    }

    /// Whether no request waits for its answer.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().pending.is_empty()
    }

    /// Completes when a request waits for its answer.
    pub(super) async fn busy(&self) {
        self.until(true).await;
    }

    /// Completes when no request waits for its answer.
    pub(super) async fn idle(&self) {
        self.until(false).await;
    }

    async fn until(&self, is_busy: bool) {
        // The sender lives as long as the link.
        let _ = self.is_busy.subscribe().wait_for(|now| *now == is_busy).await;
    }

    /// Ends the server.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Ends the server if it has answered nothing since then.
    pub(super) fn stop_if_silent_since(&self, then: Instant) {
        if self.lock().answered.is_none_or(|answered| answered < then) {
            self.stop();
        }
    }

    /// Accepts no more requests, because the server cannot get them. It is about to end.
    pub(super) fn close_input(&self) {
        self.lock().is_closing = true;
    }

    /// Whether requests are no longer accepted.
    pub(super) fn is_closing(&self) -> bool {
        self.lock().is_closing || self.stop.is_cancelled()
    }

    /// Completes when the server has ended.
    pub(super) async fn done(&self) {
        self.done.cancelled().await;
    }

    /// Completes when the server must end.
    pub(super) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// How long the server has not been used. Zero while a request waits.
    pub(super) fn idle_for(&self) -> Duration {
        let state = self.lock();
        if state.pending.is_empty() { state.used.elapsed() } else { Duration::ZERO }
    }

    /// Ends the link if the server was not used for this long. A request after that is not sent.
    pub(super) fn end_if_idle(&self, limit: Duration) -> bool {
        let mut state = self.lock();
        let is_idle = state.pending.is_empty() && state.used.elapsed() >= limit;
        if is_idle {
            state.ended = Some(Ended { at: Instant::now(), how: How::Stopped, stderr: String::new() });
        }
        is_idle
    }

    /// Accepts no more requests. Those that wait remain.
    pub(super) fn close(&self, how: How) {
        self.lock().ended.get_or_insert(Ended { at: Instant::now(), how, stderr: String::new() });
        self.stop();
    }

    /// Ends requests that the server has not got, because its command is gone. They can be sent again.
    pub(super) fn end_undelivered(&self, requests: &[u64]) {
        let mut state = self.lock();
        for pending in requests.iter().filter_map(|id| state.pending.remove(id)).collect::<Vec<_>>() {
            let _ = pending.answer.send(Err(LinkError::NotSent));
        }
    }

    /// Records how the server has ended, and ends its requests.
    pub(super) fn end(&self, how: How, stderr: String) {
        let mut state = self.lock();
        state.ended.get_or_insert(Ended { at: Instant::now(), how, stderr });
        state.pending.clear();
        self.done.cancel();
    }
}

/// Removes a request. Cancels it at the server if it has no answer yet.
struct Guard<'a> {
    link: &'a Link,
    id: u64,
    is_sent: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.link.lock();
            state.pending.remove(&self.id);
            self.link.is_busy.send_replace(!state.pending.is_empty());
        }
        if self.is_sent {
            let params = json!({ "requestId": self.id, "reason": "the caller has left" });
            self.link.notify("notifications/cancelled", &params);
        }
    }
}

fn refusal(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// Whether the id of a server's request can be repeated in an answer.
fn is_short(id: &Value) -> bool {
    id.is_number() || id.as_str().is_some_and(|id| id.len() <= MAX_ID_BYTES)
}

/// The parameters of a progress notification that are sent to the host.
fn progress_of(params: &Value) -> Value {
    let number = |name: &str| params.get(name).filter(|value| value.is_number());
    let message = params.get("message").and_then(Value::as_str);
    let message = message.map(|text| text.chars().take(MAX_PROGRESS_CHARS).collect::<String>());
    json!({ "progress": number("progress").unwrap_or(&0.into()), "total": number("total"), "message": message })
}

/// A message as a line.
fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
