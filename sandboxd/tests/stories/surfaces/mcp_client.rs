//! A client of the MCP server that shows every message.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use crate::support::harness::{Daemon, TOKEN};

/// Revision of the protocol without a handshake.
pub(crate) const MODERN: &str = "2026-07-28";

/// Last revision with a handshake.
pub(crate) const LEGACY: &str = "2025-11-25";

/// How long an answer may take. A gigabyte of output takes a minute in a debug build, on two idle processors.
const ANSWER: Duration = Duration::from_secs(170);

/// Id of the next request.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Sends requests of the modern revision, with these headers.
#[derive(Clone)]
pub(crate) struct Mcp {
    http: reqwest::Client,
    url: String,
    headers: Vec<(&'static str, String)>,
    session: Option<String>,
    capabilities: Value,
}

/// Result of a call.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) text: String,
    pub(crate) structured: Value,
    pub(crate) is_error: bool,
    pub(crate) notifications: Vec<Value>,
}

impl Mcp {
    pub(crate) fn of(daemon: &Daemon) -> Self {
        Self::at(&daemon.base, TOKEN)
    }

    pub(crate) fn at(base: &str, token: &str) -> Self {
        let authorization = ("authorization", format!("Bearer {token}"));
        Self {
            http: reqwest::Client::new(),
            url: format!("{base}/mcp"),
            headers: vec![authorization],
            session: None,
            capabilities: json!({}),
        }
    }

    /// The same client, with a user who can be asked.
    pub(crate) fn with_elicitation(&self) -> Self {
        Self { capabilities: json!({ "elicitation": {} }), ..self.clone() }
    }

    /// The same client for a conversation of its host.
    pub(crate) fn in_session(&self, session: &str) -> Self {
        self.with("x-sandbox-session", session)
    }

    /// The same client at another path, such as that of a wrapped server.
    pub(crate) fn at_path(&self, path: &str) -> Self {
        let base = self.url.split("/mcp").next().unwrap_or_default();
        Self { url: format!("{base}{path}"), ..self.clone() }
    }

    /// The same client with the tools of a profile.
    pub(crate) fn with_profile(&self, profile: &str) -> Self {
        Self { url: format!("{}?profile={profile}", self.url), ..self.clone() }
    }

    pub(crate) fn with(&self, header: &'static str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((header, value.to_owned()));
        client
    }

    /// Opens a session of the revision with a handshake.
    pub(crate) async fn legacy(&self) -> Self {
        let params = json!({ "protocolVersion": LEGACY, "capabilities": self.capabilities, "clientInfo": { "name": "story", "version": "1" } });
        let response =
            self.post(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
        let response = response.send().await.unwrap();
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let (answer, _) = messages(response).await;
        assert_eq!(answer["result"]["protocolVersion"], LEGACY, "{answer}");
        let client = Self { session: Some(session), ..self.clone() };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(client.post(&initialized).send().await.unwrap().status(), 202);
        client
    }

    /// The same client, with the session of another one.
    pub(crate) fn with_session_of(&self, other: &Self) -> Self {
        Self { session: other.session.clone(), ..self.clone() }
    }

    /// The same client and session, at another daemon.
    pub(crate) fn moved_to(&self, daemon: &Daemon) -> Self {
        Self { url: format!("{}/mcp", daemon.base), ..self.clone() }
    }

    /// Ends the session.
    pub(crate) async fn end(&self) -> Response {
        self.with_headers(self.http.delete(&self.url)).send().await.unwrap()
    }

    /// Opens the stream for messages that belong to no request.
    pub(crate) async fn listen(&self) -> Response {
        let request = self.http.get(&self.url).header(ACCEPT, "text/event-stream");
        self.with_headers(request).send().await.unwrap()
    }

    fn with_headers(&self, request: RequestBuilder) -> RequestBuilder {
        let request = match &self.session {
            Some(session) => request.header("mcp-session-id", session).header("mcp-protocol-version", LEGACY),
            None => request,
        };
        self.headers.iter().fold(request, |request, (name, value)| request.header(*name, value))
    }

    pub(crate) fn post(&self, message: &Value) -> RequestBuilder {
        let request = self
            .http
            .post(&self.url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .json(message);
        self.with_headers(request)
    }

    /// A request of the client's revision.
    pub(crate) fn request(&self, method: &str, params: Value) -> RequestBuilder {
        self.request_with_id(NEXT_ID.fetch_add(1, Ordering::Relaxed), method, params)
    }

    pub(crate) fn request_with_id(&self, id: u64, method: &str, mut params: Value) -> RequestBuilder {
        let is_modern = self.session.is_none();
        if is_modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let request = self.post(&message);
        if !is_modern {
            return request;
        }
        let request = request.header("mcp-protocol-version", MODERN).header("mcp-method", method);
        let params = &message["params"];
        match params["name"].as_str().or_else(|| params["uri"].as_str()) {
            Some(name) => request.header("mcp-name", name),
            None => request,
        }
    }

    /// Answer to a request: its result, or its error.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let response = self.request(method, params).send().await.unwrap();
        messages(response).await.0
    }

    /// Calls a tool.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Called {
        self.call_with(tool, arguments, json!({})).await
    }

    /// Calls a tool and asks for progress.
    pub(crate) async fn call_with_progress(&self, tool: &str, arguments: Value) -> Called {
        self.call_with(tool, arguments, json!({ "progressToken": "p" })).await
    }

    pub(crate) async fn call_with(&self, tool: &str, arguments: Value, meta: Value) -> Called {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let response = self.request("tools/call", params).send().await.unwrap();
        let (answer, notifications) = messages(response).await;
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"));
        Called {
            text: text.to_owned(),
            structured: result["structuredContent"].clone(),
            is_error: result["isError"] == true,
            notifications,
        }
    }

    /// The result of a call. `None` if the server cannot be reached or ends before its answer.
    pub(crate) async fn try_call(&self, tool: &str, arguments: Value) -> Option<Value> {
        let params = json!({ "name": tool, "arguments": arguments });
        let response = self.request("tools/call", params).send().await.ok()?;
        let body = response.text().await.ok()?;
        let answer: Value = serde_json::from_str(&body).ok()?;
        Some(answer["result"].clone())
    }

    /// The structured result of a call that must succeed.
    pub(crate) async fn result(&self, tool: &str, arguments: Value) -> Value {
        let called = self.call(tool, arguments).await;
        assert!(!called.is_error, "{called:?}");
        called.structured
    }

    /// The message of a call that must fail.
    pub(crate) async fn failure(&self, tool: &str, arguments: Value) -> String {
        let called = self.call(tool, arguments).await;
        assert!(called.is_error && called.structured.is_null(), "{called:?}");
        called.text
    }

    /// Standard output of a command that must succeed.
    pub(crate) async fn output(&self, command: &str) -> String {
        let result = self.result("bash", json!({ "command": command })).await;
        assert_eq!(result["exitCode"], 0, "{command}: {result}");
        result["stdout"].as_str().unwrap().to_owned()
    }
}

/// Messages of a response, as they arrive.
pub(crate) struct Messages {
    response: Response,
    buffer: String,
}

impl Messages {
    pub(crate) fn of(response: Response) -> Self {
        assert!(response.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("text/event-stream"));
        Self { response, buffer: String::new() }
    }

    /// The next message that has a field.
    pub(crate) async fn next_with(&mut self, field: &str) -> Value {
        loop {
            while let Some((line, rest)) = self.buffer.split_once('\n') {
                let message = line.strip_prefix("data:").and_then(|data| serde_json::from_str(data).ok());
                self.buffer = rest.to_owned();
                if let Some(message) = message.filter(|message: &Value| !message[field].is_null()) {
                    return message;
                }
            }
            let part = tokio::time::timeout(Duration::from_secs(60), self.response.chunk()).await;
            let part = part.unwrap().unwrap().expect("the response has ended");
            self.buffer.push_str(std::str::from_utf8(&part).unwrap());
        }
    }
}

/// The answer of a response, and the notifications before it.
pub(crate) async fn messages(response: Response) -> (Value, Vec<Value>) {
    let kind = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
    let body = tokio::time::timeout(ANSWER, response.text()).await.unwrap().unwrap();
    let mut messages: Vec<Value> = if kind.starts_with("text/event-stream") {
        let data = body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
        data.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
    } else {
        vec![serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))]
    };
    let answer = messages.pop().unwrap_or_else(|| panic!("no answer in {body:?}"));
    (answer, messages)
}
