//! `capture: "stages"`: each stage of a script's last pipeline is reported, and the pipeline does what it does without.

use std::time::{Duration, Instant};

use sandbox_api::ErrorCode;
use sandbox_api::SandboxId;
use sandbox_api::batch::RunBatch;
use sandbox_api::command::{CommandRan, EndReason, OutputOptions, PipelineStage, RunCommand, StartCommand};
use sandbox_api::sandbox::CreateSandbox;

use crate::support::harness::{Daemon, outcome, over_each_transport, script, skipped_under_gvisor};

over_each_transport!(each_stage_is_reported);

fn captured(text: &str) -> StartCommand {
    StartCommand { capture: Some("stages".into()), ..script(text) }
}

async fn run(daemon: &Daemon, sandbox: &SandboxId, command: StartCommand) -> CommandRan {
    daemon.client.run_to_end(sandbox, &RunCommand { command, output: None }).await.unwrap()
}

/// A stage whose output is complete.
fn stage(command: &str, exit_code: i32, stdout: Option<&str>) -> PipelineStage {
    PipelineStage {
        command: command.into(),
        exit_code: Some(exit_code),
        stdout: stdout.map(str::to_owned),
        stdout_bytes: stdout.map(|text| text.len() as u64),
        truncated: false,
    }
}

async fn each_stage_is_reported(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let ran = run(daemon, &sandbox, captured("cd /; seq 3 | grep -v 2 | (cat; exit 3)")).await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.exit_code), ("1\n3\n", "", 3));
    let stages = [
        stage("seq 3", 0, Some("1\n2\n3\n")),
        stage("grep -v 2", 0, Some("1\n3\n")),
        stage("(cat; exit 3)", 3, None),
    ];
    assert_eq!(ran.stages.as_deref(), Some(&stages[..]));
    assert!(ran.output_complete && !ran.truncated);

    // A stream and the log have records of them. A read-only command has them too.
    let read_only = StartCommand {
        read_only: Some(!skipped_under_gvisor("no Landlock")),
        ..captured("set -euo pipefail\nfalse | echo x |\n  # why\n cat")
    };
    let streamed = outcome(daemon.client.run(&sandbox, &read_only).await.unwrap()).await;
    let stages = [stage("false", 1, Some("")), stage("echo x", 0, Some("x\n")), stage("cat", 0, None)];
    assert_eq!(
        (streamed.text().as_str(), streamed.exit_code, streamed.stages.as_slice()),
        ("x\n", 1, &stages[..])
    );
    let listed = &daemon.client.commands(&sandbox, 1).await.unwrap().commands[0];
    assert_eq!((listed.stdout_bytes, listed.args[1].as_str()), (2, read_only.script.as_deref().unwrap()));
    let logged = outcome(daemon.client.logs(&sandbox, &listed.command_id, 0, true).await.unwrap()).await;
    assert_eq!((logged.stages, logged.seqs), (streamed.stages, streamed.seqs));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_captured_pipeline_does_what_it_does_without() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for text in [
        "false | true",
        "set -o pipefail; false | true",
        "set -o pipefail; (exit 3) | (exit 4) | true",
        "set -e; true | { false; echo not; } | cat; echo not",
        "! true | true",
        "set -e; ! true | true; echo $?",
        "x=1; echo 2 | read x; echo $x",
        "shopt -s lastpipe; echo 2 | read -r x",
        "trap 'echo bye $?' EXIT; echo hi | (cat; exit 5)",
        "(echo out; echo err >&2) | cat",
        "(echo out; echo err >&2) |& sort",
        "cat <<E | tr a-z A-Z | cat -n\nsome $((1 + 1)) | text\nE\n",
        "echo a | while read -r l; do echo \"<$l>\"; done 2>&1 | cat -A",
        "printf 'a\\0b\\xff' | od -c | head -2",
        "cat | wc -c",
        "set -u; echo a | cat; echo $none",
        "echo $LINENO | cat; nothing |\ncat",
        "f() { echo \"$1\" | tr a b; }; f a | cat",
        "sleep 60 & echo $? | cat; kill %1",
        "exit 7 | exit 8",
        "true | exec false",
        "kill -9 $$ | cat",
        "true | cat > /none/file",
        "echo \"it's\" | cat; exit 3",
        "if true; then echo a; fi | { cat; echo b; }",
        "(echo a; sleep 0.1; echo b) | (read -r x; echo $x)",
        "set -C; echo a | cat",
        "export BASH_ENV=/none; echo a | cat",
        "echo \"${PIPESTATUS[@]}\" | cat; false | true; echo \"${PIPESTATUS[@]}\"",
    ] {
        let with_input = |command: StartCommand| StartCommand { stdin: Some("in\nput\n".into()), ..command };
        let plain = run(&daemon, &sandbox, with_input(script(text))).await;
        let ran = run(&daemon, &sandbox, with_input(captured(text))).await;
        let of = |ran: CommandRan| (ran.stdout, ran.stderr, ran.exit_code, ran.reason, ran.signal);
        assert_eq!(of(ran), of(plain), "{text}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_is_reported_as_far_as_it_is_known() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let stages = async |command| run(&daemon, &sandbox, command).await.stages.unwrap();
    // There is no pipeline at the end, or it does not run.
    for text in ["true", "a() { echo b | cat; }; a", "false && echo a | cat", "echo a | cat; exit 3"] {
        assert_eq!(stages(captured(text)).await, [], "{text}");
    }
    // bash does not report exit codes.
    let own_trap = stages(captured("trap : EXIT; echo a | cat")).await;
    assert_eq!((own_trap[0].exit_code, own_trap[0].stdout.as_deref()), (None, Some("a\n")));
    let late = StartCommand { timeout_ms: Some(1_500), ..captured("false | true; (echo a; sleep 60) | cat") };
    let ran = run(&daemon, &sandbox, late).await;
    assert_eq!((ran.reason, ran.stdout.as_str()), (EndReason::Timeout, "a\n"));
    let first = &ran.stages.unwrap()[0];
    assert_eq!((first.exit_code, first.stdout.as_deref(), first.stdout_bytes), (None, Some("a\n"), Some(2)));

    // A stage cannot disturb the report of another one.
    let broken =
        stages(captured("for f in /proc/self/fd/2??; do head -c 99999 /dev/urandom > $f; done | cat")).await;
    assert!(broken.len() <= 2, "{broken:?}");
    let closed = stages(captured("for n in {200..299}; do exec {n}>&-; done; echo a | cat")).await;
    assert!(closed.len() <= 2, "{closed:?}");

    // Long scripts are reported too, with the beginning of a stage's text.
    let text = format!("echo first # {}\necho {} | wc -c", "x".repeat(40_000), "y".repeat(20_000));
    let ran = run(&daemon, &sandbox, captured(&text)).await;
    assert_eq!(ran.stdout, "first\n20001\n");
    assert_eq!(ran.stages.unwrap()[0].command.len(), 1024);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn capturing_is_bounded_and_does_not_hold_up_a_pipeline() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let began = Instant::now();
    let ran = run(&daemon, &sandbox, captured("yes | head -1")).await;
    let stages = ran.stages.unwrap();
    assert_eq!((ran.stdout.as_str(), stages[0].exit_code), ("y\n", Some(141)));
    // How much it wrote before `head` ended is up to the scheduler.
    let (kept, bytes) = (stages[0].stdout.as_ref().unwrap().len() as u64, stages[0].stdout_bytes.unwrap());
    assert!(kept > 0 && stages[0].truncated == (bytes > kept), "{stages:?}");
    // A program that watches its output ends without writing to it.
    run(&daemon, &sandbox, captured("echo a > a; tail -f a | head -1")).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());

    let output = OutputOptions { max_chars: Some(100), ..OutputOptions::default() };
    let command = captured("head -c 1G /dev/zero | tr '\\0' x | tail -c 3");
    let command = StartCommand { timeout_ms: Some(60_000), ..command };
    let request = RunCommand { command, output: Some(output) };
    let ran = daemon.client.run_to_end(&sandbox, &request).await.unwrap();
    let stages = ran.stages.unwrap();
    assert_eq!((ran.stdout.as_str(), ran.exit_code), ("xxx", 0));
    for stage in &stages[..2] {
        assert_eq!((stage.stdout_bytes, stage.exit_code, stage.truncated), (Some(1 << 30), Some(0), true));
        assert!(stage.stdout.as_ref().unwrap().len() <= 100);
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_in_no_stage() {
    let daemon = Daemon::start().await;
    let create = CreateSandbox {
        session_key: "chat:1".into(),
        env: Some([("KEY".to_owned(), "sk-0123456789".to_owned())].into()),
        secret_env: Some(vec!["KEY".into()]),
        ..CreateSandbox::default()
    };
    let sandbox = daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    // The second value is cut where the kept part ends.
    for text in
        ["echo $KEY | wc -c", "(head -c 32760 /dev/zero; echo $KEY) | wc -c", "echo sk-0123456789 | wc -c"]
    {
        let stage = run(&daemon, &sandbox, captured(text)).await.stages.unwrap().remove(0);
        let shown = format!("{} {}", stage.command, stage.stdout.unwrap());
        assert!(!shown.contains("sk-"), "{shown}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_captured_is_refused() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let many = vec!["cat"; 33].join("|");
    let long = format!("a | b # {}", "x".repeat(64 * 1024));
    for (command, problem) in [
        (StartCommand { capture: Some("all".into()), ..script("a | b") }, "must be `stages`"),
        (StartCommand { debug: Some(true), ..captured("a | b") }, "must not be combined with debug"),
        (StartCommand { cmd: Some("ls".into()), script: None, ..captured("") }, "needs `script`"),
        (captured("a | b &"), "background"),
        (captured("a | 'b"), "not understood at byte 5"),
        (captured(&many), "at most 32 stages"),
        (captured(&long), "at most 65536 bytes"),
    ] {
        let error = daemon.client.start(&sandbox, &command).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::InvalidRequest));
        let error = error.to_string();
        assert!(error.contains("`capture`") && error.contains(problem), "{error}");
    }
    let batch = RunBatch { commands: vec![captured("a | b")], ..RunBatch::default() };
    let error = daemon.client.run_batch(&sandbox, &batch).await.unwrap_err();
    assert!(error.to_string().contains("commands[0].capture"), "{error}");
    daemon.stop().await;
}
