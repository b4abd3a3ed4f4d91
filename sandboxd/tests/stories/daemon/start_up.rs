//! Failed starts: a clear message, soon, and a failing exit code.

use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::support::engine_view::objects_of;
use crate::support::harness::{DaemonProcess, Home, TOKEN, free_port};
use crate::support::processes::serve;

/// Time within which a start must have failed. No wait may exceed it.
const REFUSAL: Duration = Duration::from_secs(20);

/// Standard error of a program that must fail.
async fn fails(mut command: Command) -> String {
    let output =
        timeout(REFUSAL, command.output()).await.expect("the start neither succeeds nor fails").unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("sandboxd: ") && !words.contains("panicked"), "{words}");
    words
}

#[track_caller]
fn contains_all(words: &str, facts: &[&str]) {
    for fact in facts {
        assert!(words.contains(fact), "no {fact:?} in: {words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bind_address_reachable_by_others_needs_a_long_token() {
    let home = || Home::new().set("SANDBOXD_BIND_HOST", "0.0.0.0");
    for token in ["", "  ", "short", &"x".repeat(31)] {
        let words = fails(serve(&home().set("SANDBOXD_ADMIN_TOKEN", token))).await;
        contains_all(&words, &["SANDBOXD_ADMIN_TOKEN", "32", "SANDBOXD_BIND_HOST"]);
        assert!(token.trim().is_empty() || !words.contains(token), "the token is in: {words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_errors_in_the_settings_are_reported_together() {
    let faults = [
        ("SANDBOXD_MAX_CONCURRENT", "0"),
        ("SANDBOXD_LOG_FORMAT", "xml"),
        ("SANDBOXD_RUN_DIR", "relative"),
        ("SANDBOXD_MAX_BODY_BYTES", "much"),
        ("SANDBOXD_AGENT_TRANSPORT", "pigeon"),
        ("SANDBOXD_REQUIRE_TOKEN", "1"),
        ("DOCKER_HOST", "ssh://me@there"),
    ];
    let home = faults.iter().fold(Home::new(), |home, (name, value)| home.set(name, value));
    for verb in ["serve", "check-config", "build-image"] {
        let words = fails(home.program(&[verb])).await;
        let lines: Vec<&str> = words.lines().skip(1).collect();
        for (name, _) in faults {
            let reported = lines.iter().filter(|line| line.trim_start().starts_with(name)).count();
            assert_eq!(reported, 1, "{verb}: {name} in {words}");
        }
        assert_eq!(lines.len(), faults.len(), "{verb}: {words}");
    }
    assert!(!home.path().join("state").exists(), "something was created before the settings were checked");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_config_prints_settings_and_sources_without_secrets() {
    let home = Home::new()
        .set("SANDBOXD_PORT", "8123")
        .set("SANDBOXD_URL", "http://127.0.0.1:8123")
        .set("SANDBOXD_MAX_CONCURENT", "4");
    let output = home.program(&["check-config"]).output().await.unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{report}");
    let row = |name: &str| report.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
    let words = |name| row(name).split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
    assert_eq!(words("SANDBOXD_PORT"), "8123 environment");
    assert_eq!(words("SANDBOXD_BIND_HOST"), "127.0.0.1 default");
    assert_eq!(words("SANDBOXD_ADMIN_TOKEN"), format!("({} characters) environment", TOKEN.len()));
    assert_eq!(words("SANDBOXD_URL"), "http://127.0.0.1:8123 environment");
    assert!(words("SANDBOXD_MAX_CONCURENT").contains("not a setting"), "{report}");
    assert!(!report.contains(TOKEN), "{report}");

    let faulty = home.set("SANDBOXD_PORT", "70000");
    let output = faulty.program(&["check-config"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    contains_all(&String::from_utf8(output.stdout).unwrap(), &["SANDBOXD_BIND_HOST", "70000"]);
    let words = String::from_utf8(output.stderr).unwrap();
    contains_all(&words, &["SANDBOXD_PORT", "65535"]);
    assert!(!words.contains(TOKEN), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_directories_are_named() {
    for (setting, name) in [("SANDBOXD_STATE_DIR", "state dir"), ("SANDBOXD_RUN_DIR", "run dir")] {
        let home = Home::new();
        let path: PathBuf = home.path().join("a-file");
        std::fs::write(&path, "").unwrap();
        let below = path.join("below").to_string_lossy().into_owned();
        let words = fails(serve(&home.set(setting, &below))).await;
        contains_all(&words, &[name, &below]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let words = fails(Home::new().set("SANDBOXD_PORT", &port).program(&["serve"])).await;
    contains_all(&words, &["cannot listen", &port, "in use"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_oci_runtime_is_reported_with_the_known_ones() {
    let words = fails(serve(&Home::new().set("SANDBOXD_RUNTIME", "nope"))).await;
    contains_all(&words, &["nope", "only", "runc", "SANDBOXD_RUNTIME", "daemon.json"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_agent_is_reported_with_how_to_build_it() {
    let home = Home::new().set("SANDBOXD_AGENT_PATH", "/no/such/sandbox-agent");
    let words = fails(serve(&home)).await;
    contains_all(&words, &["/no/such/sandbox-agent", "make build", "SANDBOXD_AGENT_PATH"]);
    assert_eq!(objects_of(&home).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_on_one_state_dir_is_rejected() {
    let home = Home::new();
    let first = DaemonProcess::start(&home, free_port()).await;
    let words = fails(serve(&home)).await;
    contains_all(&words, &["another sandboxd", &home.path().join("state").to_string_lossy()]);
    assert!(first.client.ready().await.unwrap().ready, "the first one keeps running");
    first.kill().await;
}
