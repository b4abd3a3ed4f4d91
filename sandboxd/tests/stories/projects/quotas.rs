//! The quotas of projects: each refusal, and that parallel requests never use more.

use futures::future::join_all;
use sandbox_api::command::StartCommand;
use sandbox_api::network::DenialReason;
use sandbox_api::quota::Quotas;
use sandbox_api::sandbox::{CreateSandbox, Network, Resources, WorkspaceSource};
use sandbox_api::snapshot::MakeSnapshot;
use sandbox_api::{ErrorBody, ErrorCode, SandboxId};
use sandbox_client::{Client, Error};

use super::{client_of, token_of};
use crate::support::harness::{Daemon, script, until};
use crate::support::http::{Answer, HttpClient};

async fn set(daemon: &Daemon, quotas: Quotas) {
    daemon.client.set_quotas("lab", &quotas).await.unwrap();
}

fn request(key: &str) -> CreateSandbox {
    CreateSandbox { session_key: key.into(), ..CreateSandbox::default() }
}

async fn create(client: &Client, key: &str) -> Result<SandboxId, Error> {
    client.create_or_reconnect(&request(key)).await.map(|created| created.sandbox_id)
}

/// Code, quota and its value in an error.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> (ErrorCode, String, u64) {
    let error = result.expect_err("the request is refused");
    let Some(ErrorBody { code, details, .. }) = error.body() else { panic!("no refusal: {error:?}") };
    let quota = details.get("quota").and_then(|quota| quota.as_str()).unwrap_or_default().to_owned();
    (*code, quota, details.get("value").and_then(|value| value.as_u64()).unwrap_or_default())
}

fn reached(quota: &str, value: u64) -> (ErrorCode, String, u64) {
    (ErrorCode::CapacityExhausted, quota.into(), value)
}

fn too_much(quota: &str, value: u64) -> (ErrorCode, String, u64) {
    (ErrorCode::Refused, quota.into(), value)
}

async fn used(client: &Client, quota: &str) -> u64 {
    let usage = client.project_usage("lab").await.unwrap();
    usage.now.into_iter().find(|found| found.quota == quota).unwrap().used
}

fn detached(text: &str) -> StartCommand {
    StartCommand { detached: Some(true), ..script(text) }
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_of_sandboxes_are_limited_together() {
    let daemon = Daemon::start().await;
    let lab = client_of(&daemon, "lab", None, &["use", "manage"]).await;
    let sized = |key: &str| CreateSandbox {
        resources: Some(Resources {
            vcpus: Some(1),
            memory_mb: Some(512),
            disk_mb: Some(128),
            ..Resources::default()
        }),
        ..request(key)
    };
    let first = lab.create_or_reconnect(&sized("chat:1")).await.unwrap().sandbox_id;
    // In use, so that it is not parked for another one.
    let command = lab.start(&first, &script("sleep 300")).await.unwrap().command_id;
    let limits = [
        ("sandboxes", Quotas { sandboxes: Some(1), ..Quotas::default() }, 1, 0),
        ("runningSandboxes", Quotas { running_sandboxes: Some(1), ..Quotas::default() }, 1, 0),
        ("memoryMb", Quotas { memory_mb: Some(1000), ..Quotas::default() }, 1000, 100),
        ("vcpus", Quotas { vcpus: Some(1), ..Quotas::default() }, 1, 0),
        ("diskMb", Quotas { disk_mb: Some(200), ..Quotas::default() }, 200, 100),
    ];
    for (name, quotas, value, too_small) in limits {
        set(&daemon, quotas.clone()).await;
        let second = lab.create_or_reconnect(&sized("chat:2")).await;
        assert_eq!(refused(second), reached(name, value), "{name}");
        // If one sandbox needs more, a retry does not help.
        let mut json = serde_json::to_value(&quotas).unwrap();
        json[name] = too_small.into();
        set(&daemon, serde_json::from_value(json).unwrap()).await;
        let second = lab.create_or_reconnect(&sized("chat:2")).await;
        assert_eq!(refused(second), too_much(name, too_small), "{name}");
        assert_eq!(used(&lab, "sandboxes").await, 1, "a refused create leaves nothing: {name}");
    }
    // The quotas of one project are none of another's.
    daemon.sandbox("chat:2").await;
    // Without quotas, and without an idle sandbox to park.
    set(&daemon, Quotas::default()).await;
    lab.create_or_reconnect(&sized("chat:2")).await.unwrap();
    let used_now = ["sandboxes", "runningSandboxes", "memoryMb", "vcpus", "diskMb"];
    let found = join_all(used_now.map(|quota| used(&lab, quota))).await;
    assert_eq!(found, [2, 2, 1024, 2, 256]);
    lab.kill(&first, &command, &Default::default()).await.unwrap();
    lab.park(&first, false).await.unwrap();
    assert_eq!((used(&lab, "runningSandboxes").await, used(&lab, "diskMb").await), (1, 256));
    lab.delete(&first).await.unwrap();
    assert_eq!(used(&lab, "diskMb").await, 128);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_links_and_snapshots_are_limited() {
    let daemon = Daemon::start().await;
    let lab = client_of(&daemon, "lab", None, &["use", "manage"]).await;
    let with_port = CreateSandbox { ports: Some(vec![3000]), ..request("chat:1") };
    let sandbox = lab.create_or_reconnect(&with_port).await.unwrap().sandbox_id;
    set(
        &daemon,
        Quotas {
            commands: Some(2),
            links: Some(1),
            snapshot_bytes: Some(1 << 20),
            command_timeout_ms: Some(2_000),
            ..Quotas::default()
        },
    )
    .await;

    let sleeper = detached("sleep 1.5");
    let started = join_all((0..8).map(|_| lab.start(&sandbox, &sleeper))).await;
    let (ran, others): (Vec<_>, Vec<_>) = started.into_iter().partition(Result::is_ok);
    assert_eq!(ran.len(), 2, "{ran:?}");
    for other in others {
        assert_eq!(refused(other), reached("commands", 2));
    }
    until("the commands have ended", async || used(&lab, "commands").await == 0).await;
    // A repeated request is the same command, so it is not counted twice.
    let long =
        StartCommand { command_id: Some("cmd_00000000000000aa".parse().unwrap()), ..script("sleep 300") };
    let long = StartCommand { detached: Some(true), timeout_ms: Some(60_000), ..long };
    for _ in 0..3 {
        lab.start(&sandbox, &long).await.unwrap();
    }
    assert_eq!(used(&lab, "commands").await, 1);
    let ended = lab.wait(&sandbox, &"cmd_00000000000000aa".parse().unwrap(), None).await.unwrap();
    assert!(ended.duration_ms < 30_000, "the time limit is the project's: {ended:?}");

    let link = lab.create_link(&sandbox, 3000, &Default::default()).await.unwrap();
    assert_eq!(refused(lab.create_link(&sandbox, 3000, &Default::default()).await), reached("links", 1));
    lab.revoke_link(&sandbox, 3000, &link.link_id).await.unwrap();
    lab.create_link(&sandbox, 3000, &Default::default()).await.unwrap();

    lab.make_snapshot(&sandbox, &MakeSnapshot::default()).await.unwrap();
    run(&lab, &sandbox, "head -c 3M /dev/urandom > file").await;
    let large = lab.make_snapshot(&sandbox, &MakeSnapshot::default()).await;
    assert_eq!(refused(large).1, "snapshotBytes");
    let listed = lab.snapshots(&sandbox, Default::default()).await.unwrap().snapshots;
    assert_eq!(listed.len(), 1, "{listed:?}");
    run(&lab, &sandbox, "rm file; echo small > small").await;
    let second = lab.make_snapshot(&sandbox, &MakeSnapshot::default()).await.unwrap().snapshot;
    let before = used(&lab, "snapshotBytes").await;
    assert!(before > 0 && before <= 1 << 20, "{before}");
    for snapshot in [&second.snapshot_id, &listed[0].snapshot_id] {
        lab.delete_snapshot(snapshot).await.unwrap();
    }
    assert_eq!(used(&lab, "snapshotBytes").await, 0);
    daemon.stop().await;
}

/// Sandboxes of a project share the files of a large snapshot, which count once. Beyond the quota, each gets a copy.
#[tokio::test(flavor = "multi_thread")]
async fn bases_are_charged_once_for_all_sandboxes_of_a_project() {
    let daemon = Daemon::start().await;
    let token = token_of(&daemon, "lab", None, &["use", "manage"]).await.token;
    let lab = Client::new(&daemon.base, &token).unwrap();
    let original = lab.create_or_reconnect(&request("chat:1")).await.unwrap().sandbox_id;
    run(&lab, &original, "mkdir many; for i in $(seq 1200); do echo $i > many/$i; done").await;
    let snapshot = lab.make_snapshot(&original, &MakeSnapshot::default()).await.unwrap().snapshot.snapshot_id;
    let copy = async |key: &str| {
        let workspace = Some(WorkspaceSource::snapshot(snapshot.clone()));
        let created = lab.create_or_reconnect(&CreateSandbox { workspace, ..request(key) }).await.unwrap();
        run(&lab, &created.sandbox_id, "test $(cat many/* | wc -l) = 1200").await;
        let posture = lab.get(&created.sandbox_id).await.unwrap().posture.unwrap();
        (created.sandbox_id, posture.base.is_some())
    };
    let quota = |bytes| Quotas { base_bytes: Some(bytes), ..Quotas::default() };

    set(&daemon, quota(1000)).await;
    assert!(!copy("chat:2").await.1, "the base is larger");
    assert_eq!(used(&lab, "baseBytes").await, 0);
    set(&daemon, quota(1 << 20)).await;
    let (first, is_over_base) = copy("chat:3").await;
    assert!(is_over_base);
    let charged = used(&lab, "baseBytes").await;
    assert!((1000..1 << 20).contains(&charged), "{charged}");
    set(&daemon, quota(charged)).await;
    let (second, is_over_base) = copy("chat:4").await;
    assert!(is_over_base, "it adds nothing");
    assert_eq!(used(&lab, "baseBytes").await, charged);

    let daemon = Daemon::start_in(daemon.stop().await).await;
    let lab = Client::new(&daemon.base, &token).unwrap();
    assert_eq!(used(&lab, "baseBytes").await, charged);
    lab.delete(&first).await.unwrap();
    assert_eq!(used(&lab, "baseBytes").await, charged);
    lab.delete(&second).await.unwrap();
    assert_eq!(used(&lab, "baseBytes").await, 0);
    daemon.stop().await;
}

async fn run(client: &Client, sandbox: &SandboxId, text: &str) {
    let ended = client.start(sandbox, &script(text)).await.unwrap();
    let ended = client.wait(sandbox, &ended.command_id, None).await.unwrap();
    assert_eq!(ended.exit_code, 0, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn images_and_network_modes_are_limited_for_new_and_changed_sandboxes() {
    let daemon = Daemon::start().await;
    let lab = client_of(&daemon, "lab", None, &["use", "manage"]).await;
    let sandbox = create(&lab, "chat:1").await.unwrap();
    set(&daemon, Quotas { images: Some(vec!["other:1".into()]), ..Quotas::default() }).await;
    assert_eq!(refused(create(&lab, "chat:2").await).1, "images");
    assert_eq!(create(&lab, "chat:1").await.unwrap(), sandbox, "what exists stays usable");

    set(&daemon, Quotas { network_modes: Some(vec!["none".into()]), ..Quotas::default() }).await;
    assert_eq!(refused(create(&lab, "chat:2").await).1, "networkModes");
    let network = |mode: &str| Network { mode: Some(mode.into()), ..Network::default() };
    let none = CreateSandbox { network: Some(network("none")), ..request("chat:2") };
    lab.create_or_reconnect(&none).await.unwrap();
    lab.change_network(&sandbox, &network("none")).await.unwrap();
    assert_eq!(refused(lab.change_network(&sandbox, &network("default")).await).1, "networkModes");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_bytes_left_for_today_connections_are_denied() {
    let daemon = Daemon::start().await;
    let lab = client_of(&daemon, "lab", None, &["use", "manage"]).await;
    let sandbox = create(&lab, "chat:1").await.unwrap();
    set(&daemon, Quotas { egress_bytes_per_day: Some(0), ..Quotas::default() }).await;
    let curl = "curl -s --max-time 20 http://example.com/ || true";
    run(&lab, &sandbox, curl).await;
    let denials = lab.denials(&sandbox).await.unwrap().denials;
    assert!(denials.len() == 1 && denials[0].reason == DenialReason::Limit, "{denials:?}");
    // The quota of one project is that of no other.
    let other = daemon.sandbox("chat:1").await;
    daemon.output(&other, "curl -s --max-time 20 http://no-such-name.invalid/ || true").await;
    let denials = daemon.client.denials(&other).await.unwrap().denials;
    assert!(denials.iter().all(|denial| denial.reason != DenialReason::Limit), "{denials:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_creates_never_use_more_than_the_quota() {
    let daemon = Daemon::start().await;
    let lab = client_of(&daemon, "lab", None, &["use", "manage"]).await;
    set(&daemon, Quotas { sandboxes: Some(3), running_sandboxes: Some(2), ..Quotas::default() }).await;
    let keys: Vec<String> = (0..12).map(|number| format!("chat:{number}")).collect();
    let created = join_all(keys.iter().map(|key| create(&lab, key))).await;
    let created: Vec<_> = created.into_iter().filter_map(Result::ok).collect();
    assert!((2..=3).contains(&created.len()), "{created:?}");
    assert!(used(&lab, "sandboxes").await <= 3 && used(&lab, "runningSandboxes").await <= 2);
    for sandbox in &created {
        lab.delete(sandbox).await.unwrap();
    }
    for quota in ["sandboxes", "runningSandboxes", "memoryMb", "vcpus", "diskMb", "commands"] {
        until("everything is given back", async || used(&lab, quota).await == 0).await;
    }
    let today = daemon.client.project_usage("lab").await.unwrap().days;
    assert!(today.len() == 1 && today[0].peak_running == 2 && today[0].running_ms > 0, "{today:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_operator_sets_quotas_and_bad_ones_are_named() {
    let daemon = Daemon::start().await;
    let manager = client_of(&daemon, "lab", None, &["use", "manage"]).await;
    let quotas = Quotas { commands: Some(3), ..Quotas::default() };
    let refused = manager.set_quotas("lab", &quotas).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::Forbidden));
    set(&daemon, quotas.clone()).await;
    assert_eq!(manager.project("lab").await.unwrap().quotas, quotas);
    let bad = [
        (serde_json::json!({ "commands": -1 }), "quotas.commands"),
        (serde_json::json!({ "commandTimeoutMs": 1 }), "quotas.commandTimeoutMs"),
        (serde_json::json!({ "networkModes": ["wide"] }), "quotas.networkModes"),
        (serde_json::json!({ "guaranteedRunning": 9 }), "quotas.guaranteedRunning"),
    ];
    let api = HttpClient::of(&daemon);
    for (quotas, field) in bad {
        let body = serde_json::json!({ "quotas": quotas });
        let answer = Answer::to(api.with_token("PUT", "/v1/projects/lab").json(&body)).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status == 400 && text.contains(field), "{field}: {text}");
    }
    let user = client_of(&daemon, "lab", None, &["use", "manage"]).await;
    let sandbox = create(&user, "chat:1").await.unwrap();
    run(&user, &sandbox, "true").await;
    let home = daemon.stop().await;
    let daemon = Daemon::start_in(home).await;
    let today = &daemon.client.project_usage("lab").await.unwrap().days[0];
    assert!(today.commands == 1 && today.peak_running == 1 && today.running_ms > 0, "{today:?}");
    assert_eq!(daemon.client.project("lab").await.unwrap().quotas, quotas, "kept over a restart");
    daemon.stop().await;
}
