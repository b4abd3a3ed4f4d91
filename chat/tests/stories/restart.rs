//! Answers that continue after the end of the chat server, or of the daemon.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use chat::account::Role;
use chat::model::{ModelClient, OpenAi};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use test_daemon::{Daemon, TOKEN, free_port, until};
use tokio::process::{Child, Command};

use crate::browser_cable::{Cable, board};
use crate::scripted_model::{Reply, ScriptedModel, Step};
use crate::test_app::{Chunks, TestApp, message};
use crate::turns::{calls, chunk, of_type, text};
use crate::users::Person;

/// Counts how often it runs, waits for a file, and shows the count.
const WAITING: &str = "echo x >>runs; echo begun; until [[ -e go ]]; do sleep 0.1; done; wc -l <runs";

fn client(model: &ScriptedModel) -> Vec<Arc<dyn ModelClient>> {
    vec![Arc::new(OpenAi::new(model.base.clone(), None).unwrap())]
}

async fn app(model: &ScriptedModel) -> TestApp {
    TestApp::with("localhost", "", client(model)).await
}

fn waiting_call() -> Reply {
    calls(&[("bash", &json!({ "command": WAITING }).to_string())])
}

/// Reads a stream until a command has said that it has begun.
async fn until_begun(chunks: &mut Chunks) {
    while chunks.next().await.unwrap()["output"]["stdout"] != "begun\n" {}
}

async fn upload(base: &str, chat: &str, name: &str) {
    let url = format!("{base}/api/chats/{chat}/files/content?path={name}");
    let response = reqwest::Client::new().put(url).body("x").send().await.unwrap();
    assert!(response.status().is_success(), "{}", response.text().await.unwrap());
}

async fn rest(mut chunks: Chunks) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(chunk) = chunks.next().await {
        all.push(chunk);
    }
    assert!(chunks.is_done, "the stream was cut: {all:?}");
    all
}

async fn until_idle(app: &TestApp, chat: &str) {
    let path = format!("/api/chats/{chat}");
    until("the answer is complete", || async { app.get(&path).await.1["running"] == false }).await;
}

/// The parts of the stored answer, which is complete.
async fn answer_of(app: &TestApp, chat: &str) -> Vec<Value> {
    let (_, chat) = app.get(&format!("/api/chats/{chat}")).await;
    assert_eq!(chat["running"], false, "{chat}");
    chat["messages"][1]["parts"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_continues_over_a_restart_of_the_chat() {
    let app = TestApp::start().await;
    let mut chunks = Chunks::new(app.say("1", &format!("/bash {WAITING}")).send().await.unwrap());
    until_begun(&mut chunks).await;
    let app = app.again().await;
    while chunks.next().await.is_some() {}
    let (_, running) = app.get("/api/chats/1").await;
    assert_eq!((&running["running"], &running["turnId"]), (&json!(true), &running["messages"][1]["id"]));
    let mut joined = Chunks::new(app.join("1").await);
    until_begun(&mut joined).await;
    upload(&app.base, "1", "go").await;
    let reported = rest(joined).await;
    let last = of_type(&reported, "tool-output-available").last().unwrap()["output"].clone();
    assert_eq!((&last["stdout"], &last["exitCode"]), (&json!("begun\n1\n"), &json!(0)), "it has run once");
    assert_eq!(reported.last().unwrap()["type"], "finish");
    let parts = answer_of(&app, "1").await;
    assert_eq!((parts.len(), &parts[1]["output"]), (2, &last), "{parts:?}");
    // Nothing is left to be continued.
    let app = app.again().await;
    assert_eq!(answer_of(&app, "1").await, parts);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_models_answer_continues_over_a_restart_of_the_chat() {
    let half = chunk(json!({ "content": "Half of " }), None);
    let model = ScriptedModel::start([
        calls(&[("bash", r#"{"command":"echo first"}"#)]),
        waiting_call(),
        Reply::stream(half).then(Step::StaySilent),
        text("All of it."),
    ])
    .await;
    let app = app(&model).await;
    let mut chunks = Chunks::new(app.say("1", "go").send().await.unwrap());
    until_begun(&mut chunks).await;
    let app = app.again_after(client(&model), async |_| {}).await;
    upload(&app.base, "1", "go").await;
    // The model gets the result, as if nothing had happened.
    let mut chunks = Chunks::new(app.join("1").await);
    while chunks.next().await.unwrap()["delta"] != "Half of " {}
    let sent = model.requests();
    assert_eq!(sent.len(), 3);
    let messages = sent[2].body["messages"].as_array().unwrap().clone();
    let roles: Vec<_> = messages.iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "tool"]);
    assert!(messages[5]["content"].as_str().unwrap().contains("begun\\n1\\n"), "{}", messages[5]);
    // In the middle of a text: it is asked for again.
    let app = app.again_after(client(&model), async |_| {}).await;
    until_idle(&app, "1").await;
    assert_eq!(model.requests()[3].body["messages"], sent[2].body["messages"]);
    let parts = answer_of(&app, "1").await;
    let kinds: Vec<_> = parts.iter().map(|part| part["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["step-start", "tool-bash", "step-start", "tool-bash", "step-start", "text"]);
    assert!(parts.iter().all(|part| part["state"] != "output-error"), "{parts:?}");
    assert_eq!(parts[5]["text"], "All of it.");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_is_said_and_not_run_again() {
    let code = json!({ "code": "import time\nopen('ran', 'a').write('x')\ntime.sleep(100)" }).to_string();
    let model = ScriptedModel::start([
        waiting_call(),
        text("The sandbox is gone."),
        calls(&[("python", &code)]),
        text("The code is gone."),
        waiting_call(),
    ])
    .await;
    let app = app(&model).await;
    let mut chunks = Chunks::new(app.say("1", "go").send().await.unwrap());
    until_begun(&mut chunks).await;
    let delete_all = async |daemon: &Daemon| {
        for sandbox in daemon.client.list(&Default::default()).await.unwrap().sandboxes {
            daemon.client.delete(&sandbox.sandbox_id).await.unwrap();
        }
    };
    let app = app.again_after(client(&model), delete_all).await;
    until_idle(&app, "1").await;
    let parts = answer_of(&app, "1").await;
    let error = parts[1]["errorText"].as_str().unwrap();
    assert!(error.contains("its sandbox was lost") && error.contains("not run again"), "{error}");
    assert_eq!(parts.last().unwrap()["text"], "The sandbox is gone.");
    assert!(model.requests()[1].body["messages"][3]["content"].as_str().unwrap().contains("was lost"));

    let mut chunks = Chunks::new(app.say("2", "go").send().await.unwrap());
    while chunks.next().await.unwrap()["output"]["status"] != "running" {}
    let app = app.again_after(client(&model), async |_| {}).await;
    until_idle(&app, "2").await;
    let parts = answer_of(&app, "2").await;
    let error = parts[1]["errorText"].as_str().unwrap();
    assert!(error.contains("Its result is lost"), "{error}");
    assert_eq!(parts.last().unwrap()["text"], "The code is gone.");

    // A model that is gone: what it has begun is ended.
    let mut chunks = Chunks::new(app.say("3", "go").send().await.unwrap());
    until_begun(&mut chunks).await;
    let app = app.again().await;
    until_idle(&app, "3").await;
    let parts = answer_of(&app, "3").await;
    assert_eq!(parts[1]["output"]["exitCode"], 130, "{parts:?}");
    let last = parts.last().unwrap()["data"]["text"].as_str().unwrap();
    assert!(last.contains("its model is not connected"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_not_undone_and_a_daemon_that_starts_late_is_awaited() {
    let app = TestApp::start().await;
    let mut chunks = Chunks::new(app.say("1", &format!("/bash {WAITING}")).send().await.unwrap());
    until_begun(&mut chunks).await;
    // A stop whose effect the app did not live to see.
    stop_in_database(&app).await;
    let app = app.again().await;
    until_idle(&app, "1").await;
    let parts = answer_of(&app, "1").await;
    assert_eq!((&parts[1]["output"]["exitCode"], &parts[2]["type"]), (&json!(130), &json!("data-stopped")));

    let cable = Cable::to(&app.daemon.base).await;
    let (orchestrator, board) = (cable.base(), board([("daemon", cable)]).await);
    let app = app.again_by_way_of(&orchestrator).await;
    let mut chunks = Chunks::new(app.say("2", &format!("/bash {WAITING}")).send().await.unwrap());
    until_begun(&mut chunks).await;
    turn(&board, "daemon", "out").await;
    let app = app.again_by_way_of(&orchestrator).await;
    let mut chunks = Chunks::new(app.join("2").await);
    while chunks.next().await.unwrap()["type"] != "tool-input-available" {}
    turn(&board, "daemon", "in").await;
    until_begun(&mut chunks).await;
    until("the gates have noticed", || async { app.get("/api/app").await.1["tools"]["enabled"] == true })
        .await;
    upload(&app.base, "2", "go").await;
    let reported = rest(chunks).await;
    let last = of_type(&reported, "tool-output-available").last().unwrap()["output"].clone();
    assert_eq!((&last["stdout"], &last["exitCode"]), (&json!("begun\n1\n"), &json!(0)));
}

async fn stop_in_database(app: &TestApp) {
    let file = SqliteConnectOptions::new().filename(app.state_dir().join("chat.db"));
    let mut conn = file.connect().await.unwrap();
    let update = sqlx::query("UPDATE turns SET is_stopped = 1").execute(&mut conn).await.unwrap();
    assert_eq!(update.rows_affected(), 1);
}

async fn turn(board: &str, cable: &str, way: &str) {
    let response = reqwest::Client::new().post(format!("{board}/{cable}/{way}")).send().await.unwrap();
    assert_eq!(response.status(), 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_ends_with_its_session_also_over_a_restart() {
    let app = TestApp::start().await;
    let ann = Person::new(&app, "ann", Role::Admin).await;
    let mut chunks = Chunks::new(ann.sends(app.say("1", &format!("/bash {WAITING}"))).send().await.unwrap());
    until_begun(&mut chunks).await;
    let app = app.again().await;
    assert_eq!(ann.gets(&app, "/api/chats/1").await.1["running"], true);
    app.people.end_sessions(&ann.user.id).await.unwrap();
    let other = ann.again(&app).await;
    until("the turn has ended", || async { other.gets(&app, "/api/chats/1").await.1["running"] == false })
        .await;
    let (_, chat) = other.gets(&app, "/api/chats/1").await;
    let parts = chat["messages"][1]["parts"].as_array().unwrap();
    assert!(parts[1]["output"]["stderr"].as_str().unwrap().contains("cancelled"), "{parts:?}");
    let last = parts.last().unwrap()["data"]["text"].as_str().unwrap();
    assert!(last.contains("its session has ended"), "{last}");
}

/// The chat as a program, which can be killed.
struct Program {
    base: String,
    child: Child,
}

impl Program {
    async fn start(dir: &Path, port: u16, daemon: &Daemon, model: &ScriptedModel) -> Self {
        let config = dir.join("config.toml");
        let text = format!(
            "[app.bash_tools]\nenabled = true\nprovider = 'docker'\naccess = 'localhost'\n\
             [app.bash_tools.docker]\norchestrator_url = '{}'\nnetwork_mode = 'none'\nmemory_mb = 512\n\
             [app.bash_tools.seed]\nmode = 'none'\n",
            daemon.base
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_chat"));
        command.env_clear().kill_on_drop(true).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("REMCOCHAT_CONFIG_PATH", config).env("REMCOCHAT_ENABLE_BASH_TOOL", "1");
        command.env("REMCOCHAT_ADMIN_TOKEN", TOKEN).env("CHAT_STATE_DIR", dir.join("state"));
        command.env("CHAT_BIND", format!("127.0.0.1:{port}"));
        command.env("CHAT_OPENAI_BASE_URL", model.base.as_str()).env("CHAT_OPENAI_MODELS", "0");
        let (base, child) = (format!("http://127.0.0.1:{port}"), command.spawn().unwrap());
        let program = Self { base, child };
        let answers = || async { reqwest::get(format!("{}/api/health", program.base)).await.is_ok() };
        until("the chat responds", answers).await;
        program
    }

    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    async fn request(&self, method: Method, path: &str, body: Option<Value>) -> reqwest::Response {
        let request = reqwest::Client::new().request(method, format!("{}{path}", self.base));
        body.iter().fold(request, |request, body| request.json(body)).send().await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_chat_continues_where_it_was() {
    let half = chunk(json!({ "content": "Half of " }), None);
    let model = ScriptedModel::start([
        waiting_call(),
        Reply::stream(half).then(Step::StaySilent),
        text("All of it."),
    ])
    .await;
    let (daemon, dir, port) = (Daemon::start().await, tempfile::tempdir().unwrap(), free_port());
    let start = || Program::start(dir.path(), port, &daemon, &model);
    let program = start().await;
    let said = program.request(Method::POST, "/api/chat", Some(message("1", "go"))).await;
    let mut chunks = Chunks::new(said);
    until_begun(&mut chunks).await;
    program.kill().await;
    while chunks.next().await.is_some() {}
    assert!(!chunks.is_done);

    let program = start().await;
    upload(&program.base, "1", "go").await;
    let mut chunks = Chunks::new(program.request(Method::GET, "/api/chats/1/stream", None).await);
    while chunks.next().await.unwrap()["delta"] != "Half of " {}
    program.kill().await;

    let program = start().await;
    let chat =
        async || -> Value { program.request(Method::GET, "/api/chats/1", None).await.json().await.unwrap() };
    until("the answer is complete", || async { chat().await["running"] == false }).await;
    let chat = chat().await;
    let parts = chat["messages"][1]["parts"].as_array().unwrap();
    assert_eq!((parts.len(), &parts[1]["output"]["stdout"]), (4, &json!("begun\n1\n")), "{parts:?}");
    assert_eq!(parts[3]["text"], "All of it.");
    assert_eq!(model.requests().len(), 3);
}
