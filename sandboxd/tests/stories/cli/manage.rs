//! `sandboxd ps`, `stop`, `park` and `prune`, each run as a separate process.

use std::process::{Output, Stdio};

use sandbox_api::ErrorCode;
use sandbox_api::sandbox::{CreateSandbox, SandboxState};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::support::engine_view::objects_of;
use crate::support::harness::{Daemon, Home, SOON, free_port, until};
use crate::support::http::{Answer, HttpClient};

async fn program(daemon: &Daemon, args: &[&str]) -> Output {
    let url = ["--url", &daemon.base];
    daemon.home.program(&[args, &url].concat()).output().await.unwrap()
}

/// Standard output of a command that succeeds.
async fn stdout_of(daemon: &Daemon, args: &[&str]) -> String {
    let output = program(daemon, args).await;
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

async fn json(daemon: &Daemon, args: &[&str]) -> Value {
    serde_json::from_slice(&program(daemon, &[args, &["--json"]].concat()).await.stdout).unwrap()
}

fn line_of<'a>(table: &'a str, id: &str) -> &'a str {
    table.lines().find(|line| line.starts_with(id)).unwrap_or_else(|| panic!("no {id} in {table}"))
}

/// The program on its own terminal, which script(1) creates.
fn at_a_terminal(daemon: &Daemon, args: &[&str]) -> Child {
    let program = daemon.home.program(args);
    let program = program.as_std();
    let words = std::iter::once(program.get_program()).chain(program.get_args());
    let line: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command"]).arg(line.join(" ")).arg("/dev/null");
    let settings = program.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.env_clear().envs(settings).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.kill_on_drop(true).spawn().unwrap()
}

/// Everything on the terminal up to these words.
async fn shown(child: &mut Child, words: &str) -> String {
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains(words) {
        let out = child.stdout.as_mut().unwrap();
        let read = timeout(SOON, out.read_buf(&mut shown)).await.expect("nothing is shown").unwrap();
        assert!(read > 0, "it ended after {:?}", String::from_utf8_lossy(&shown));
    }
    String::from_utf8_lossy(&shown).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn ps_lists_sandboxes_and_their_usage() {
    let daemon = Daemon::start().await;
    assert_eq!(stdout_of(&daemon, &["ps"]).await.lines().count(), 1, "only the heading");
    let (one, two) = (daemon.sandbox("chat:one").await, daemon.sandbox("tmp:two").await);
    daemon.client.park(&two, false).await.unwrap();
    let table = stdout_of(&daemon, &["ps"]).await;
    assert!(line_of(&table, "ID").contains("SESSION") && table.lines().count() == 3, "{table}");
    let line = line_of(&table, one.as_str());
    assert!(["chat:one", "running", "iB"].iter().all(|word| line.contains(word)), "{line}");
    let line = line_of(&table, two.as_str());
    assert!(["tmp:two", "parked", " - "].iter().all(|word| line.contains(word)), "{line}");
    let parked = stdout_of(&daemon, &["ps", "--state", "parked"]).await;
    assert!(parked.contains(two.as_str()) && !parked.contains(one.as_str()), "{parked}");
    let listed = json(&daemon, &["ps", "--state", "running"]).await;
    assert_eq!(listed["sandboxes"][0]["sandboxId"], one.as_str());
    assert!(listed["sandboxes"][0]["usage"]["memoryBytes"].as_u64().is_some_and(|bytes| bytes > 0));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_key_cannot_send_escape_sequences_to_the_terminal() {
    let daemon = Daemon::start().await;
    // The API rejects control characters. It accepts bidirectional marks, which reverse the text, as letters.
    let session_key = format!("chat:\u{202e}txt.exe\u{200b}{}", " long".repeat(60));
    let request = CreateSandbox { session_key: session_key.clone(), ..CreateSandbox::default() };
    let id = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let table = stdout_of(&daemon, &["ps"]).await;
    assert!(line_of(&table, id.as_str()).chars().count() < 200, "{table}");
    let stopped = stdout_of(&daemon, &["stop", &session_key]).await;
    for text in [table, stopped] {
        assert!(!text.contains(['\u{202e}', '\u{200b}']) && text.contains("\\u{202e}txt.exe"), "{text}");
    }
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_and_park_accept_an_id_or_a_session_and_report_each_result() {
    let daemon = Daemon::start().await;
    let (one, two) = (daemon.sandbox("chat:one").await, daemon.sandbox("chat:two").await);
    daemon.output(&two, "echo kept > file").await;
    stdout_of(&daemon, &["park", "chat:two"]).await;
    assert_eq!(daemon.client.get(&two).await.unwrap().state, SandboxState::Parked);
    assert_eq!(daemon.output(&two, "cat file").await, "kept\n");

    let output = program(&daemon, &["stop", one.as_str(), "chat:nobody"]).await;
    assert_eq!(output.status.code(), Some(1), "one of them does not exist");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{one}: deleted\n"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("chat:nobody: no such sandbox"));
    assert!(daemon.client.get(&one).await.is_err());
    let results = json(&daemon, &["stop", "chat:two", "sbx_0000000000000000"]).await;
    assert_eq!((&results["results"][0]["ok"], &results["results"][1]["ok"]), (&true.into(), &false.into()));
    assert_eq!(results["results"][0]["sandboxId"], two.as_str());
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_in_use_is_parked_only_with_force() {
    let daemon = Daemon::start().await;
    let id = daemon.sandbox("chat:busy").await;
    daemon.client.start(&id, &crate::support::harness::script("exec sleep 60")).await.unwrap();
    until("a running command counts as use", || async {
        daemon.client.get(&id).await.unwrap().running_commands == 1
    })
    .await;
    let refused = program(&daemon, &["park", id.as_str()]).await;
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0), "{refused:?}");
    stdout_of(&daemon, &["park", "--force", id.as_str()]).await;
    assert_eq!(daemon.client.get(&id).await.unwrap().state, SandboxState::Parked);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prune_deletes_old_parked_sandboxes_after_confirmation() {
    let daemon = Daemon::start().await;
    assert!(stdout_of(&daemon, &["prune"]).await.contains("no parked sandbox"));
    let (running, parked) = (daemon.sandbox("chat:running").await, daemon.sandbox("chat:parked").await);
    daemon.client.park(&parked, false).await.unwrap();
    let unasked = program(&daemon, &["prune"]).await;
    let words = String::from_utf8_lossy(&unasked.stderr).into_owned();
    assert!(
        unasked.status.code() == Some(1) && words.contains("--yes") && words.contains("1 parked"),
        "{words}"
    );
    assert!(stdout_of(&daemon, &["prune", "--dry-run"]).await.contains(parked.as_str()));
    assert!(
        stdout_of(&daemon, &["prune", "--yes", "--older-than", "12h"]).await.contains("no parked sandbox")
    );
    assert_eq!(daemon.client.get(&parked).await.unwrap().state, SandboxState::Parked);
    assert_eq!(stdout_of(&daemon, &["prune", "--yes"]).await, format!("{parked}: deleted\n"));
    assert!(daemon.client.get(&parked).await.is_err());
    assert_eq!(daemon.client.get(&running).await.unwrap().state, SandboxState::Running);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prune_keeps_sandboxes_used_while_it_waited_for_confirmation() {
    let daemon = Daemon::start().await;
    let (back, used, idle) = (
        daemon.sandbox("chat:back").await,
        daemon.sandbox("chat:used").await,
        daemon.sandbox("chat:idle").await,
    );
    daemon.output(&back, "echo kept > file").await;
    for id in [&back, &used, &idle] {
        daemon.client.park(id, false).await.unwrap();
    }
    let mut prune = at_a_terminal(&daemon, &["prune", "--url", &daemon.base]);
    let question = shown(&mut prune, "[y/N]").await;
    assert!(question.contains("3 parked sandboxes"), "{question}");
    daemon.client.touch(&back, None).await.unwrap();
    // This one is parked again, after its files changed.
    daemon.output(&used, "echo new > file").await;
    daemon.client.park(&used, false).await.unwrap();
    prune.stdin.as_mut().unwrap().write_all(b"y\n").await.unwrap();
    let output = timeout(SOON, prune.wait_with_output()).await.expect("it does not end").unwrap();
    let reported = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(reported.contains(&format!("{idle}: deleted")), "{reported}");
    for spared in [&back, &used] {
        assert!(reported.contains(&format!("{spared}: in use again")), "{reported}");
    }
    assert_eq!(output.status.code(), Some(0), "{reported}");
    assert!(daemon.client.get(&idle).await.is_err());
    assert_eq!(daemon.client.get(&back).await.unwrap().state, SandboxState::Running);
    assert_eq!(daemon.output(&back, "cat file").await, "kept\n");
    assert_eq!(daemon.output(&used, "cat file").await, "new\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_for_parked_sandboxes_keeps_sandboxes_in_use() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let id = daemon.sandbox("chat:1").await;
    daemon.output(&id, "echo kept > file").await;
    let delete =
        async |query: &str| Answer::to(api.with_token("DELETE", &format!("/v1/sandboxes/{id}{query}"))).await;
    delete("?ifState=parked").await.refused(ErrorCode::WrongState, "it runs");
    for odd in ["running", "", "Parked"] {
        delete(&format!("?ifState={odd}")).await.faults("ifState", odd);
    }
    assert_eq!(daemon.client.get(&id).await.unwrap().state, SandboxState::Running);
    assert_eq!(daemon.output(&id, "cat file").await, "kept\n");
    // The engine reports the container's end a moment later, and then the daemon inspects the sandbox.
    for round in 0..5 {
        let id = daemon.sandbox(&format!("tmp:{round}")).await;
        daemon.client.park(&id, false).await.unwrap();
        daemon.client.delete_if_parked(&id).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    daemon.client.park(&id, false).await.unwrap();
    assert_eq!(delete("?ifState=parked").await.status, 200);
    assert!(daemon.client.get(&id).await.is_err());
    assert_eq!(delete("?ifState=parked").await.status, 200, "nothing is left");
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_name_does_not_stop_the_others() {
    let daemon = Daemon::start().await;
    let (one, two) = (daemon.sandbox("chat:one").await, daemon.sandbox("chat:two").await);
    let parked = program(&daemon, &["park", "chat:one", "a\tb", "chat:two"]).await;
    let words = String::from_utf8_lossy(&parked.stderr).into_owned();
    assert_eq!(parked.status.code(), Some(1), "{words}");
    assert_eq!(String::from_utf8_lossy(&parked.stdout), "chat:one: parked\nchat:two: parked\n");
    assert!(words.starts_with("sandboxd: a\\u{9}b: ") && words.contains("sessionKey"), "{words}");
    for id in [&one, &two] {
        assert_eq!(daemon.client.get(id).await.unwrap().state, SandboxState::Parked);
    }
    let stopped = program(&daemon, &["stop", "chat:one", "a\tb", "chat:two", "--json"]).await;
    assert_eq!(stopped.status.code(), Some(1));
    let reported: Value = serde_json::from_slice(&stopped.stdout).unwrap();
    let results = reported["results"].as_array().unwrap();
    let ok: Vec<_> = results.iter().map(|result| result["ok"] == true).collect();
    assert_eq!(ok, [true, false, true], "{reported}");
    assert!(results[1]["error"].as_str().unwrap().contains("sessionKey"), "{reported}");
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_never_responds_is_reported_after_a_timeout() {
    let home = Home::new();
    // The kernel accepts the connection, and no program reads.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", mute.local_addr().unwrap());
    let ended = async |args: &[&str]| {
        let output = home.program(&[args, &["--url", &url]].concat()).output();
        let output = timeout(SOON, output).await.unwrap_or_else(|_| panic!("{args:?} does not time out"));
        let output = output.unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {words}");
        assert!(words.contains(&url) && words.contains("does not answer"), "{args:?}: {words}");
    };
    tokio::join!(
        ended(&["ps"]),
        ended(&["stop", "chat:1"]),
        ended(&["park", "chat:1"]),
        ended(&["prune", "--yes"]),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_reported_with_an_exit_code() {
    let home = Home::new();
    let url = format!("http://127.0.0.1:{}", free_port());
    for args in [&["ps"][..], &["stop", "chat:1"], &["park", "chat:1"], &["prune", "--yes"]] {
        let output = home.program(&[args, &["--url", &url]].concat()).output().await.unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {words}");
        assert!(words.contains("sandboxd serve"), "{args:?}: {words}");
    }
    for args in [&["stop"][..], &["prune", "--older-than", "12"], &["ps", "--state", "odd"]] {
        assert_eq!(home.program(args).output().await.unwrap().status.code(), Some(2), "{args:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = home.program(&["completions", shell]).output().await.unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && script.contains("prune") && script.contains("older-than"),
            "{shell}"
        );
    }
}
