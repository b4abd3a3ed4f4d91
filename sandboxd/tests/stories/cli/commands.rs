//! CLI commands for one sandbox: `run` with its options, `exec`, `inspect`, `preview`, `network`, `rm`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::ErrorCode;
use sandbox_api::sandbox::ListSandboxes;
use serde_json::Value;
use tokio::time::timeout;

use crate::support::engine_proxy::{EngineProxy, Fault};
use crate::support::engine_view::objects_of;
use crate::support::harness::{Daemon, Home, SOON, until};
use crate::support::visitor::{node, sandbox_with_port, serve, visit};

/// The program with this daemon's URL. The first argument is the command.
async fn program(daemon: &Daemon, args: &[&str]) -> Output {
    let args = [&args[..1], &["--url", &daemon.base], &args[1..]].concat();
    let output = daemon.home.program(&args).output();
    timeout(SOON, output).await.expect("the program does not end").unwrap()
}

/// Standard output of a command that succeeds.
async fn printed(daemon: &Daemon, args: &[&str]) -> String {
    let output = program(daemon, args).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

async fn fails(daemon: &Daemon, args: &[&str], code: i32, word: &str) {
    let output = program(daemon, args).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
    assert!(errors.contains(word), "{args:?}: no {word} in {errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_accepts_an_environment_a_size_and_a_network() {
    let daemon = Daemon::start().await;
    let session = ["run", "--session", "chat:1"];
    let new = ["-e", "GREETING=a=b", "--env", "ABSENT", "--memory", "512m", "--network", "none"];
    let script = r#"echo "$GREETING ${ABSENT-unset}""#;
    assert_eq!(printed(&daemon, &[&session[..], &new, &[script]].concat()).await, "a=b unset\n");
    let sandbox = daemon.client.get(&daemon.sandbox("chat:1").await).await.unwrap();
    assert_eq!(sandbox.resources.memory_mb, Some(512));
    assert_eq!(sandbox.network.mode.as_deref(), Some("none"));

    let records = printed(&daemon, &[&session[..], &["--json", "echo out; echo err >&2"]].concat()).await;
    let records: Vec<Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let streams: Vec<_> = records.iter().map(|record| record["stream"].as_str().unwrap()).collect();
    assert_eq!((streams[0], streams[streams.len() - 1]), ("start", "exit"));
    assert!(streams.contains(&"stdout") && streams.contains(&"stderr"), "{streams:?}");

    let larger = program(&daemon, &[&session[..], &["--memory", "1g", "true"]].concat()).await;
    let errors = String::from_utf8_lossy(&larger.stderr);
    assert!(larger.status.success() && errors.contains("resources"), "{errors}");
    fails(&daemon, &[&session[..], &["--memory", "512", "true"]].concat(), 2, "512m").await;
    fails(&daemon, &["run", "--network", "moon", "true"], 1, "network").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_runs_in_a_sandbox_that_exists_and_wakes_it() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    assert_eq!(printed(&daemon, &["exec", "chat:1", "echo kept > file; pwd"]).await.lines().count(), 1);
    daemon.client.park(&sandbox, false).await.unwrap();
    assert_eq!(printed(&daemon, &["exec", sandbox.as_str(), "-e", "A=1", "printenv", "A"]).await, "1\n");
    assert_eq!(printed(&daemon, &["exec", "chat:1", "--cwd", "/tmp", "pwd"]).await, "/tmp\n");
    assert_eq!(program(&daemon, &["exec", "chat:1", "exit 7"]).await.status.code(), Some(7));
    fails(&daemon, &["exec", "chat:absent", "true"], 1, "chat:absent").await;
    // An unknown option is not taken for a program.
    fails(&daemon, &["exec", "chat:1", "-t", "bash"], 2, "-t").await;
    fails(&daemon, &["run", "--rm", "ls"], 2, "--rm").await;
    assert_eq!(printed(&daemon, &["exec", "chat:1", "--", "echo", "-n", "--x"]).await, "--x");
    assert_eq!(printed(&daemon, &["exec", "chat:1", "echo", "-n", "--json"]).await, "--json");
    assert_eq!(daemon.client.list(&Default::default()).await.unwrap().sandboxes.len(), 1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_cannot_be_started_has_the_exit_code_of_a_shell() {
    let daemon = Daemon::start().await;
    daemon.sandbox("chat:1").await;
    printed(&daemon, &["exec", "chat:1", "echo text > file"]).await;
    for command in ["run", "exec"] {
        let target = if command == "run" { ["--session", "chat:1"].as_slice() } else { &["chat:1"] };
        let with = |rest: &[&'static str]| [&[command][..], target, rest].concat();
        fails(&daemon, &with(&["no-such-program", "argument"]), 127, "no-such-program").await;
        fails(&daemon, &with(&["./file", "argument"]), 126, "file").await;
        fails(&daemon, &with(&["--cwd", "absent", "true"]), 126, "absent").await;
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_is_listed_inspected_and_removed_by_command_aliases() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let inspected: Value = serde_json::from_str(&printed(&daemon, &["inspect", "chat:1"]).await).unwrap();
    let found = &inspected["sandboxes"][0];
    assert_eq!(found["sandboxId"], sandbox.as_str());
    assert!(found["usage"].is_object() && found["posture"].is_object(), "{found}");
    let partly = program(&daemon, &["inspect", "chat:absent", "chat:1"]).await;
    let errors = String::from_utf8_lossy(&partly.stderr);
    assert_eq!(partly.status.code(), Some(1), "{errors}");
    assert!(errors.contains("chat:absent") && !errors.contains("chat:1"), "{errors}");
    let partly: Value = serde_json::from_slice(&partly.stdout).unwrap();
    assert_eq!(partly["sandboxes"].as_array().map(Vec::len), Some(1));
    assert_eq!(partly["sandboxes"][0]["sandboxId"], sandbox.as_str());
    for list in ["ps", "ls", "list"] {
        assert!(printed(&daemon, &[list]).await.contains(sandbox.as_str()), "{list}");
    }
    assert_eq!(printed(&daemon, &["rm", "chat:1"]).await, "chat:1: deleted\n");
    let gone = daemon.client.get(&sandbox).await.unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::NotFound));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_during_the_create_ends_the_run_at_once_and_the_sandbox_is_removed() {
    let proxy = EngineProxy::start();
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    proxy.set("/containers/create", Fault::Hang);
    let mut run = daemon.home.program(&["run", "--url", &daemon.base, "true"]);
    let run = run.kill_on_drop(true).spawn().unwrap();
    let listed = async || daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    until("it is being created", || async { !listed().await.is_empty() }).await;
    kill_process(Pid::from_raw(run.id().unwrap().cast_signed()).unwrap(), Signal::INT).unwrap();
    // The engine still hangs, so this would wait for the create otherwise.
    let output = timeout(SOON, run.wait_with_output()).await.expect("the program does not end").unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    proxy.clear_faults();
    until("nothing is left", || async { objects_of(&daemon.home).await.is_empty() }).await;
    daemon.stop().await;
}

#[tokio::test]
async fn an_environment_that_is_not_unicode_is_accepted() {
    let home = Home::new();
    let mut check = home.program(&["check-config"]);
    let output = check.env(OsStr::from_bytes(b"ODD\xff"), OsStr::from_bytes(b"\xff")).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_is_created_listed_and_revoked() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('hello')")).await;
    let url = printed(&daemon, &["preview", "chat:1", "3000", "--ttl", "1h"]).await;
    assert_eq!(visit(url.trim()).await.body, "hello");
    let listed = printed(&daemon, &["preview", "chat:1"]).await;
    assert!(listed.contains("3000\tlistens on") && listed.contains("lnk_"), "{listed}");
    let link = listed.split_whitespace().find(|word| word.starts_with("lnk_")).unwrap();
    printed(&daemon, &["preview", "chat:1", "3000", "--revoke", link]).await;
    assert!(!printed(&daemon, &["preview", "chat:1"]).await.contains("lnk_"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_policy_is_shown_and_changed() {
    let daemon = Daemon::start().await;
    daemon.sandbox("chat:1").await;
    assert_eq!(printed(&daemon, &["network", "chat:1"]).await, "mode\tdefault\n");
    let changed =
        printed(&daemon, &["network", "chat:1", "--allow", "example.com", "--allow", "*.example.org"]).await;
    assert_eq!(changed, "mode\tallowlist\nallow\texample.com\nallow\t*.example.org\n");
    printed(&daemon, &["exec", "chat:1", "curl -sm 5 http://denied.example/ || true"]).await;
    let shown = printed(&daemon, &["network", "chat:1"]).await;
    assert!(shown.contains("denied\tdenied.example:80\t1 times"), "{shown}");
    let denial = shown.split_whitespace().find(|word| word.starts_with("den_")).unwrap();
    let once = printed(&daemon, &["network", "chat:1", "--allow-denied", denial, "--once"]).await;
    assert!(once.starts_with("allowed\tdenied.example\tonce, until 20"), "{once}");
    let allowed = printed(&daemon, &["network", "chat:1", "--allow-denied", denial]).await;
    assert_eq!(allowed, "allowed\tdenied.example\n");
    assert!(printed(&daemon, &["network", "chat:1"]).await.contains("allow\tdenied.example\n"));
    let json: Value =
        serde_json::from_str(&printed(&daemon, &["network", "chat:1", "none", "--json"]).await).unwrap();
    assert_eq!(json["network"]["mode"], "none");
    fails(&daemon, &["network", "chat:1", "moon"], 1, "mode").await;
    daemon.stop().await;
}
