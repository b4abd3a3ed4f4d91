//! Faults of the engine, the image, volumes and the clock while a daemon runs.

use std::path::Path;
use std::time::{Duration, Instant};

use bollard::query_parameters::{
    KillContainerOptions, RemoveImageOptions, RemoveVolumeOptions, TagImageOptions,
};
use futures::StreamExt;
use sandbox_api::command::{EndReason, Record};
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error};
use sandboxd::model::layout::{container_name, volume_name};
use sandboxd::model::limits;

use crate::support::engine_proxy::{EngineProxy, Fault};
use crate::support::engine_view::objects_of;
use crate::support::harness::{
    Collected, Daemon, DaemonProcess, Home, docker, free_port, outcome, script, skipped_under_gvisor, until,
};
use crate::support::private_engine::OwnEngine;

/// Time that a response may take beyond the deadline of its engine call on a busy machine.
const A_LITTLE: Duration = Duration::from_secs(10);

async fn behind(proxy: &EngineProxy) -> Daemon {
    behind_with(proxy, Home::new()).await
}

async fn behind_with(proxy: &EngineProxy, home: Home) -> Daemon {
    Daemon::start_in(home.set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy())).await
}

async fn create(client: &Client, key: &str) -> Result<SandboxId, Error> {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    Ok(client.create_or_reconnect(&request).await?.sandbox_id)
}

async fn state(daemon: &Daemon, sandbox: &SandboxId) -> Option<SandboxState> {
    let listed = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    listed.into_iter().find(|found| found.sandbox_id == *sandbox).map(|found| found.state)
}

/// Checks that the answer is a 503 within the time.
async fn unavailable<T: std::fmt::Debug>(
    what: &str,
    within: Duration,
    answer: impl Future<Output = Result<T, Error>>,
) {
    let began = Instant::now();
    let error = match answer.await {
        Err(error) => error,
        Ok(answer) => panic!("{what} was answered: {answer:?}"),
    };
    assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{what}: {error:?}");
    // The error contains neither the engine's message nor its address.
    let reported = error.to_string();
    assert!(
        !reported.contains("broken") && !reported.contains(".sock") && !reported.contains("/tmp"),
        "{what}: {reported}"
    );
    assert!(began.elapsed() < within + A_LITTLE, "{what} took {:?}", began.elapsed());
}

/// Deletes all sandboxes. Nothing may remain.
async fn leave_nothing(daemon: Daemon) {
    for sandbox in daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes {
        daemon.client.delete(&sandbox.sandbox_id).await.unwrap();
    }
    until("nothing is left", || async { objects_of(&daemon.home).await.is_empty() }).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_hangs_fails_requests_in_time_and_does_not_affect_commands() {
    let proxy = EngineProxy::start();
    let daemon = behind(&proxy).await;
    let (one, two) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    daemon.client.park(&two, false).await.unwrap();
    let three = daemon.sandbox("chat:3").await;
    proxy.freeze();

    assert_eq!(daemon.output(&one, "echo on").await, "on\n");
    daemon.client.touch(&one, None).await.unwrap();
    let seen = tokio::time::timeout(A_LITTLE, daemon.client.get(&one)).await.unwrap().unwrap();
    assert_eq!((seen.state, seen.usage), (SandboxState::Running, None));
    let call = limits::ENGINE_CALL;
    tokio::join!(
        unavailable("health", limits::ENGINE_PING, daemon.client.health()),
        unavailable("ready", limits::ENGINE_PING, daemon.client.ready()),
        unavailable("create", call, create(&daemon.client, "chat:new")),
        unavailable("wake", call, daemon.client.touch(&two, None)),
        unavailable("delete", call, daemon.client.delete(&three)),
        async {
            // The second request is not delayed longer than the first.
            tokio::time::sleep(Duration::from_secs(1)).await;
            unavailable("create again", call, create(&daemon.client, "chat:new")).await;
        },
    );
    assert_eq!(daemon.output(&one, "echo still").await, "still\n");

    proxy.clear_faults();
    until("a new one can be created", || async { create(&daemon.client, "chat:new").await.is_ok() }).await;
    assert_eq!(daemon.output(&two, "echo woken").await, "woken\n");
    daemon.client.delete(&three).await.unwrap();
    leave_nothing(daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_hangs_does_not_delay_others() {
    let proxy = EngineProxy::start();
    let home = Home::new().set("SANDBOXD_MAX_CONCURRENT", "2");
    let daemon = behind_with(&proxy, home).await;
    let (stuck, other) = (daemon.sandbox("chat:stuck").await, daemon.sandbox("chat:other").await);
    daemon.output(&stuck, "echo kept > file").await;
    daemon.output(&other, "true").await;
    proxy.set(&container_name(&stuck), Fault::Hang);

    let park = daemon.client.park(&stuck, false);
    let others = async {
        let began = Instant::now();
        assert_eq!(daemon.output(&other, "echo on").await, "on\n");
        daemon.client.park(&other, false).await.unwrap();
        let third = create(&daemon.client, "chat:third").await.unwrap();
        daemon.client.delete(&third).await.unwrap();
        assert_eq!(daemon.output(&other, "echo woken").await, "woken\n");
        assert!(began.elapsed() < limits::ENGINE_CALL, "{:?}", began.elapsed());
    };
    tokio::join!(unavailable("park", limits::ENGINE_CALL, park), others);

    // The sandbox that hangs is the first to be parked for another one. That delays at most one create.
    let _ = create(&daemon.client, "chat:fourth").await;
    let began = Instant::now();
    create(&daemon.client, "chat:fourth").await.unwrap();
    assert!(began.elapsed() < limits::ENGINE_CALL, "{:?}", began.elapsed());

    proxy.clear_faults();
    until("it can be used", || async {
        let read = daemon.client.read_file(&stuck, "file").await;
        read.is_ok_and(|content| content.as_deref() == Some(b"kept\n"))
    })
    .await;
    leave_nothing(daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_fails_or_closes_connections_is_unavailable_and_recovers() {
    let proxy = EngineProxy::start();
    let daemon = behind(&proxy).await;
    let (one, two) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    daemon.client.park(&two, false).await.unwrap();
    for fault in [Fault::Fail, Fault::Cut] {
        proxy.set("/", fault);
        unavailable("health", limits::ENGINE_PING, daemon.client.health()).await;
        unavailable("create", A_LITTLE, create(&daemon.client, "chat:3")).await;
        unavailable("wake", A_LITTLE, daemon.client.touch(&two, None)).await;
        unavailable("park", A_LITTLE, daemon.client.park(&one, false)).await;
        assert_eq!(daemon.output(&one, "echo on").await, "on\n");
        proxy.clear_faults();
        let three = create(&daemon.client, "chat:3").await.unwrap();
        daemon.client.delete(&three).await.unwrap();
        assert_eq!(daemon.output(&two, "echo woken").await, "woken\n");
        daemon.client.park(&two, false).await.unwrap();
    }
    // Each step of a create fails once.
    for step in ["name=remcochat-sandbox-", "/start", "/json"] {
        proxy.set(step, Fault::Fail);
        unavailable(step, A_LITTLE, create(&daemon.client, "chat:3")).await;
        proxy.clear_faults();
        // The session's next create removes the leftovers, unless the reconciliation of every minute has done so.
        let three = create(&daemon.client, "chat:3").await.unwrap();
        daemon.client.delete(&three).await.unwrap();
        assert_eq!(objects_of(&daemon.home).await.len(), 3, "{step}");
    }
    leave_nothing(daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_error_is_not_reported_as_exhausted_capacity() {
    let proxy = EngineProxy::start();
    let daemon = behind_with(&proxy, Home::new().set("SANDBOXD_MAX_CONCURRENT", "2")).await;
    daemon.sandbox("chat:1").await;
    daemon.sandbox("chat:2").await;
    proxy.set("/", Fault::Fail);
    unavailable("create", A_LITTLE, create(&daemon.client, "chat:3")).await;
    proxy.clear_faults();
    until("there is room", || async { create(&daemon.client, "chat:3").await.is_ok() }).await;
    leave_nothing(daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_waits_for_a_slow_engine() {
    let proxy = EngineProxy::start();
    let daemon = behind(&proxy).await;
    proxy.set("remcochat-sandbox-", Fault::Delay(Duration::from_secs(2)));
    let sandbox = create(&daemon.client, "chat:1").await.unwrap();
    assert_eq!(daemon.output(&sandbox, "echo here").await, "here\n");
    proxy.clear_faults();
    leave_nothing(daemon).await;
}

/// A real engine is stopped and started, with its containers and without them.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_ends_at_its_start_fails_the_create_at_once() {
    let proxy = EngineProxy::start();
    let daemon = behind(&proxy).await;
    // The daemon accepts an agent only after it has inspected the container.
    proxy.set("/json", Fault::Delay(Duration::from_secs(2)));
    let client = daemon.client.clone();
    let create = tokio::spawn(async move { create(&client, "chat:1").await });
    let engine = docker().await;
    until("the container has been killed", || async {
        let names = objects_of(&daemon.home).await;
        let Some(container) = names.iter().find_map(|name| name.strip_prefix('/')) else { return false };
        engine.kill_container(container, None::<KillContainerOptions>).await.is_ok()
    })
    .await;
    let began = Instant::now();
    proxy.clear_faults();
    let failed = create.await.unwrap().unwrap_err();
    assert_eq!(failed.code(), Some(ErrorCode::Unavailable), "{failed}");
    assert!(began.elapsed() < limits::AGENT_FIRST_ANSWER / 2, "{:?}", began.elapsed());
    let again = daemon.sandbox("chat:1").await;
    assert_eq!(daemon.output(&again, "echo here").await, "here\n");
    leave_nothing(daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_survive_a_stop_and_start_of_the_engine() {
    if skipped_under_gvisor("the private engine does not know the runtime") {
        return;
    }
    let mut engine = OwnEngine::start(&Home::new().config().image);
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &engine.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    for live_restore in [true, false] {
        let sandbox = daemon.sandbox("chat:1").await;
        daemon.output(&sandbox, &format!("echo {live_restore} > file")).await;
        // An engine reads the option when it starts.
        engine.stop();
        engine.start_again(live_restore);
        until("the daemon is ready", || async { daemon.client.ready().await.is_ok() }).await;
        let counts = "for n in $(seq 100); do echo $n; sleep 0.05; done";
        let counts = daemon.client.run(&sandbox, &script(counts)).await.unwrap();

        engine.stop();
        unavailable("health", limits::ENGINE_PING, daemon.client.health()).await;
        unavailable("create", A_LITTLE, create(&daemon.client, "chat:2")).await;
        if live_restore {
            assert_eq!(daemon.output(&sandbox, "cat file").await, "true\n");
        }
        engine.start_again(live_restore);
        let counted = outcome(counts).await;
        if live_restore {
            assert_eq!((counted.reason, counted.text().lines().count()), (EndReason::Exited, 100));
        } else {
            assert_eq!(counted.reason, EndReason::Lost);
        }
        until("the daemon is ready", || async { daemon.client.ready().await.is_ok() }).await;
        assert_eq!(daemon.sandbox("chat:1").await, sandbox);
        assert_eq!(daemon.output(&sandbox, "cat file").await, format!("{live_restore}\n"));
        let another = create(&daemon.client, "chat:2").await.unwrap();
        assert_eq!(daemon.output(&another, "pwd").await, "/vercel/sandbox/workspace\n");
        // The engine's own count of mounts may be wrong now.
        for rest in ["once", "twice"] {
            daemon.client.park(&sandbox, false).await.unwrap();
            assert_eq!(
                daemon.output(&sandbox, "head -n 1 file").await,
                format!("{live_restore}\n"),
                "{rest}"
            );
            daemon.output(&sandbox, &format!("echo {rest} >> file; sync")).await;
        }
        daemon.client.delete(&another).await.unwrap();
        daemon.client.delete(&sandbox).await.unwrap();
    }
    // The next start of the engine corrects the count.
    engine.stop();
    engine.start_again(false);
    until("the daemon is ready", || async { daemon.client.ready().await.is_ok() }).await;
    let daemon = Daemon::start_in(daemon.stop().await).await;
    until("the volumes are swept", || async { engine.volumes_with("remcochat-sandbox-ws-").is_empty() })
        .await;
    daemon.stop().await;
}

/// With live-restore the containers keep running without their engine.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_restart_does_not_affect_commands() {
    let proxy = EngineProxy::start();
    let daemon = behind(&proxy).await;
    let sandbox = daemon.sandbox("chat:1").await;
    let other = daemon.sandbox("chat:2").await;
    let counts = "for n in $(seq 100); do echo $n; sleep 0.05; done";
    let records = daemon.client.run(&sandbox, &script(counts)).await.unwrap();
    let restart = async {
        proxy.stop();
        unavailable("health", limits::ENGINE_PING, daemon.client.health()).await;
        unavailable("create", A_LITTLE, create(&daemon.client, "chat:3")).await;
        assert_eq!(daemon.output(&sandbox, "echo on").await, "on\n");
        proxy.start_again();
        until("the daemon is ready", || async { daemon.client.ready().await.is_ok() }).await;
        create(&daemon.client, "chat:3").await.unwrap();
    };
    let (received, ()) = tokio::join!(outcome(records), restart);
    assert_eq!((received.reason, received.text().lines().count()), (EndReason::Exited, 100));

    // Container events are reported again.
    let kill = docker().await;
    kill.kill_container(&container_name(&other), None::<KillContainerOptions>).await.unwrap();
    until("it is seen", || async { state(&daemon, &other).await == Some(SandboxState::Parked) }).await;
    leave_nothing(daemon).await;
}

/// Without live-restore the containers end with their engine, including the disks' helper.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_ends_with_its_containers_keeps_the_files() {
    let proxy = EngineProxy::start();
    let daemon = behind(&proxy).await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > file").await;
    let mut records = daemon.client.run(&sandbox, &script("echo begun; sleep 60")).await.unwrap();
    let mut collected = Collected::default();
    while collected.stdout.is_empty() {
        let Some(Ok(record)) = records.next().await else { panic!("the stream ended") };
        let _: Option<_> = collected.take(record);
    }
    proxy.stop();
    let engine = docker().await;
    engine.kill_container(&container_name(&sandbox), None::<KillContainerOptions>).await.unwrap();
    unavailable("wake", A_LITTLE, daemon.client.touch(&sandbox, None)).await;
    proxy.start_again();
    let mut last = None;
    while let Some(record) = records.next().await {
        last = Some(record.unwrap());
    }
    assert!(matches!(last, Some(Record::Exit { reason: EndReason::Lost, .. })), "{last:?}");
    until("it is parked", || async { state(&daemon, &sandbox).await == Some(SandboxState::Parked) }).await;
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
    daemon.sandbox("chat:2").await;
    leave_nothing(daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_event_stream_hides_no_container_death() {
    let proxy = EngineProxy::start();
    let daemon = behind(&proxy).await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > file").await;
    proxy.silence("/events");
    let engine = docker().await;
    engine.kill_container(&container_name(&sandbox), None::<KillContainerOptions>).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n", "the next request notices at once");
    proxy.clear_faults();
    leave_nothing(daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_image_is_named_and_the_daemon_keeps_running() {
    let image = "sandboxd-test-faults:deleted";
    let engine = docker().await;
    let tag = async || {
        let options =
            TagImageOptions { repo: Some("sandboxd-test-faults".into()), tag: Some("deleted".into()) };
        engine.tag_image("remcochat-sandbox:node24", Some(options)).await.unwrap();
    };
    let untag = async || drop(engine.remove_image(image, None::<RemoveImageOptions>, None).await);
    tag().await;
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_IMAGE", image)).await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > file").await;
    daemon.client.park(&sandbox, false).await.unwrap();
    untag().await;
    unavailable("create", A_LITTLE, create(&daemon.client, "chat:2")).await;
    unavailable("wake", A_LITTLE, daemon.client.touch(&sandbox, None)).await;
    assert_eq!(state(&daemon, &sandbox).await, Some(SandboxState::Parked));
    tag().await;
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
    create(&daemon.client, "chat:2").await.unwrap();
    leave_nothing(daemon).await;
    untag().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_deleted_by_others_is_recreated_for_its_disk() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > file").await;
    daemon.client.park(&sandbox, false).await.unwrap();
    let force = Some(RemoveVolumeOptions { force: true });
    docker().await.remove_volume(&volume_name(&sandbox), force).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n", "the disk has the files");
    leave_nothing(daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_on_one_engine_leave_each_others_sandboxes_alone() {
    let (one, two) = (Daemon::start().await, Daemon::start().await);
    let (ours, parked) = (one.sandbox("chat:1").await, one.sandbox("chat:2").await);
    one.output(&parked, "echo kept > file").await;
    one.client.park(&parked, false).await.unwrap();
    let theirs = two.sandbox("chat:1").await;
    let before = objects_of(&one.home).await;
    // Each step of the daemon's reconciliation.
    let home = two.stop().await;
    let two = Daemon::start_in(home).await;
    assert_eq!(two.client.touch(&ours, None).await.unwrap_err().code(), Some(ErrorCode::NotFound));
    two.client.delete(&ours).await.unwrap();
    two.client.delete(&theirs).await.unwrap();
    assert_eq!(objects_of(&one.home).await, before);
    assert_eq!(one.output(&ours, "echo on").await, "on\n");
    assert_eq!(one.output(&parked, "cat file").await, "kept\n");
    leave_nothing(two).await;
    leave_nothing(one).await;
}

/// The offset that libfaketime adds to the wall clock. The monotonic clock is not changed.
fn set_clock(file: &Path, offset: &str) {
    std::fs::write(file, offset).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_deletes_and_parks_nothing() {
    let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    let library = library.replace("x86_64", std::env::consts::ARCH);
    assert!(Path::new(&library).exists(), "install faketime, as `make test` does");
    let home = Home::new();
    let clock = home.path().join("clock");
    set_clock(&clock, "+0");
    let home = home
        .set("LD_PRELOAD", &library)
        .set("FAKETIME_TIMESTAMP_FILE", &clock.to_string_lossy())
        .set("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .set("FAKETIME_NO_CACHE", "1")
        .set("SANDBOXD_DEFAULT_IDLE_TTL_MS", "60000");
    let port = free_port();
    let daemon = DaemonProcess::start(&home, port).await;
    let (runs, parked) =
        (create(&daemon.client, "chat:1").await.unwrap(), create(&daemon.client, "chat:2").await.unwrap());
    daemon.client.park(&parked, false).await.unwrap();
    for offset in ["+400d", "-400d", "+0"] {
        set_clock(&clock, offset);
        let command = daemon.client.start(&runs, &script("sleep 2")).await.unwrap().command_id;
        // Several ticks of the daemon's timer.
        let ended = daemon.client.wait(&runs, &command, None).await.unwrap();
        assert_eq!((ended.exit_code, ended.reason), (0, EndReason::Exited), "{offset}");
        tokio::time::sleep(limits::UPKEEP_INTERVAL * 3).await;
        let seen = daemon.client.get(&runs).await.unwrap();
        assert_eq!(seen.state, SandboxState::Running, "{offset}");
        assert_eq!(daemon.client.get(&parked).await.unwrap().state, SandboxState::Parked, "{offset}");
        let days = (seen.last_active_at.as_second() - jiff::Timestamp::now().as_second()) / 86_400;
        let wanted: i64 = offset.trim_end_matches('d').parse().unwrap();
        assert!((days - wanted).abs() <= 1, "the daemon's clock was not moved: {days} days, not {offset}");
    }
    // The same across a start in another year.
    daemon.kill().await;
    set_clock(&clock, "+800d");
    let daemon = DaemonProcess::start(&home, port).await;
    assert_eq!(daemon.client.get(&parked).await.unwrap().state, SandboxState::Parked);
    assert_eq!(outcome(daemon.client.run(&runs, &script("echo on")).await.unwrap()).await.text(), "on\n");
    for sandbox in [runs, parked] {
        daemon.client.delete(&sandbox).await.unwrap();
    }
    daemon.kill().await;
}

/// A nonsensical response from the engine's socket is not reported as an internal error.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_engine_response_is_unavailable_and_named() {
    let proxy = EngineProxy::start();
    let daemon = behind(&proxy).await;
    let (one, two) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    daemon.client.park(&two, false).await.unwrap();
    proxy.set("/", Fault::Garbage);
    for error in [
        create(&daemon.client, "chat:3").await.unwrap_err(),
        daemon.client.touch(&two, None).await.unwrap_err(),
        daemon.client.park(&one, false).await.unwrap_err(),
        daemon.client.health().await.unwrap_err(),
    ] {
        assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error:?}");
        let reported = error.to_string();
        assert!(reported.contains("cannot be read") && !reported.contains("html"), "{reported}");
    }
    proxy.clear_faults();
    assert_eq!(daemon.output(&two, "echo woken").await, "woken\n");
    leave_nothing(daemon).await;
}
