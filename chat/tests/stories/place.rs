//! A chat app for one story, and a page that asks it.

use std::sync::Arc;
use std::time::Duration;

use bash_tools::App;
use bash_tools::config::{self, Environment};
use bash_tools::gates::Gates;
use bash_tools::session::TemporaryChats;
use chat::api::{Api, ApiParts};
use chat::model::ModelClient;
use chat::settings::Settings;
use chat::store::Store;
use futures::StreamExt;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_daemon::{Daemon, TOKEN};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Sandboxes without a network.
const SHUT: &str = "network_mode = 'none'";

/// A chat app with all that is behind it.
pub(crate) struct Place {
    pub(crate) base: String,
    pub(crate) http: reqwest::Client,
    pub(crate) daemon: Daemon,
    dir: TempDir,
    stop: CancellationToken,
    server: tokio::task::JoinHandle<()>,
}

impl Place {
    /// For whoever is on this machine, without a model.
    pub(crate) async fn start() -> Self {
        Self::with("localhost", "", Vec::new()).await
    }

    /// `access` is who may use it, `more` goes into the tools' settings, and `clients` are `openai/0`, `openai/1` and so on.
    pub(crate) async fn with(access: &str, more: &str, clients: Vec<Arc<dyn ModelClient>>) -> Self {
        let daemon = Daemon::start().await;
        let base = daemon.base.clone();
        Self::over(daemon, &base, tempfile::tempdir().unwrap(), access, more, SHUT, clients).await
    }

    /// For whoever is on this machine, with these lines among those of `[app.bash_tools.docker]`.
    pub(crate) async fn with_docker(docker: &str) -> Self {
        let daemon = Daemon::start().await;
        let base = daemon.base.clone();
        Self::over(daemon, &base, tempfile::tempdir().unwrap(), "localhost", "", docker, Vec::new()).await
    }

    /// The same for whoever is on this machine, which asks its daemon at another address than the daemon's own.
    pub(crate) async fn by_way_of(
        orchestrator: &str,
        daemon: Daemon,
        clients: Vec<Arc<dyn ModelClient>>,
    ) -> Self {
        Self::over(daemon, orchestrator, tempfile::tempdir().unwrap(), "localhost", "", SHUT, clients).await
    }

    async fn over(
        daemon: Daemon,
        orchestrator: &str,
        dir: TempDir,
        access: &str,
        more: &str,
        docker: &str,
        clients: Vec<Arc<dyn ModelClient>>,
    ) -> Self {
        let text = format!(
            "[app.bash_tools]\nenabled = true\nprovider = 'docker'\naccess = '{access}'\n{more}\n\
             [app.bash_tools.docker]\norchestrator_url = '{orchestrator}'\n{docker}\nmemory_mb = 512\n\
             [app.bash_tools.seed]\nmode = 'none'\n"
        );
        let tools = config::parse(&text).unwrap().tools.unwrap();
        let models: Vec<String> = (0..clients.len()).map(|n| n.to_string()).collect();
        let state = dir.path().to_str().unwrap().to_owned();
        let env = move |name: &str| match name {
            "REMCOCHAT_ENABLE_BASH_TOOL" => Some("1".to_owned()),
            "REMCOCHAT_ADMIN_TOKEN" => Some(TOKEN.to_owned()),
            "CHAT_STATE_DIR" => Some(state.clone()),
            "CHAT_OPENAI_MODELS" => Some(models.join(",")),
            _ => None,
        };
        let environment = Environment::read(Some(&tools), &env);
        let api = Api::new(ApiParts {
            settings: Settings::read(&env).unwrap(),
            gates: Gates::new(Some(&tools), &environment).unwrap(),
            tools: Some(App::new(&tools, &environment).unwrap().with_pause(Duration::from_millis(130))),
            configured: Some(tools),
            store: Store::open(dir.path()).await.unwrap(),
            temporary: TemporaryChats::new(&[7; 32]),
            clients,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let server = tokio::spawn(api.serve(listener, stop.clone()));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { base, http, daemon, dir, stop, server }
    }

    /// The same app started anew.
    pub(crate) async fn again(self) -> Self {
        self.again_with_docker(SHUT).await
    }

    /// The same with other lines of `[app.bash_tools.docker]`.
    pub(crate) async fn again_with_docker(self, docker: &str) -> Self {
        self.stop.cancel();
        self.server.await.unwrap();
        let base = self.daemon.base.clone();
        Self::over(self.daemon, &base, self.dir, "localhost", "", docker, Vec::new()).await
    }

    pub(crate) fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.ask(Method::GET, path)).await
    }

    /// Says something in a chat; the stream.
    pub(crate) fn say(&self, chat: &str, text: &str) -> RequestBuilder {
        let id = format!("m{}", uuid::Uuid::new_v4().simple());
        let message = json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": text }] });
        let body = json!({ "id": chat, "messages": [message], "trigger": "submit-message" });
        self.ask(Method::POST, "/api/chat").json(&body)
    }

    /// The same to its end; what was told.
    pub(crate) async fn said(&self, chat: &str, text: &str) -> Vec<Value> {
        let response = self.say(chat, text).send().await.unwrap();
        assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
        let mut told = Told::new(response);
        let mut all = Vec::new();
        while let Some(chunk) = told.next().await {
            all.push(chunk);
        }
        assert!(told.is_done, "the stream was cut: {all:?}");
        all
    }

    /// The last output of a tool in what was told.
    pub(crate) async fn output(&self, chat: &str, text: &str) -> Value {
        let told = self.said(chat, text).await;
        let last = told.iter().rev().find(|chunk| chunk["type"] == "tool-output-available");
        last.unwrap_or_else(|| panic!("{told:?}"))["output"].clone()
    }
}

/// Status and JSON of an answer.
pub(crate) async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let (status, text) = (response.status(), response.text().await.unwrap());
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// The chunks of a stream as they come.
pub(crate) struct Told {
    pieces: futures::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    buffer: String,
    pub(crate) is_done: bool,
}

impl Told {
    pub(crate) fn new(response: Response) -> Self {
        Self { pieces: response.bytes_stream().boxed(), buffer: String::new(), is_done: false }
    }

    /// The next chunk; none at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.buffer = rest;
                match event.strip_prefix("data: ") {
                    Some("[DONE]") => self.is_done = true,
                    Some(json) => return Some(serde_json::from_str(json).unwrap()),
                    None => assert!(event.starts_with(':'), "{event}"),
                }
            }
            let piece = self.pieces.next().await?.ok()?;
            self.buffer.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }
}
