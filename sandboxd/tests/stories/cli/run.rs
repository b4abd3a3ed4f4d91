//! `sandboxd run`, run as a separate process.

use std::process::Output;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::SandboxId;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::support::engine_view::objects_of;
use crate::support::harness::{Daemon, Home, SOON, free_port, until};

/// `sandboxd run` with this daemon's URL.
fn run(daemon: &Daemon, args: &[&str]) -> Command {
    let mut command = daemon.home.program(&["run", "--url", &daemon.base]);
    command.args(args).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command
}

async fn ended(child: Child) -> Output {
    timeout(SOON, child.wait_with_output()).await.expect("the program does not end").unwrap()
}

async fn output(mut command: Command) -> Output {
    ended(command.spawn().unwrap()).await
}

/// Standard output and the exit code of a run that writes no message of its own.
async fn quiet(command: Command) -> (String, Option<i32>) {
    let output = output(command).await;
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Reads the child's standard output up to this line.
async fn wait_for_line(child: &mut Child, wanted: &str) {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let line = timeout(SOON, lines.next_line()).await.expect("the command writes nothing").unwrap();
    assert_eq!(line.as_deref(), Some(wanted));
}

async fn processes(daemon: &Daemon, sandbox: &SandboxId, name: &str) -> String {
    daemon.output(sandbox, &format!("pgrep -c {name} || true")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn run_forwards_both_outputs_and_the_exit_code() {
    let daemon = Daemon::start().await;
    for args in [&["echo out; echo err >&2; exit 7"][..], &["bash", "-c", "echo out; echo err >&2; exit 7"]] {
        let output = output(run(&daemon, args)).await;
        assert_eq!(output.status.code(), Some(7), "{args:?}");
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    }
    let argv = quiet(run(&daemon, &["--", "printf", "%s|", "a b", "$HOME", "-n", ""])).await;
    assert_eq!(argv, ("a b|$HOME|-n||".into(), Some(0)));
    let cwd = quiet(run(&daemon, &["--cwd", "../.local", "pwd"])).await;
    assert_eq!(cwd, ("/vercel/sandbox/.local\n".into(), Some(0)));
    let bytes = output(run(&daemon, &["printf", r"\377\000\376"])).await;
    assert_eq!(bytes.stdout, b"\xff\0\xfe");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_its_files_and_a_run_without_session_leaves_nothing() {
    let daemon = Daemon::start().await;
    assert_eq!(quiet(run(&daemon, &["echo kept > file; cat file"])).await, ("kept\n".into(), Some(0)));
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    let session = ["--session", "chat:cli"];
    let with = |script| run(&daemon, &[&session[..], &[script]].concat());
    assert_eq!(quiet(with("echo kept > file")).await, (String::new(), Some(0)));
    assert_eq!(quiet(with("cat file")).await, ("kept\n".into(), Some(0)));
    let sandbox = daemon.sandbox("chat:cli").await;
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
    assert_eq!(
        quiet(run(&daemon, &["ls -A"])).await,
        (String::new(), Some(0)),
        "the run has its own empty workspace"
    );
    assert_eq!(quiet(run(&daemon, &["exit 3"])).await.1, Some(3));
    assert_eq!(objects_of(&daemon.home).await.len(), 2, "only the session's container and volume");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_is_forwarded_on_request() {
    let daemon = Daemon::start().await;
    let all_bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    for (flag, wanted) in [(&["-i"][..], all_bytes.as_slice()), (&[], b"")] {
        let mut command = run(&daemon, &[flag, &["cat"]].concat());
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let content = all_bytes.clone();
        // Without the flag no process reads the pipe, and it breaks.
        let writer = tokio::spawn(async move { drop(stdin.write_all(&content).await) });
        let output = ended(child).await;
        assert!(output.status.success() && output.stdout == wanted, "{flag:?}");
        writer.await.unwrap();
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_the_command() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:cli").await;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let script = "echo begun; setsid sleep 60 & sleep 60";
        let mut child = run(&daemon, &["--session", "chat:cli", script]).spawn().unwrap();
        wait_for_line(&mut child, "begun").await;
        until("the command sleeps", || async { processes(&daemon, &sandbox, "sleep").await == "2\n" }).await;
        send(&child, signal);
        assert_eq!(ended(child).await.status.code(), Some(code), "{signal:?}");
        // The program ends after the command, so one look is enough.
        assert_eq!(processes(&daemon, &sandbox, "sleep").await, "0\n", "{signal:?}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_without_a_session_leaves_nothing() {
    let daemon = Daemon::start().await;
    // Once while the sandbox is created, once while the command runs.
    for early in [true, false] {
        let mut child = run(&daemon, &["echo begun; exec sleep 60"]).spawn().unwrap();
        match early {
            true => {
                until("the sandbox is being created", || async { !objects_of(&daemon.home).await.is_empty() })
                    .await
            }
            false => wait_for_line(&mut child, "begun").await,
        }
        send(&child, Signal::INT);
        let output = ended(child).await;
        assert_eq!(output.status.code(), Some(130), "early: {early}, {output:?}");
        if early {
            // The daemon deletes a sandbox that it was still creating, whether or not the program waits.
            until("nothing is left", || async { objects_of(&daemon.home).await.is_empty() }).await;
        }
        assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new(), "early: {early}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_standard_output_ends_the_command() {
    let daemon = Daemon::start().await;
    let mut child = run(&daemon, &["yes"]).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 1024]).await.unwrap();
    drop(stdout);
    let output = ended(child).await;
    // As a shell reports of a program that SIGPIPE has ended.
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(141), &b""[..]), "{output:?}");
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_and_a_failed_start_are_reported() {
    let daemon = Daemon::start().await;
    let slow = output(run(&daemon, &["--timeout", "1", "echo begun; exec sleep 60"])).await;
    assert_eq!((slow.status.code(), slow.stdout.as_slice()), (Some(124), &b"begun\n"[..]));
    let words = String::from_utf8_lossy(&slow.stderr);
    assert!(words.to_lowercase().contains("timeout"), "{words}");
    let missing = output(run(&daemon, &["no-such-program", "argument"])).await;
    assert!(!missing.status.success());
    let words = String::from_utf8_lossy(&missing.stderr);
    assert!(words.contains("no-such-program"), "{words}");
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_daemon_the_message_says_what_to_do() {
    let home = Home::new();
    let url = format!("http://127.0.0.1:{}", free_port());
    let mut command = home.program(&["run", "--url", &url, "true"]);
    let output =
        timeout(Duration::from_secs(10), command.output()).await.expect("the program does not end").unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    for wanted in [&url, "sandboxd serve", "refused"] {
        assert!(words.contains(wanted), "no {wanted} in: {words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_is_reported_with_its_source() {
    let daemon = Daemon::start().await;
    let mut wrong = run(&daemon, &["true"]);
    wrong.env("SANDBOXD_ADMIN_TOKEN", "wrong");
    // No token is set, and the state directory has none because the daemon received its own in a setting.
    let mut none = run(&daemon, &["true"]);
    none.env_remove("SANDBOXD_ADMIN_TOKEN");
    for command in [wrong, none] {
        let output = output(command).await;
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(words.contains("SANDBOXD_ADMIN_TOKEN"), "{words}");
    }
    daemon.stop().await;
}
