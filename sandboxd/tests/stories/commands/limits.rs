//! `limits`: a command that exceeds a limit of its profile is ended, and the result names the limit.

use std::time::{Duration, Instant};

use sandbox_api::batch::{BatchOutcome, RunBatch};
use sandbox_api::command::{EndReason, LimitExceeded, RunCommand, StartCommand};
use sandbox_api::{ErrorCode, SandboxId};

use crate::support::harness::{Daemon, outcome, over_each_transport, script, under_gvisor};

over_each_transport!(
    a_command_that_exceeds_a_limit_is_ended,
    a_fork_bomb_exceeds_a_limit,
    limits_bound_the_time_and_are_checked,
);

fn limited(profile: &str, text: &str) -> StartCommand {
    StartCommand { limits: Some(profile.into()), ..script(text) }
}

fn exceeded(limit: &str, value: u64) -> Option<LimitExceeded> {
    Some(LimitExceeded { limit: limit.into(), value })
}

async fn a_command_that_exceeds_a_limit_is_ended(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    for (text, limit) in [
        ("for i in {1..200}; do echo $i; done", exceeded("loopIterations", 100)),
        ("yes", exceeded("outputBytes", 1024 * 1024)),
        // In another shell than the one that is counted.
        ("sh -c 'while :; do :; done' & sh -c 'while :; do :; done'", exceeded("cpuMs", 2000)),
    ] {
        let began = Instant::now();
        let ended = outcome(daemon.client.run(&sandbox, &limited("strict", text)).await.unwrap()).await;
        assert_eq!((ended.limit_exceeded, ended.reason), (limit, EndReason::Killed), "{text}");
        assert!(began.elapsed() < Duration::from_secs(10), "{text}: {:?}", began.elapsed());
        let next = outcome(daemon.client.run(&sandbox, &script("echo next")).await.unwrap()).await;
        assert_eq!((next.text().as_str(), next.exit_code), ("next\n", 0), "after {text}");
    }
    // Also if the command has written all of it before anything looked.
    let quick = limited("strict", "head -c 3000000 /dev/zero");
    let ended = outcome(daemon.client.run(&sandbox, &quick).await.unwrap()).await;
    assert_eq!(ended.limit_exceeded, exceeded("outputBytes", 1024 * 1024), "{:?}", ended.reason);
    too_many_processes_end_a_command(daemon, &sandbox).await;
    // The other responses name the limit too.
    let looping = limited("strict", "while :; do :; done");
    let request = RunCommand { command: looping.clone(), output: None };
    let ran = daemon.client.run_to_end(&sandbox, &request).await.unwrap();
    assert_eq!(ran.limit_exceeded, exceeded("loopIterations", 100));
    let started = daemon.client.start(&sandbox, &looping).await.unwrap().command_id;
    let waited = daemon.client.wait(&sandbox, &started, None).await.unwrap();
    assert_eq!((waited.limit_exceeded, waited.exit_code), (exceeded("loopIterations", 100), 154));
    let batch = RunBatch { commands: vec![looping], ..RunBatch::default() };
    match daemon.client.run_batch(&sandbox, &batch).await.unwrap().results.remove(0).outcome {
        BatchOutcome::Ended(ended) => assert_eq!(ended.limit_exceeded, exceeded("loopIterations", 100)),
        BatchOutcome::NotStarted(fault) => panic!("{fault:?}"),
    }
}

async fn too_many_processes_end_a_command(daemon: &Daemon, sandbox: &SandboxId) {
    let limits = [exceeded("processes", 32), exceeded("cpuMs", 2000)];
    // Forks that execute nothing: a few milliseconds each, but 50 under gVisor, where either limit may come first.
    let forks = limited("strict", "mkfifo p; for i in {1..40}; do (read _ <> p) & done; wait");
    let ended = outcome(daemon.client.run(sandbox, &forks).await.unwrap()).await;
    let possible = if under_gvisor() { &limits[..] } else { &limits[..1] };
    assert!(possible.contains(&ended.limit_exceeded) && ended.reason == EndReason::Killed, "{ended:?}");
    // The main process ends before anything looks at the others.
    let left = limited("strict", "for i in {1..40}; do sleep 60 & done");
    let ended = outcome(daemon.client.run(sandbox, &left).await.unwrap()).await;
    assert!(possible.contains(&ended.limit_exceeded) && ended.reason == EndReason::Killed, "{ended:?}");
}

async fn a_fork_bomb_exceeds_a_limit(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let bomb = limited("strict", "sh -c 'bomb() { bomb & bomb & sleep 60; }; bomb'");
    let ended = outcome(daemon.client.run(&sandbox, &bomb).await.unwrap()).await;
    // Its programs cost more processor time than forks alone.
    let limits = [exceeded("processes", 32), exceeded("cpuMs", 2000)];
    let by_limit = limits.contains(&ended.limit_exceeded) && ended.reason == EndReason::Killed;
    // Under gVisor the agent has no precedence over the processes (docs/gvisor.md, Load).
    let by_restart = ended.killed_by.as_deref() == Some("sandbox_restart") || ended.reason == EndReason::Lost;
    assert!(by_limit || under_gvisor() && by_restart, "{ended:?}");
    assert_eq!(daemon.output(&sandbox, "echo next").await, "next\n");
}

async fn limits_bound_the_time_and_are_checked(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    for (profile, text) in [
        ("strict", "for i in {1..100}; do echo $i; done | tail -n 1"),
        ("normal", "for ((i = 1; i <= 1000; i++)); do echo $i; done | tail -n 1"),
        ("permissive", "for ((i = 1; i <= 20000; i++)); do echo $i; done | tail -n 1"),
    ] {
        let ended = outcome(daemon.client.run(&sandbox, &limited(profile, text)).await.unwrap()).await;
        assert!(["100\n", "1000\n", "20000\n"].contains(&ended.text().as_str()), "{}", ended.text());
        assert_eq!((ended.exit_code, ended.limit_exceeded), (0, None), "{profile}");
    }
    let long = StartCommand { timeout_ms: Some(600_000), ..limited("strict", "true") };
    assert_eq!(daemon.client.start(&sandbox, &long).await.unwrap().timeout_ms, 10_000);
    // Loops of a program and of a traced script are not counted.
    let traced = StartCommand { debug: Some(true), ..limited("strict", "for i in {1..200}; do :; done") };
    let program = StartCommand {
        cmd: Some("bash".into()),
        args: Some(vec!["-c".into(), "for i in {1..200}; do :; done".into()]),
        limits: Some("strict".into()),
        ..StartCommand::default()
    };
    for command in [traced, program] {
        let ended = outcome(daemon.client.run(&sandbox, &command).await.unwrap()).await;
        assert_eq!((ended.exit_code, ended.limit_exceeded), (0, None));
    }
    let error = daemon.client.run(&sandbox, &limited("Strict", "true")).await.map(drop).unwrap_err();
    let body = error.body().unwrap();
    assert_eq!((body.code, body.details["field"].as_str()), (ErrorCode::InvalidRequest, Some("limits")));
}
