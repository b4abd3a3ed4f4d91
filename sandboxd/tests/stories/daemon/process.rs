//! The daemon as a process: its token, its log, and its end.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use futures::StreamExt;
use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::command::{CommandState, Record, StartCommand};
use sandbox_api::files::WriteFiles;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::{CommandId, ErrorCode, SandboxId};
use sandbox_client::Client;
use sandboxd::model::limits;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::process::Child;
use tokio::time::timeout;

use crate::support::engine_view::objects_of;
use crate::support::files::file;
use crate::support::harness::{DaemonProcess, Home, TOKEN, free_port, outcome, script, until};

async fn sandbox(client: &Client) -> SandboxId {
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    client.create_or_reconnect(&request).await.unwrap().sandbox_id
}

const SECRET: &str = "sk0123456789";
const TOOL_TOKEN: &str = "a-token-of-a-laptop";

/// A sandbox with a secret variable.
async fn sandbox_with_secret(client: &Client) -> SandboxId {
    let request = CreateSandbox {
        session_key: "chat:1".into(),
        env: Some([("KEY".to_owned(), SECRET.to_owned())].into()),
        secret_env: Some(vec!["KEY".into()]),
        ..CreateSandbox::default()
    };
    client.create_or_reconnect(&request).await.unwrap().sandbox_id
}

fn home_with_tool_token() -> Home {
    let home = Home::new();
    let path = home.path().join("tool-tokens");
    fs::write(&path, format!("laptop {}\n", sha256(TOOL_TOKEN))).unwrap();
    home.set("SANDBOXD_TOOL_TOKENS_FILE", path.to_str().unwrap())
}

fn sha256(token: &str) -> String {
    Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends SIGTERM to the daemon. It must end within its own time limit.
async fn terminate(mut child: Child) {
    kill_process(Pid::from_raw(child.id().unwrap().cast_signed()).unwrap(), Signal::TERM).unwrap();
    // Once for requests, once for work on sandboxes, and some time for a busy machine.
    let grace = limits::DRAIN * 3;
    let status = timeout(grace, child.wait()).await.unwrap_or_else(|_| panic!("it runs after {grace:?}"));
    assert_eq!(status.unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_outlive_the_daemon_and_are_restored() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let id = sandbox(&daemon.client).await;
    let before = objects_of(&home).await;
    let counts = "echo kept > file; n=0; until [ -e stop ]; do echo $((n += 1)); sleep 0.01; done";
    let started = daemon.client.start(&id, &script(counts)).await.unwrap().command_id;
    // A command that has a reader when the daemon stops.
    let streamed: CommandId = "cmd_streamedWhileWeStop".parse().unwrap();
    let request = StartCommand { command_id: Some(streamed.to_string()), ..script(counts) };
    let mut records = daemon.client.run(&id, &request).await.unwrap();
    while !matches!(records.next().await.unwrap().unwrap(), Record::Stdout(_)) {}
    terminate(daemon.child).await;
    assert_eq!(objects_of(&home).await, before, "they keep running");

    let daemon = DaemonProcess::start(&home, port).await;
    assert_eq!(sandbox(&daemon.client).await, id);
    for command in [&started, &streamed] {
        assert_eq!(daemon.client.inspect(&id, command).await.unwrap().state, CommandState::Running);
    }
    outcome(daemon.client.run(&id, &script("touch stop")).await.unwrap()).await;
    for command in [&started, &streamed] {
        let all = outcome(daemon.client.logs(&id, command, 0, true).await.unwrap()).await;
        let numbers: Vec<usize> = all.text().lines().map(|line| line.parse().unwrap()).collect();
        assert!(numbers.iter().copied().eq(1..=numbers.len()), "{command}: {numbers:?}");
        assert_eq!((all.exit_code, all.dropped_bytes), (0, 0));
    }
    daemon.client.delete(&id).await.unwrap();
    assert_eq!(objects_of(&home).await, Vec::<String>::new());
    terminate(daemon.child).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_stopped_while_it_starts_leaves_nothing() {
    let home = Home::new();
    let mut command = home.program(&["serve"]);
    let child = command.env("SANDBOXD_PORT", free_port().to_string()).spawn().unwrap();
    until("it tests a sandbox", || async {
        objects_of(&home).await.iter().any(|name| name.starts_with("/remcochat-sandbox-"))
    })
    .await;
    terminate(child).await;
    assert_eq!(objects_of(&home).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_generated_once_if_none_is_set() {
    let home = Home::new().set("SANDBOXD_ADMIN_TOKEN", "");
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let daemon = DaemonProcess::start(&home, port).await;
        let path = home.path().join("state/token");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(home.path().join("state")).unwrap().permissions().mode() & 0o777, 0o700);
        let token = fs::read_to_string(&path).unwrap().trim().to_owned();
        assert!(token.len() >= 32, "{} characters", token.len());
        let error = daemon.client.create_or_reconnect(&CreateSandbox::default()).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Unauthenticated), "any other token is rejected");
        let client = Client::new(&url, &token).unwrap();
        let error = client.create_or_reconnect(&CreateSandbox::default()).await.unwrap_err();
        assert_eq!(
            error.code(),
            Some(ErrorCode::InvalidRequest),
            "the token is accepted and the key is empty"
        );
        // The program on the same machine finds the token by itself.
        let run = home.program(&["run", "echo hi"]).env("SANDBOXD_URL", &url).output().await.unwrap();
        assert_eq!((run.status.code(), run.stdout.as_slice()), (Some(0), &b"hi\n"[..]), "{run:?}");
        tokens.push(token);
        terminate(daemon.child).await;
    }
    assert_eq!(tokens[0], tokens[1]);
}

/// All secrets, in every encoding in which they might be logged.
fn secrets_of(home: &Home, sandbox: &SandboxId) -> Vec<String> {
    let key = fs::read(home.path().join("state/instance.key")).unwrap();
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = format!("{key:?}");
    vec![
        TOKEN.to_owned(),
        TOOL_TOKEN.to_owned(),
        sha256(TOOL_TOKEN),
        SECRET.to_owned(),
        BASE64_STANDARD.encode(TOKEN),
        home.instance().unwrap().agent_secret(sandbox),
        hex.to_uppercase(),
        hex,
        BASE64_STANDARD.encode(&key),
        BASE64_URL_SAFE_NO_PAD.encode(&key),
        list.trim_matches(['[', ']']).to_owned(),
    ]
}

/// Checks a line of the JSON log: one object with the same five fields in every line.
fn check_json(line: &str) {
    let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(line) else {
        panic!("not a JSON object: {line}");
    };
    let text = |name: &str| fields.get(name).and_then(|value| value.as_str()).unwrap_or_default();
    assert!(text("timestamp").parse::<jiff::Timestamp>().is_ok(), "{line}");
    assert!(["TRACE", "DEBUG", "INFO", "WARN", "ERROR"].contains(&text("level")), "{line}");
    assert!(!text("target").is_empty(), "{line}");
    if !text("target").starts_with("sandboxd") {
        return;
    }
    assert!(!text("message").is_empty(), "{line}");
    if text("message").starts_with("request") {
        assert!(text("request_id").starts_with("req_") && text("route").starts_with(['/', '-']), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_contains_no_secret() {
    for format in ["text", "json"] {
        let home = home_with_tool_token().set("SANDBOXD_LOG", "trace").set("SANDBOXD_LOG_FORMAT", format);
        let (port, path) = (free_port(), home.path().join("log"));
        let url = format!("http://127.0.0.1:{port}");
        let log = File::create(&path).unwrap();
        let mut command = home.program(&["serve"]);
        command.env("SANDBOXD_PORT", port.to_string()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        let client = Client::new(&url, TOKEN).unwrap();
        until("the daemon is ready", || async { client.ready().await.is_ok() }).await;

        let id = sandbox_with_secret(&client).await;
        let shown = outcome(
            client.run(&id, &script("echo $KEY; curl -so /dev/null http://$KEY.example/$KEY")).await.unwrap(),
        );
        assert_eq!(shown.await.text(), "[KEY]\n");
        assert_eq!(outcome(client.run(&id, &script("echo hi")).await.unwrap()).await.text(), "hi\n");
        client.write_files(&id, &WriteFiles { files: vec![file("a", "b")] }).await.unwrap();
        client.read_file(&id, "a").await.unwrap();
        let http = reqwest::Client::new();
        let stop = format!("{url}/v1/sandboxes/sbx_0000000000000000:stop");
        let let_in = http.post(&stop).bearer_auth(TOKEN).send().await.unwrap();
        let wrong = http.post(&stop).bearer_auth(format!("{TOKEN}x")).send().await.unwrap();
        assert_eq!((let_in.status().as_u16(), wrong.status().as_u16()), (200, 401));
        let tool =
            http.post(format!("{url}/tools/sandbox_info")).header("x-sandbox-session", "1").json(&json!({}));
        let tool = tool.bearer_auth(TOOL_TOKEN).send().await.unwrap();
        assert_eq!(tool.status().as_u16(), 200, "{}", tool.text().await.unwrap());
        client.delete(&id).await.unwrap();
        terminate(child).await;

        let log = fs::read_to_string(&path).unwrap();
        let about_the_sandbox = format!("sandbox{}{id}", if format == "json" { "\":\"" } else { "=" });
        assert!(
            log.lines().any(|line| line.contains(&about_the_sandbox)),
            "the sandbox is named in no field"
        );
        assert!(log.contains("/v1/sandboxes") && log.contains("DEBUG"), "nothing was logged");
        let secrets = secrets_of(&home, &id);
        for line in log.lines() {
            assert!(!secrets.iter().any(|secret| line.contains(secret)), "{line}");
            if format == "json" {
                check_json(line);
            }
        }
    }
}
