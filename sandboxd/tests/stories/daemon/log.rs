//! The log holds the reason for every error that refers to it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;

use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::{ErrorBody, TOKEN_HEADER};
use sandbox_client::{ArchiveFormat, Client};
use serde_json::{Value, json};
use tokio::process::Child;

use crate::support::engine_proxy::{EngineProxy, Fault};
use crate::support::harness::{Home, TOKEN, free_port, outcome, script, until};

/// A daemon whose log is a file.
struct Logging {
    _home: Home,
    daemon: Child,
    url: String,
    client: Client,
    path: PathBuf,
}

impl Logging {
    async fn start(home: Home) -> Self {
        let (port, path) = (free_port(), home.path().join("log"));
        let mut daemon = home.program(&["serve"]);
        let daemon = daemon.env("SANDBOXD_PORT", port.to_string()).stdout(Stdio::null());
        let daemon = daemon.stderr(File::create(&path).unwrap()).spawn().unwrap();
        let url = format!("http://127.0.0.1:{port}");
        let client = Client::new(&url, TOKEN).unwrap();
        until("the daemon is ready", || async { client.ready().await.is_ok() }).await;
        Self { _home: home, daemon, url, client, path }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }

    /// Waits for a line with these words.
    async fn line(&self, words: &str) -> String {
        let found = || self.log().lines().find(|line| line.contains(words)).map(str::to_owned);
        until("it is logged", || async { found().is_some() }).await;
        found().unwrap()
    }
}

/// The log of a create request whose engine call failed, and the request id that the client received.
async fn log_of_a_failed_create(format: &str) -> (String, String) {
    let proxy = EngineProxy::start();
    let home = Home::new()
        .set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy())
        .set("SANDBOXD_LOG_FORMAT", format);
    let mut logging = Logging::start(home).await;
    proxy.set("/containers/create", Fault::Fail);
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let ask =
        reqwest::Client::new().post(format!("{}/v1/sandboxes", logging.url)).header(TOKEN_HEADER, TOKEN);
    let refused: ErrorBody = ask.json(&request).send().await.unwrap().json().await.unwrap();
    logging.line(&refused.request_id).await;
    logging.daemon.kill().await.unwrap();
    (logging.log(), refused.request_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_logged_with_its_causes_and_the_code_the_client_received() {
    let (log, id) = log_of_a_failed_create("json").await;
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let line = lines.into_iter().find(|line| line["request_id"] == json!(id)).unwrap();
    assert_eq!(
        (&line["code"], &line["message"]),
        (&json!("unavailable"), &json!("request refused")),
        "{line}"
    );
    let sentence = line["error"].as_str().unwrap();
    let causes: Vec<&str> =
        line["causes"].as_array().unwrap().iter().map(|cause| cause.as_str().unwrap()).collect();
    assert!(causes.iter().any(|cause| cause.contains("it is broken")), "the engine's words: {line}");
    assert!(!sentence.contains("broken") && !causes.contains(&sentence), "repeated: {line}");

    let (log, id) = log_of_a_failed_create("text").await;
    let line = log.lines().find(|line| line.contains(&id)).unwrap();
    assert!(line.contains("code=unavailable") && line.contains("broken"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_archive_is_logged_with_the_unreadable_file() {
    let mut logging = Logging::start(Home::new().set("SANDBOXD_LOG", "info")).await;
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = logging.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let made = script("head -c 20M /dev/urandom > large; echo 1 > secret; chmod 0 secret");
    assert_eq!(outcome(logging.client.run(&sandbox, &made).await.unwrap()).await.exit_code, 0);
    let begun = logging.client.pack_files(&sandbox, "", ArchiveFormat::Tar).await.unwrap();
    assert!(begun.bytes(64 << 20).await.is_err());
    let line = logging.line("could not send a response to its end").await;
    assert!(line.contains("secret") && line.contains("Permission denied") && line.contains("req_"), "{line}");
    logging.client.delete(&sandbox).await.unwrap();
    logging.daemon.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_can_inject_a_log_line() {
    let forged = "\n2026-01-01T00:00:00Z  INFO sandboxd: forged\r\u{1b}[31m\u{85}\u{2028}\u{202e}";
    for format in ["text", "json"] {
        let mut logging = Logging::start(Home::new().set("SANDBOXD_LOG_FORMAT", format)).await;
        let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
        let sandbox = logging.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
        let base = format!("{}/v1/sandboxes/{sandbox}", logging.url);
        let http = reqwest::Client::new();
        let name = format!("A={forged}");
        let body = json!({ "script": "true", "env": { name: "x" } });
        let ask = http.post(format!("{base}/commands")).header(TOKEN_HEADER, TOKEN);
        let refused: ErrorBody = ask.json(&body).send().await.unwrap().json().await.unwrap();
        logging.line(&refused.request_id).await;
        let pattern = [("pattern", format!("[{forged}"))];
        let ask = http.get(format!("{base}/files:glob")).query(&pattern).header(TOKEN_HEADER, TOKEN);
        let refused: ErrorBody = ask.send().await.unwrap().json().await.unwrap();
        logging.line(&refused.request_id).await;
        logging.client.delete(&sandbox).await.unwrap();
        logging.daemon.kill().await.unwrap();
        let log = logging.log();
        assert!(log.contains("forged"), "the error names the rejected path: {log}");
        for line in log.lines() {
            assert!(!line.contains(log_text::is_unsafe), "{line:?}");
            assert!(!line.starts_with("2026-01-01"), "{line:?}");
        }
    }
}
