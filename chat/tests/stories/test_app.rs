//! A chat app for one story, and its HTTP client.

use std::sync::Arc;
use std::time::Duration;

use bash_tools::App;
use bash_tools::config::{self, Environment};
use bash_tools::gates::Gates;
use bash_tools::session::TemporaryChats;
use bash_tools::tools::Python;
use chat::api::{Api, ApiParts};
use chat::model::ModelClient;
use chat::oidc::{Oidc, OidcSettings};
use chat::people::People;
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

/// A chat app with its daemon and store.
pub(crate) struct TestApp {
    pub(crate) base: String,
    pub(crate) http: reqwest::Client,
    pub(crate) daemon: Daemon,
    pub(crate) people: People,
    dir: TempDir,
    stop: CancellationToken,
    server: tokio::task::JoinHandle<()>,
}

/// What differs between stories.
#[derive(Default)]
struct Options<'a> {
    access: &'a str,
    /// Added to the tools' settings.
    more: &'a str,
    /// Lines of `[app.bash_tools.docker]`.
    docker: &'a str,
    clients: Vec<Arc<dyn ModelClient>>,
    /// Issuer of identities. People of `corp.example` may join.
    issuer: Option<&'a str>,
}

/// For users of this machine, with sandboxes without a network.
const LOCAL: Options<'static> =
    Options { access: "localhost", more: "", docker: SHUT, clients: Vec::new(), issuer: None };

impl TestApp {
    /// For users of this machine, without a model.
    pub(crate) async fn start() -> Self {
        Self::with("localhost", "", Vec::new()).await
    }

    /// `access` says who may use it, `more` is added to the tools' settings, and `clients` are `openai/0`, `openai/1`
    /// and so on.
    pub(crate) async fn with(access: &str, more: &str, clients: Vec<Arc<dyn ModelClient>>) -> Self {
        let daemon = Daemon::start().await;
        let base = daemon.base.clone();
        let options = Options { access, more, clients, ..LOCAL };
        Self::over(daemon, &base, tempfile::tempdir().unwrap(), options).await
    }

    /// For users of this machine, with these additional lines in `[app.bash_tools.docker]`.
    pub(crate) async fn with_docker(docker: &str) -> Self {
        let daemon = Daemon::start().await;
        let base = daemon.base.clone();
        Self::over(daemon, &base, tempfile::tempdir().unwrap(), Options { docker, ..LOCAL }).await
    }

    /// For users of this machine, with another URL for the daemon.
    pub(crate) async fn by_way_of(
        orchestrator: &str,
        daemon: Daemon,
        clients: Vec<Arc<dyn ModelClient>>,
    ) -> Self {
        Self::over(daemon, orchestrator, tempfile::tempdir().unwrap(), Options { clients, ..LOCAL }).await
    }

    /// For users of this machine, with this issuer of identities.
    pub(crate) async fn with_issuer(issuer: &str) -> Self {
        let daemon = Daemon::start().await;
        let base = daemon.base.clone();
        let options = Options { issuer: Some(issuer), ..LOCAL };
        Self::over(daemon, &base, tempfile::tempdir().unwrap(), options).await
    }

    async fn over(daemon: Daemon, orchestrator: &str, dir: TempDir, options: Options<'_>) -> Self {
        let Options { access, more, docker, clients, issuer } = options;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let text = format!(
            "[app.bash_tools]\nenabled = true\nprovider = 'docker'\naccess = '{access}'\n{more}\n\
             [app.bash_tools.docker]\norchestrator_url = '{orchestrator}'\n{docker}\nmemory_mb = 512\n\
             [app.bash_tools.seed]\nmode = 'none'\n"
        );
        let tools = config::parse(&text).unwrap().tools.unwrap();
        let models: Vec<String> = (0..clients.len()).map(|n| n.to_string()).collect();
        let state = dir.path().to_str().unwrap().to_owned();
        let (issuer, public_url) = (issuer.map(str::to_owned), base.clone());
        let env = move |name: &str| match name {
            "REMCOCHAT_ENABLE_BASH_TOOL" => Some("1".to_owned()),
            "REMCOCHAT_ADMIN_TOKEN" => Some(TOKEN.to_owned()),
            "CHAT_STATE_DIR" => Some(state.clone()),
            "CHAT_OPENAI_MODELS" => Some(models.join(",")),
            "CHAT_OIDC_ISSUER" => issuer.clone(),
            "CHAT_OIDC_CLIENT_ID" => Some("chat".to_owned()),
            "CHAT_OIDC_ALLOWED_DOMAINS" => Some("corp.example".to_owned()),
            "CHAT_PUBLIC_URL" => Some(public_url.clone()),
            _ => None,
        };
        let environment = Environment::read(Some(&tools), &env);
        let store = Store::open(dir.path()).await.unwrap();
        let people = People::new(store.clone()).unwrap();
        let settings = Settings::read(&env).unwrap();
        let oidc = settings.oidc.as_ref().map(|client| {
            let public_url = settings.public_url.clone().unwrap();
            let (issuer, client_id) = (client.issuer.clone(), client.client_id.clone());
            Oidc::new(OidcSettings { issuer, client_id, client_secret: Some("secret".into()), public_url })
                .unwrap()
        });
        let api = Api::new(ApiParts {
            settings,
            gates: Gates::new(Some(&tools), &environment).unwrap(),
            tools: Some(
                App::new(&tools, &environment)
                    .unwrap()
                    .with_pause(Duration::from_millis(130))
                    .with_python(Python::default()),
            ),
            configured: Some(tools),
            store,
            people: people.clone(),
            oidc,
            temporary: TemporaryChats::new(&[7; 32]),
            clients,
        });
        let stop = CancellationToken::new();
        let server = tokio::spawn(api.serve(listener, stop.clone()));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { base, http, daemon, people, dir, stop, server }
    }

    /// Restarts the app.
    pub(crate) async fn again(self) -> Self {
        self.again_with_docker(SHUT).await
    }

    /// Restarts the app with other lines in `[app.bash_tools.docker]`.
    pub(crate) async fn again_with_docker(self, docker: &str) -> Self {
        self.restart(Options { docker, ..LOCAL }, async |_| {}).await
    }

    /// Restarts the app with these clients. While it is down, `meanwhile` happens.
    pub(crate) async fn again_after(
        self,
        clients: Vec<Arc<dyn ModelClient>>,
        meanwhile: impl AsyncFnOnce(&Daemon),
    ) -> Self {
        self.restart(Options { clients, ..LOCAL }, meanwhile).await
    }

    /// Restarts the app with another URL for the daemon.
    pub(crate) async fn again_by_way_of(self, orchestrator: &str) -> Self {
        self.stop.cancel();
        self.server.await.unwrap();
        Self::over(self.daemon, orchestrator, self.dir, LOCAL).await
    }

    async fn restart(self, options: Options<'_>, meanwhile: impl AsyncFnOnce(&Daemon)) -> Self {
        self.stop.cancel();
        self.server.await.unwrap();
        meanwhile(&self.daemon).await;
        let base = self.daemon.base.clone();
        Self::over(self.daemon, &base, self.dir, options).await
    }

    /// Stops the app. Its connections get to their ends first.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.server.await.unwrap();
    }

    /// The directory of the database.
    pub(crate) fn state_dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path)).await
    }

    /// A request that sends a message to a chat. Its response is the stream.
    pub(crate) fn say(&self, chat: &str, text: &str) -> RequestBuilder {
        self.request(Method::POST, "/api/chat").json(&message(chat, text))
    }

    /// Stops the answer of a chat.
    pub(crate) async fn stop(&self, chat: &str) {
        let request = self.request(Method::POST, &format!("/api/chats/{chat}/stop")).json(&json!({}));
        assert_eq!(request.send().await.unwrap().status(), 204);
    }

    /// Joins the running answer of a chat.
    pub(crate) async fn join(&self, chat: &str) -> reqwest::Response {
        self.request(Method::GET, &format!("/api/chats/{chat}/stream")).send().await.unwrap()
    }

    /// Sends a message and returns all chunks of the stream.
    pub(crate) async fn send(&self, chat: &str, text: &str) -> Vec<Value> {
        let response = self.say(chat, text).send().await.unwrap();
        assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
        let mut reported = Chunks::new(response);
        let mut all = Vec::new();
        while let Some(chunk) = reported.next().await {
            all.push(chunk);
        }
        assert!(reported.is_done, "the stream was cut: {all:?}");
        all
    }

    /// The last output of a tool in the stream.
    pub(crate) async fn output(&self, chat: &str, text: &str) -> Value {
        let reported = self.send(chat, text).await;
        let last = reported.iter().rev().find(|chunk| chunk["type"] == "tool-output-available");
        last.unwrap_or_else(|| panic!("{reported:?}"))["output"].clone()
    }
}

/// The body of a request that sends a message to a chat.
pub(crate) fn message(chat: &str, text: &str) -> Value {
    let id = format!("m{}", uuid::Uuid::new_v4().simple());
    let message = json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": text }] });
    json!({ "id": chat, "messages": [message], "trigger": "submit-message" })
}

/// Status and JSON of a response.
pub(crate) async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let (status, text) = (response.status(), response.text().await.unwrap());
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// The chunks of a stream as they arrive.
pub(crate) struct Chunks {
    pieces: futures::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    buffer: String,
    pub(crate) is_done: bool,
}

impl Chunks {
    pub(crate) fn new(response: Response) -> Self {
        Self { pieces: response.bytes_stream().boxed(), buffer: String::new(), is_done: false }
    }

    /// The next chunk, or `None` at the end.
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
