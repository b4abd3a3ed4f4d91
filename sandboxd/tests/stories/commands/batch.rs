//! Batches: commands that run in order, with one response and bounded output.

use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sandbox_api::batch::{BatchEnded, BatchFault, BatchOutcome, BatchResult, RunBatch};
use sandbox_api::command::{EndReason, StartCommand};
use sandbox_api::{ErrorCode, SandboxId};
use sandboxd::model::limits;
use serde_json::{Value, json};

use crate::support::harness::{Daemon, over_each_transport, script, skipped_under_gvisor, until};
use crate::support::http::{Answer, HttpClient, Wire};

over_each_transport!(
    commands_run_in_order_and_stop_at_the_first_failure,
    every_command_runs_when_stop_on_error_is_off,
    output_is_bounded_and_dropped_bytes_are_counted,
    read_only_commands_run_in_parallel_with_results_in_order,
);

fn batch(scripts: &[&str]) -> RunBatch {
    RunBatch { commands: scripts.iter().map(|text| script(text)).collect(), ..RunBatch::default() }
}

async fn run(daemon: &Daemon, sandbox: &SandboxId, request: &RunBatch) -> Vec<BatchResult> {
    daemon.client.run_batch(sandbox, request).await.unwrap().results
}

#[track_caller]
fn ended(result: &BatchResult) -> &BatchEnded {
    match &result.outcome {
        BatchOutcome::Ended(ended) => ended,
        BatchOutcome::NotStarted(fault) => panic!("{fault:?}"),
    }
}

#[track_caller]
fn fault(result: &BatchResult) -> &BatchFault {
    match &result.outcome {
        BatchOutcome::NotStarted(fault) => fault,
        BatchOutcome::Ended(ended) => panic!("{ended:?}"),
    }
}

async fn commands_run_in_order_and_stop_at_the_first_failure(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let request =
        batch(&["echo one > file; echo out", "cat file; echo err >&2", "exit 7", "echo never > never"]);
    let results = run(daemon, &sandbox, &request).await;
    let reported: Vec<_> = results.iter().map(ended).collect();
    let texts: Vec<_> =
        reported.iter().map(|end| (end.stdout.as_str(), end.stderr.as_str(), end.exit_code)).collect();
    assert_eq!(texts, [("out\n", "", 0), ("one\n", "err\n", 0), ("", "", 7)]);
    assert!(reported.iter().all(|end| end.reason == EndReason::Exited && end.signal.is_none()));
    assert_eq!((reported[1].stdout_bytes, reported[1].stderr_bytes, reported[1].dropped_bytes), (4, 4, 0));
    assert_eq!((reported[1].stdout_truncated_bytes, reported[1].stdout_base64.as_ref()), (0, None));
    assert_eq!(daemon.output(&sandbox, "ls").await, "file\n");
    // They are ordinary commands.
    let listed = daemon.client.commands(&sandbox, 10).await.unwrap().commands;
    let ids: Vec<_> = listed.iter().skip(1).map(|command| &command.command_id).collect();
    assert_eq!(ids, results.iter().rev().map(|result| &result.command_id).collect::<Vec<_>>());
    assert_eq!(listed[1].exit_code, Some(7));
    // A command that cannot start also stops the batch, and the result says why.
    let missing = StartCommand { cmd: Some("no-such-program".into()), ..StartCommand::default() };
    let mut request = batch(&["true", "echo never > never"]);
    request.commands.insert(1, missing);
    let results = run(daemon, &sandbox, &request).await;
    assert_eq!(results.len(), 2);
    let why = fault(&results[1]);
    assert_eq!(
        (why.code, &why.details["step"], &why.details["errno"]),
        (ErrorCode::Refused, &json!("exec"), &json!(2))
    );
    assert!(why.error.contains("no-such-program"), "{}", why.error);
    // A signal and a timeout stop it as well.
    let late = StartCommand { timeout_ms: Some(1000), ..script("echo begun; sleep 60") };
    for (first, reason, code, signal) in [
        (script("kill -9 $$"), EndReason::Killed, 137, Some("SIGKILL")),
        (late, EndReason::Timeout, 124, Some("SIGTERM")),
    ] {
        let request = RunBatch {
            commands: vec![first, script("echo never > never")],
            continue_on_error: Some(false),
            ..RunBatch::default()
        };
        let results = run(daemon, &sandbox, &request).await;
        let end = ended(&results[0]);
        assert_eq!(
            (results.len(), end.reason, end.exit_code, end.signal.as_deref()),
            (1, reason, code, signal)
        );
    }
    assert_eq!(daemon.output(&sandbox, "ls").await, "file\n");
}

async fn every_command_runs_when_stop_on_error_is_off(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let nowhere = StartCommand { cwd: Some("nowhere".into()), ..script("true") };
    let mut request =
        RunBatch { continue_on_error: Some(true), ..batch(&["exit 3", "mkdir nowhere", "echo last"]) };
    request.commands.insert(1, nowhere.clone());
    request.commands.push(nowhere);
    let results = run(daemon, &sandbox, &request).await;
    assert_eq!((results.len(), ended(&results[0]).exit_code), (5, 3));
    assert_eq!(fault(&results[1]).details["step"], "cwd");
    assert_eq!((ended(&results[3]).stdout.as_str(), ended(&results[4]).exit_code), ("last\n", 0));
    // The maximum number of commands, each with its own input.
    let commands = (0..limits::MAX_BATCH_COMMANDS).map(|at| StartCommand {
        stdin: Some(at.to_string()),
        env: Some([("AT".to_owned(), at.to_string())].into()),
        ..script("echo $AT $(cat)")
    });
    let results =
        run(daemon, &sandbox, &RunBatch { commands: commands.collect(), ..RunBatch::default() }).await;
    let wanted: Vec<String> = (0..limits::MAX_BATCH_COMMANDS).map(|at| format!("{at} {at}\n")).collect();
    assert_eq!(results.iter().map(|result| ended(result).stdout.clone()).collect::<Vec<_>>(), wanted);
}

async fn output_is_bounded_and_dropped_bytes_are_counted(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let limit = limits::MAX_BATCH_OUTPUT_BYTES;
    // A three-byte character lies across every cut.
    let long = "python3 -c 'import sys; sys.stdout.write(\"€\" * 30_000_000)'; echo; echo end; echo err >&2";
    let binary = "printf 'a\\377b'; printf '\\376' >&2";
    let results = run(daemon, &sandbox, &batch(&[long, binary])).await;
    let end = ended(&results[0]);
    assert!(end.stdout.ends_with("€\nend\n") && !end.stdout.contains('\u{fffd}'));
    assert!((limit - 3..=limit).contains(&end.stdout.len()), "{}", end.stdout.len());
    let total = 90_000_000 + "\nend\n".len() as u64;
    assert_eq!((end.stdout_bytes, end.dropped_bytes, end.stdout_base64.as_ref()), (total, 0, None));
    assert_eq!(end.stdout_truncated_bytes + end.stdout.len() as u64, total);
    assert_eq!((end.stderr.as_str(), end.stderr_truncated_bytes), ("err\n", 0));
    let end = ended(&results[1]);
    assert_eq!(
        (end.stdout.as_str(), end.stdout_base64.clone()),
        ("a\u{fffd}b", Some(BASE64_STANDARD.encode(b"a\xffb")))
    );
    assert_eq!(end.stderr_base64.as_deref(), Some("/g=="));

    // When the total limit is reached, the last output is kept whole, because that command failed.
    let each = format!("head -c {limit} /dev/zero | tr '\\0' x");
    let both = format!("{each}; ({each}) >&2");
    let count = limits::MAX_BATCH_BYTES / limit / 2 + 3;
    let mut scripts = vec![both.as_str(); count];
    let failing = format!("{both}; exit 1");
    scripts.push(&failing);
    let results = run(daemon, &sandbox, &batch(&scripts)).await;
    let ends: Vec<_> = results.iter().map(ended).collect();
    let kept: usize = ends.iter().map(|end| end.stdout.len() + end.stderr.len()).sum();
    assert_eq!((results.len(), kept), (count + 1, limits::MAX_BATCH_BYTES));
    assert_eq!(
        (ends[count].stdout.len(), ends[count].stderr.len(), ends[count].exit_code),
        (limit, limit, 1)
    );
    assert_eq!((ends[0].stdout.len(), ends[0].stdout_truncated_bytes), (0, limit as u64));
    for end in ends {
        assert_eq!(end.stdout_truncated_bytes + end.stdout.len() as u64, end.stdout_bytes);
        assert_eq!(end.stderr_truncated_bytes + end.stderr.len() as u64, end.stderr_bytes);
    }
}

async fn read_only_commands_run_in_parallel_with_results_in_order(daemon: &Daemon) {
    if skipped_under_gvisor("its kernel has no Landlock") {
        return;
    }
    let sandbox = daemon.sandbox("chat:1").await;
    // Each command waits for all others of its group: they can only end together.
    let meet = |at: usize, of: usize| {
        let script = format!(
            "touch /tmp/$GROUP.{at}; until [ $(ls /tmp/$GROUP.* | wc -l) = {of} ]; do sleep 0.01; done; echo {at}"
        );
        StartCommand { read_only: Some(true), ..script_in(&script, &format!("group{of}")) }
    };
    let together = |of: usize| RunBatch {
        commands: (0..of).map(|at| meet(at, of)).collect(),
        parallel: Some(of as u64),
        ..RunBatch::default()
    };
    let results = run(daemon, &sandbox, &together(8)).await;
    let texts: Vec<_> = results.iter().map(|result| ended(result).stdout.clone()).collect();
    assert_eq!(texts, (0..8).map(|at| format!("{at}\n")).collect::<Vec<_>>());
    let reads = |text: &str| StartCommand { read_only: Some(true), ..script(text) };
    // A refused write is reported, also if the command hides it.
    let commands = vec![reads("ls"), reads("touch new 2> /dev/null || true")];
    let request = RunBatch { commands, parallel: Some(2), ..RunBatch::default() };
    let results = run(daemon, &sandbox, &request).await;
    let violations = results.iter().map(|result| ended(result).read_only_violation.as_ref());
    let violations: Vec<_> = violations.map(|it| it.map(|it| (&*it.operation, &*it.path))).collect();
    assert_eq!(violations, [None, Some(("create", "new"))]);
    // No command starts after a failure, and those that run at that time run to their end.
    let slow = reads("until [ -e /tmp/failed ]; do sleep 0.01; done; sleep 0.2; echo slow");
    let commands = vec![slow, reads("touch /tmp/failed; exit 3"), reads("echo never")];
    let mut request = RunBatch { commands, parallel: Some(2), ..RunBatch::default() };
    let results = run(daemon, &sandbox, &request).await;
    let codes: Vec<_> = results.iter().map(|result| ended(result).exit_code).collect();
    assert_eq!((codes, ended(&results[0]).stdout.as_str()), (vec![0, 3], "slow\n"));
    request.continue_on_error = Some(true);
    let results = run(daemon, &sandbox, &request).await;
    let codes: Vec<_> = results.iter().map(|result| ended(result).exit_code).collect();
    assert_eq!(codes, [0, 3, 0]);
}

fn script_in(text: &str, group: &str) -> StartCommand {
    StartCommand { env: Some([("GROUP".to_owned(), group.to_owned())].into()), ..script(text) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_command_is_found_before_the_first_one_runs() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let sandbox = daemon.sandbox("chat:1").await;
    let path = format!("/v1/sandboxes/{sandbox}/commands:batch");
    let ran = json!({ "script": "touch ran" });
    let reads = json!({ "script": "true", "readOnly": true });
    let third = |bad: Value| json!({ "commands": [ran, ran, bad] });
    let twice = json!({ "script": "true", "commandId": "cmd_0123456789abcdef" });
    let cases = [
        (third(json!({})), "commands[2].script"),
        (third(json!({ "script": "a", "cwd": "a\0b" })), "commands[2].cwd"),
        (third(json!({ "script": "a", "cwd": 1 })), "commands[2].cwd"),
        (third(json!({ "script": "a", "env": { "": "x" } })), "commands[2].env."),
        (third(json!({ "script": "a", "stdinBase64": "!" })), "commands[2].stdinBase64"),
        (third(json!({ "script": "a", "timeoutMs": -1 })), "commands[2].timeoutMs"),
        (third(json!({ "script": "a", "commandId": "mine" })), "commands[2].commandId"),
        (third(json!({ "script": "a", "openStdin": true })), "commands[2].openStdin"),
        (third(json!(["a"])), "commands[2]"),
        (third(json!(null)), "commands[2]"),
        (json!({ "commands": [ran, twice, twice] }), "commands[2].commandId"),
        (json!({ "commands": [] }), "commands"),
        (json!({ "commands": vec![ran.clone(); limits::MAX_BATCH_COMMANDS + 1] }), "commands"),
        (json!({ "commands": "true" }), "commands"),
        (json!({ "commands": [ran], "continueOnError": "yes" }), "continueOnError"),
        (json!({ "commands": [ran], "parallel": 0 }), "parallel"),
        (json!({ "commands": [ran], "parallel": 17 }), "parallel"),
        (json!({ "commands": [reads, reads, ran], "parallel": 2 }), "commands[2].readOnly"),
        (json!({ "commands": [{ "cmd": "ls", "debug": true }] }), "commands[0].debug"),
        (json!({}), "commands"),
    ];
    for (request, field) in cases {
        let what: String = request.to_string().chars().take(200).collect();
        api.post(&path, &request).await.faults(field, &what);
    }
    let long = third(json!({ "script": "a", "stdin": "x".repeat(limits::MAX_STDIN_BYTES + 1) }));
    let body = api.post(&path, &long).await.refused(ErrorCode::TooLarge, "a long stdin");
    assert!(body.error.contains("commands[2].stdin"), "{}", body.error);
    let unknown = "/v1/sandboxes/sbx_0000000000000000/commands:batch";
    api.post(unknown, &json!({ "commands": [ran] })).await.refused(ErrorCode::NotFound, "no such sandbox");
    let request = api.without_token("POST", &path).json(&json!({ "commands": [ran] }));
    Answer::to(request).await.refused(ErrorCode::Unauthenticated, "no token");
    assert_eq!(daemon.output(&sandbox, "ls").await, "", "one of the commands ran");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_disconnects_ends_the_running_command_and_starts_no_other() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let request = json!({ "commands": [
        { "script": "touch first" }, { "script": "touch second; sleep 60" }, { "script": "touch third" },
    ], "continueOnError": true });
    let body = request.to_string();
    let mut wire = Wire::to(&daemon).await;
    wire.begin("POST", &format!("/v1/sandboxes/{sandbox}/commands:batch")).await;
    let rest = format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    wire.send(rest.as_bytes()).await.unwrap();
    until("the second runs", || async { daemon.run(&sandbox, "[ -e second ]").await.exit_code == 0 }).await;
    drop(wire);
    let began = Instant::now();
    until("it is gone", || async { daemon.run(&sandbox, "pgrep sleep").await.text().is_empty() }).await;
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    until("its end is recorded", || async {
        let listed = daemon.client.commands(&sandbox, 100).await.unwrap().commands;
        let second =
            listed.iter().find(|command| command.args.iter().any(|arg| arg.contains("touch second")));
        second.is_some_and(|second| second.reason == Some(EndReason::Killed))
    })
    .await;
    assert_eq!(daemon.output(&sandbox, "ls").await, "first\nsecond\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_report_a_sandbox_deleted_during_the_batch() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let request =
        RunBatch { continue_on_error: Some(true), ..batch(&["echo begun; touch begun; sleep 60", "true"]) };
    let running = run(&daemon, &sandbox, &request);
    let delete = async {
        until("it runs", || async { daemon.run(&sandbox, "[ -e begun ]").await.exit_code == 0 }).await;
        daemon.client.delete(&sandbox).await.unwrap();
    };
    let (results, ()) = tokio::join!(running, delete);
    let end = ended(&results[0]);
    assert_eq!((end.reason, end.stdout.as_str()), (EndReason::Lost, "begun\n"));
    assert_eq!(
        (fault(&results[1]).code, &fault(&results[1]).details["resource"]),
        (ErrorCode::NotFound, &json!("sandbox"))
    );
    daemon.stop().await;
}
