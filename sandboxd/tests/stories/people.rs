//! `sandboxd ps`, `stop`, `park` and `prune`: the program people type, as a process of its own.

use std::process::Output;

use sandbox_api::sandbox::{CreateSandbox, SandboxState};
use serde_json::Value;

use crate::engine_view::objects_of;
use crate::harness::{Daemon, Home, free_port, until};

async fn people(daemon: &Daemon, args: &[&str]) -> Output {
    let url = ["--url", &daemon.base];
    daemon.home.program(&[args, &url].concat()).output().await.unwrap()
}

/// Standard output of a command that succeeds.
async fn told(daemon: &Daemon, args: &[&str]) -> String {
    let output = people(daemon, args).await;
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

async fn json(daemon: &Daemon, args: &[&str]) -> Value {
    serde_json::from_slice(&people(daemon, &[args, &["--json"]].concat()).await.stdout).unwrap()
}

fn line_of<'a>(table: &'a str, id: &str) -> &'a str {
    table.lines().find(|line| line.starts_with(id)).unwrap_or_else(|| panic!("no {id} in {table}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn ps_lists_what_there_is_and_what_it_takes() {
    let daemon = Daemon::start().await;
    assert_eq!(told(&daemon, &["ps"]).await.lines().count(), 1, "the heading alone");
    let (one, two) = (daemon.sandbox("chat:one").await, daemon.sandbox("tmp:two").await);
    daemon.client.park(&two, false).await.unwrap();
    let table = told(&daemon, &["ps"]).await;
    assert!(line_of(&table, "ID").contains("SESSION") && table.lines().count() == 3, "{table}");
    let line = line_of(&table, one.as_str());
    assert!(["chat:one", "running", "iB"].iter().all(|word| line.contains(word)), "{line}");
    let line = line_of(&table, two.as_str());
    assert!(["tmp:two", "parked", " - "].iter().all(|word| line.contains(word)), "{line}");
    let parked = told(&daemon, &["ps", "--state", "parked"]).await;
    assert!(parked.contains(two.as_str()) && !parked.contains(one.as_str()), "{parked}");
    let listed = json(&daemon, &["ps", "--state", "running"]).await;
    assert_eq!(listed["sandboxes"][0]["sandboxId"], one.as_str());
    assert!(listed["sandboxes"][0]["usage"]["memoryBytes"].as_u64().is_some_and(|bytes| bytes > 0));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_key_cannot_command_the_terminal() {
    let daemon = Daemon::start().await;
    // Control characters are refused at the door; marks that turn the writing around are letters to it.
    let session_key = format!("chat:\u{202e}txt.exe\u{200b}{}", "long ".repeat(60));
    let wish = CreateSandbox { session_key: session_key.clone(), ..CreateSandbox::default() };
    let id = daemon.client.create_or_reconnect(&wish).await.unwrap().sandbox_id;
    let table = told(&daemon, &["ps"]).await;
    assert!(line_of(&table, id.as_str()).chars().count() < 200, "{table}");
    let stopped = told(&daemon, &["stop", &session_key]).await;
    for text in [table, stopped] {
        assert!(!text.contains(['\u{202e}', '\u{200b}']) && text.contains("\\u{202e}txt.exe"), "{text}");
    }
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_and_park_take_an_id_or_a_session_and_say_what_became_of_each() {
    let daemon = Daemon::start().await;
    let (one, two) = (daemon.sandbox("chat:one").await, daemon.sandbox("chat:two").await);
    daemon.output(&two, "echo kept > file").await;
    told(&daemon, &["park", "chat:two"]).await;
    assert_eq!(daemon.client.get(&two).await.unwrap().state, SandboxState::Parked);
    assert_eq!(daemon.output(&two, "cat file").await, "kept\n");

    let output = people(&daemon, &["stop", one.as_str(), "chat:nobody"]).await;
    assert_eq!(output.status.code(), Some(1), "one of them was not there");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{one}: deleted\n"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("chat:nobody: there is no such sandbox"));
    assert!(daemon.client.get(&one).await.is_err());
    let results = json(&daemon, &["stop", "chat:two", "sbx_0000000000000000"]).await;
    assert_eq!((&results["results"][0]["ok"], &results["results"][1]["ok"]), (&true.into(), &false.into()));
    assert_eq!(results["results"][0]["sandboxId"], two.as_str());
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_in_use_is_parked_by_force_alone() {
    let daemon = Daemon::start().await;
    let id = daemon.sandbox("chat:busy").await;
    daemon.client.start(&id, &crate::harness::script("exec sleep 60")).await.unwrap();
    until("the command counts", || async { daemon.client.get(&id).await.unwrap().running_commands == 1 })
        .await;
    let refused = people(&daemon, &["park", id.as_str()]).await;
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0), "{refused:?}");
    told(&daemon, &["park", "--force", id.as_str()]).await;
    assert_eq!(daemon.client.get(&id).await.unwrap().state, SandboxState::Parked);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prune_deletes_what_is_parked_and_old_and_nothing_unasked() {
    let daemon = Daemon::start().await;
    assert!(told(&daemon, &["prune"]).await.contains("no parked sandbox"));
    let (running, parked) = (daemon.sandbox("chat:running").await, daemon.sandbox("chat:parked").await);
    daemon.client.park(&parked, false).await.unwrap();
    let unasked = people(&daemon, &["prune"]).await;
    let words = String::from_utf8_lossy(&unasked.stderr).into_owned();
    assert!(
        unasked.status.code() == Some(1) && words.contains("--yes") && words.contains("1 parked"),
        "{words}"
    );
    assert!(told(&daemon, &["prune", "--dry-run"]).await.contains(parked.as_str()));
    assert!(told(&daemon, &["prune", "--yes", "--older-than", "12h"]).await.contains("no parked sandbox"));
    assert_eq!(daemon.client.get(&parked).await.unwrap().state, SandboxState::Parked);
    assert_eq!(told(&daemon, &["prune", "--yes"]).await, format!("{parked}: deleted\n"));
    assert!(daemon.client.get(&parked).await.is_err());
    assert_eq!(daemon.client.get(&running).await.unwrap().state, SandboxState::Running);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_told_with_an_exit_code() {
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
