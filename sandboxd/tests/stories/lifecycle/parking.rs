//! Idle sandboxes: parking, waking, deletion, and activity that prevents parking.

use std::time::Duration;

use sandbox_api::ErrorCode;
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, SandboxState};

use crate::support::harness::{Daemon, Home, over_each_transport, script, until};

over_each_transport!(a_parked_sandbox_wakes_with_the_same_id_and_files,);

async fn a_parked_sandbox_wakes_with_the_same_id_and_files(daemon: &Daemon) {
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    daemon.output(&sandbox, "echo kept > file; mkdir -p $TMPDIR; echo cached > $TMPDIR/../cached").await;
    daemon.client.park(&sandbox, false).await.unwrap();
    let parked = daemon.client.get(&sandbox).await.unwrap();
    assert_eq!((parked.state, parked.usage), (SandboxState::Parked, None));
    assert!(parked.expires_at.is_some());
    // Parking again succeeds.
    daemon.client.park(&sandbox, false).await.unwrap();

    assert_eq!(daemon.output(&sandbox, "cat file $TMPDIR/../cached").await, "kept\ncached\n");
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().state, SandboxState::Running);
    daemon.client.park(&sandbox, false).await.unwrap();
    let again = daemon.client.create_or_reconnect(&request).await.unwrap();
    assert_eq!((&again.sandbox_id, again.created, again.woken), (&sandbox, false, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_command_prevents_parking() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_MAX_CONCURRENT", "1")).await;
    let sandbox = daemon.sandbox("chat:1").await;
    let command = daemon.client.start(&sandbox, &script("sleep 300")).await.unwrap().command_id;
    let seen = daemon.client.get(&sandbox).await.unwrap();
    assert_eq!((seen.running_commands, seen.expires_at), (1, None));
    let refused = daemon.client.park(&sandbox, false).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::WrongState));
    let request = CreateSandbox { session_key: "chat:2".into(), ..CreateSandbox::default() };
    let refused = daemon.client.create_or_reconnect(&request).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted));

    daemon.client.kill(&sandbox, &command, &Default::default()).await.unwrap();
    until("the idle sandbox is parked", || async {
        daemon.client.create_or_reconnect(&request).await.is_ok()
    })
    .await;
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().state, SandboxState::Parked);
    // The other way round: each wake parks the other sandbox.
    assert_eq!(daemon.output(&sandbox, "echo back").await, "back\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_can_be_parked_as_soon_as_its_last_command_has_ended() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for _ in 0..6 {
        let mut commands = Vec::new();
        for _ in 0..8 {
            commands.push(daemon.client.start(&sandbox, &script("exit 3")).await.unwrap().command_id);
        }
        for command in &commands {
            daemon.client.wait(&sandbox, command, None).await.unwrap();
        }
        daemon.client.park(&sandbox, false).await.unwrap();
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn force_parks_a_sandbox_with_a_running_command() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let command = daemon.client.start(&sandbox, &script("sleep 300")).await.unwrap().command_id;
    daemon.client.park(&sandbox, true).await.unwrap();
    let listed = daemon.client.commands(&sandbox, 10).await.unwrap().commands;
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (&listed[0].command_id, listed[0].reason),
        (&command, Some(sandbox_api::command::EndReason::Lost))
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_sandbox_is_parked_and_an_old_workspace_deleted() {
    let home = Home::new().set("SANDBOXD_WORKSPACE_RETENTION_MS", "3000");
    let daemon = Daemon::start_in(home).await;
    let request =
        CreateSandbox { session_key: "chat:1".into(), idle_ttl_ms: Some(10_000), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    daemon.client.touch(&sandbox, Some(11_000)).await.unwrap();
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().idle_ttl_ms, 11_000);
    until("it is parked", || async {
        daemon.client.get(&sandbox).await.unwrap().state == SandboxState::Parked
    })
    .await;
    until("it is gone", || async {
        daemon.client.get(&sandbox).await.is_err_and(|error| error.code() == Some(ErrorCode::NotFound))
    })
    .await;
    assert!(daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes.is_empty());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_sandboxes_outlive_the_daemon_and_its_database() {
    let daemon = Daemon::start().await;
    let (one, two) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    daemon.output(&one, "echo one > file").await;
    daemon.output(&two, "echo two > file").await;
    daemon.client.park(&one, false).await.unwrap();
    let home = daemon.stop().await;

    let daemon = Daemon::start_in(home).await;
    let states = states_of(&daemon).await;
    assert_eq!(states, [("chat:1".into(), SandboxState::Parked), ("chat:2".into(), SandboxState::Running)]);
    let home = daemon.stop().await;
    for name in ["sandboxd.db", "sandboxd.db-wal", "sandboxd.db-shm"] {
        let _ = std::fs::remove_file(home.path().join("state").join(name));
    }

    let daemon = Daemon::start_in(home).await;
    let states = states_of(&daemon).await;
    assert_eq!(states, [("chat:1".into(), SandboxState::Parked), ("chat:2".into(), SandboxState::Running)]);
    assert_eq!(daemon.output(&one, "cat file").await, "one\n");
    assert_eq!(daemon.output(&two, "cat file").await, "two\n");
    daemon.client.delete(&one).await.unwrap();
    daemon.client.delete(&two).await.unwrap();
    daemon.stop().await;
}

async fn states_of(daemon: &Daemon) -> Vec<(String, SandboxState)> {
    let listed = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    let mut states: Vec<_> = listed.into_iter().map(|sandbox| (sandbox.session_key, sandbox.state)).collect();
    states.sort_by(|(a, _), (b, _)| a.cmp(b));
    states
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_on_ten_sessions_leave_them_intact() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_MAX_CONCURRENT", "6")).await;
    let mut hands = Vec::new();
    for hand in 0..20_u64 {
        let client = daemon.client.clone();
        hands.push(tokio::spawn(async move {
            for turn in 0..5_u64 {
                let key = format!("chat:{}", (hand * 7 + turn * 3) % 10);
                let request = CreateSandbox { session_key: key, ..CreateSandbox::default() };
                let Ok(made) = client.create_or_reconnect(&request).await else { continue };
                let id = made.sandbox_id;
                // Any of these may meet a sandbox that another client just deleted. None may hang or answer 500.
                let done = match (hand + turn) % 4 {
                    0 => client.park(&id, true).await.map(drop),
                    1 => client.delete(&id).await.map(drop),
                    2 => client.start(&id, &script("echo x >> file")).await.map(drop),
                    _ => client.touch(&id, None).await.map(drop),
                };
                if let Err(error) = done {
                    assert_ne!(error.code(), Some(ErrorCode::Internal), "{error:?}");
                }
            }
        }));
    }
    for hand in hands {
        tokio::time::timeout(Duration::from_secs(120), hand).await.unwrap().unwrap();
    }
    let listed = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    let keys: std::collections::HashSet<_> = listed.iter().map(|sandbox| &sandbox.session_key).collect();
    assert_eq!(keys.len(), listed.len(), "one session, one sandbox");
    assert!(listed.iter().filter(|sandbox| sandbox.state == SandboxState::Running).count() <= 6);
    for sandbox in listed {
        daemon.client.delete(&sandbox.sandbox_id).await.unwrap();
    }
    assert_eq!(crate::support::engine_view::objects_of(&daemon.home).await, Vec::<String>::new());
    daemon.stop().await;
}
