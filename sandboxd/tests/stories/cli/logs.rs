//! `sandboxd logs`, run as a separate process.

use std::process::{Output, Stdio};

use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;
use sandbox_api::sandbox::{CreateSandbox, SandboxState};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::time::timeout;

use crate::support::harness::{Daemon, DaemonProcess, Home, SOON, free_port, outcome, script, until};

async fn logs(daemon: &Daemon, args: &[&str]) -> Output {
    let output = daemon.home.program(&[&["logs", "--url", &daemon.base], args].concat()).output();
    timeout(SOON, output).await.expect("it does not end").unwrap()
}

/// Standard output, standard error and the exit code.
async fn output(daemon: &Daemon, args: &[&str]) -> (String, String, Option<i32>) {
    let Output { status, stdout, stderr } = logs(daemon, args).await;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&stdout), text(&stderr), status.code())
}

async fn run_to_end(daemon: &Daemon, sandbox: &SandboxId, text: &str) -> String {
    let command = daemon.client.start(sandbox, &script(text)).await.unwrap().command_id;
    daemon.client.wait(sandbox, &command, None).await.unwrap();
    command.to_string()
}

fn lines(out: &str, err: &str, code: i32) -> (String, String, Option<i32>) {
    (out.into(), err.into(), Some(code))
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_prints_the_output_of_the_named_or_the_newest_command() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let first = run_to_end(&daemon, &sandbox, "echo first; echo err >&2; exit 7").await;
    let second = run_to_end(&daemon, &sandbox, r"printf '\377\000second'").await;
    assert_eq!(output(&daemon, &["chat:1", &first]).await, lines("first\n", "err\n", 0));
    assert_eq!(output(&daemon, &[sandbox.as_str(), &first]).await, lines("first\n", "err\n", 0));
    assert_eq!(output(&daemon, &["--exit-code", "chat:1", &first]).await, lines("first\n", "err\n", 7));
    assert_eq!(output(&daemon, &["-f", "--exit-code", "chat:1", &first]).await, lines("first\n", "err\n", 7));
    for newest in [&["chat:1"][..], &["chat:1", "--last"], &["-f", "chat:1"], &["chat:1", &second]] {
        assert_eq!(logs(&daemon, newest).await.stdout, b"\xff\0second", "{newest:?}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follow_prints_new_output_until_the_command_ends() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let text = "echo begun; until [ -e go ]; do sleep 0.05; done; echo ended; exit 3";
    let command = daemon.client.start(&sandbox, &script(text)).await.unwrap().command_id;
    until("it has begun", || async {
        daemon.client.inspect(&sandbox, &command).await.unwrap().stdout_bytes > 0
    })
    .await;
    assert_eq!(output(&daemon, &["chat:1"]).await, lines("begun\n", "", 0));
    let (out, err, code) = output(&daemon, &["--exit-code", "chat:1"]).await;
    assert_eq!((out.as_str(), code), ("begun\n", Some(1)));
    assert!(err.contains("is still running"), "{err}");
    let mut follow = daemon.home.program(&[
        "logs",
        "-f",
        "--exit-code",
        "--url",
        &daemon.base,
        "chat:1",
        command.as_str(),
    ]);
    let mut child = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    timeout(SOON, out.read_line(&mut line)).await.unwrap().unwrap();
    assert_eq!(line, "begun\n");
    daemon.output(&sandbox, "touch go").await;
    timeout(SOON, out.read_to_string(&mut line)).await.unwrap().unwrap();
    assert_eq!((line.as_str(), child.wait().await.unwrap().code()), ("begun\nended\n", Some(3)));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follow_continues_after_the_daemon_is_killed() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let text = "n=0; until [ -e stop ]; do echo $((n += 1)); sleep 0.01; done; exit 5";
    let request = StartCommand { timeout_ms: Some(120_000), ..script(text) };
    daemon.client.start(&sandbox, &request).await.unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let mut follow = home.program(&["logs", "-f", "--exit-code", "--url", &url, "chat:1"]);
    let mut child = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while text.lines().count() < 20 {
        assert!(timeout(SOON, out.read_line(&mut text)).await.unwrap().unwrap() > 0, "{text}");
    }
    daemon.kill().await;
    let daemon = DaemonProcess::start(&home, port).await;
    let before = text.lines().count();
    while text.lines().count() < before + 20 {
        assert!(timeout(SOON, out.read_line(&mut text)).await.unwrap().unwrap() > 0, "{text}");
    }
    outcome(daemon.client.run(&sandbox, &script("touch stop")).await.unwrap()).await;
    timeout(SOON, out.read_to_string(&mut text)).await.unwrap().unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(5));
    let numbers: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len()), "{numbers:?}");
    daemon.client.delete(&sandbox).await.unwrap();
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_log_is_an_error_with_an_exit_code() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let wrong = async |args: &[&str], words: &str| {
        let (out, err, code) = output(&daemon, args).await;
        assert_eq!((out.as_str(), code), ("", Some(1)), "{args:?}: {err}");
        assert!(err.contains(words), "{args:?}: {err}");
    };
    wrong(&["chat:nobody"], "chat:nobody: no such sandbox").await;
    wrong(&["chat:1"], "no command has run").await;
    for args in [&["chat:1", "cmd_0000000000000000"][..], &["-f", "chat:1", "cmd_0000000000000000"]] {
        wrong(args, "cmd_0000000000000000: no such command").await;
    }
    let command = run_to_end(&daemon, &sandbox, "echo hi").await;
    daemon.client.park(&sandbox, false).await.unwrap();
    wrong(&["chat:1", &command], "parked").await;
    assert_eq!(
        daemon.client.get(&sandbox).await.unwrap().state,
        SandboxState::Parked,
        "the sandbox was woken"
    );
    daemon.output(&sandbox, "true").await;
    wrong(&["chat:1", &command], "no longer kept").await;
    for args in [&["logs"][..], &["logs", "chat:1", "nonsense"], &["logs", "chat:1", "--last", &command]] {
        assert_eq!(daemon.home.program(args).output().await.unwrap().status.code(), Some(2), "{args:?}");
    }
    let url = format!("http://127.0.0.1:{}", free_port());
    let output = daemon.home.program(&["logs", "--url", &url, "chat:1"]).output().await.unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && words.contains("sandboxd serve"), "{words}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_closes_early_is_not_an_error() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.client.start(&sandbox, &script("while echo line; do sleep 0.001; done")).await.unwrap();
    let mut follow = daemon.home.program(&["logs", "-f", "--url", &daemon.base, "chat:1"]);
    let mut child = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 1024]).await.unwrap();
    drop(stdout);
    let output = timeout(SOON, child.wait_with_output()).await.expect("it does not end").unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    daemon.stop().await;
}
