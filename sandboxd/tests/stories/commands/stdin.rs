//! Standard input that stays open: writes of any length, and commands that do not read.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use sandbox_api::command::{EndReason, KillCommand, StartCommand};
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::{CommandId, ErrorCode, SandboxId};
use sandbox_client::{Client, Error};
use sandboxd::model::limits;
use serde_json::json;
use tokio::time::timeout;

use crate::support::harness::{
    Daemon, DaemonProcess, Home, SOON, free_port, outcome, over_each_transport, script, under_gvisor, until,
};
use crate::support::http::{Answer, HttpClient, Wire};

over_each_transport!(
    bytes_reach_the_command_in_order_and_close_ends_them,
    input_of_the_start_request_comes_first,
    the_reasons_why_input_is_not_open_are_distinguished,
    two_writers_do_not_mix,
    input_of_any_length_is_accepted,
);

fn open(text: &str) -> StartCommand {
    StartCommand { open_stdin: Some(true), timeout_ms: Some(120_000), ..script(text) }
}

async fn begun(daemon: &Daemon, sandbox: &SandboxId, request: &StartCommand) -> CommandId {
    daemon.client.start(sandbox, request).await.unwrap().command_id
}

/// Everything that a command wrote until its end.
async fn written(client: &Client, sandbox: &SandboxId, command: &CommandId) -> String {
    let all = outcome(client.logs(sandbox, command, 0, true).await.unwrap()).await;
    assert_eq!((all.exit_code, all.reason), (0, EndReason::Exited), "{all:?}");
    all.text()
}

#[track_caller]
fn refusal(error: &Error, code: ErrorCode) -> serde_json::Value {
    assert_eq!(error.code(), Some(code), "{error}");
    let Error::Refused { body, .. } = error else { panic!("{error}") };
    json!(body.details)
}

async fn bytes_reach_the_command_in_order_and_close_ends_them(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let command = begun(daemon, &sandbox, &open("cat; echo; echo ended")).await;
    client.write_stdin(&sandbox, &command, "one ", false).await.unwrap();
    client.write_stdin(&sandbox, &command, "", false).await.unwrap();
    client.write_stdin(&sandbox, &command, "two ", false).await.unwrap();
    until("the input arrives at once", || async {
        client.inspect(&sandbox, &command).await.unwrap().stdout_bytes == "one two ".len() as u64
    })
    .await;
    client.write_stdin(&sandbox, &command, "three", true).await.unwrap();
    assert_eq!(written(client, &sandbox, &command).await, "one two three\nended\n");

    let all_bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let sum = begun(daemon, &sandbox, &open("sha256sum; head -c 1 </dev/null")).await;
    client.write_stdin(&sandbox, &sum, all_bytes.clone(), false).await.unwrap();
    client.write_stdin(&sandbox, &sum, Bytes::new(), true).await.unwrap();
    let wanted = daemon.output(&sandbox, "python3 -c 'import sys,itertools as i; sys.stdout.buffer.write(bytes(i.islice(i.cycle(range(256)), 300000)))' | sha256sum").await;
    assert_eq!(written(client, &sandbox, &sum).await, wanted);
}

async fn input_of_the_start_request_comes_first(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let first = "first ".repeat(100_000);
    let request = StartCommand { stdin: Some(first.clone()), ..open("sleep 0.2; wc -c; cat") };
    let command = begun(daemon, &sandbox, &request).await;
    daemon.client.write_stdin(&sandbox, &command, "then", true).await.unwrap();
    assert_eq!(written(&daemon.client, &sandbox, &command).await, format!("{}\n", first.len() + 4));
    // Without `openStdin` it is closed after the input of the start request.
    let request = StartCommand { stdin: Some("only".into()), ..script("cat") };
    let command = begun(daemon, &sandbox, &request).await;
    assert_eq!(written(&daemon.client, &sandbox, &command).await, "only");
    let empty = begun(daemon, &sandbox, &open("timeout 0.5 cat; echo $?")).await;
    assert_eq!(written(&daemon.client, &sandbox, &empty).await, "124\n", "it is open and empty");
}

async fn the_reasons_why_input_is_not_open_are_distinguished(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let write = async |command: &CommandId, close| client.write_stdin(&sandbox, command, "x", close).await;
    let never = begun(daemon, &sandbox, &script("sleep 60")).await;
    let given =
        begun(daemon, &sandbox, &StartCommand { stdin: Some("a".into()), ..script("sleep 60") }).await;
    for command in [&never, &given] {
        let error = write(command, false).await.unwrap_err();
        assert_eq!(
            refusal(&error, ErrorCode::WrongState),
            json!({"state": "neverOpened", "writtenBytes": 0})
        );
    }
    let closed = begun(daemon, &sandbox, &open("sleep 60")).await;
    write(&closed, true).await.unwrap();
    for close in [false, true] {
        let error = write(&closed, close).await.unwrap_err();
        assert_eq!(refusal(&error, ErrorCode::WrongState)["state"], "closed");
    }
    let by_itself = begun(daemon, &sandbox, &open("exec <&-; sleep 60")).await;
    until("the command has closed it", || async { write(&by_itself, false).await.is_err() }).await;
    let error = write(&by_itself, false).await.unwrap_err();
    assert_eq!(refusal(&error, ErrorCode::WrongState)["state"], "closed");
    let ended = begun(daemon, &sandbox, &open("true")).await;
    client.wait(&sandbox, &ended, None).await.unwrap();
    let error = write(&ended, false).await.unwrap_err();
    assert_eq!(refusal(&error, ErrorCode::WrongState)["state"], "ended");
    // A child that keeps running does not keep it open.
    let left = begun(daemon, &sandbox, &open("sleep 60 <&0 &")).await;
    client.wait(&sandbox, &left, None).await.unwrap();
    let error = write(&left, false).await.unwrap_err();
    assert_eq!(refusal(&error, ErrorCode::WrongState)["state"], "ended");

    let unknown = "cmd_0000000000000000".parse().unwrap();
    assert_eq!(write(&unknown, false).await.unwrap_err().code(), Some(ErrorCode::NotFound));
    for command in [never, given, closed, by_itself] {
        client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
    }
}

async fn two_writers_do_not_mix(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let command = begun(daemon, &sandbox, &open("uniq -c")).await;
    let piece = |letter: u8| Bytes::from([[letter, b'\n'].repeat(8 * 1024)].concat());
    let writer = |letter: u8| {
        let pieces = futures::stream::iter(0..40).map(move |_| Ok::<_, std::io::Error>(piece(letter)));
        client.stream_stdin(&sandbox, &command, pieces, false)
    };
    let (a, b, c) = tokio::join!(writer(b'a'), writer(b'b'), writer(b'c'));
    for done in [a, b, c] {
        done.unwrap();
    }
    client.write_stdin(&sandbox, &command, "", true).await.unwrap();
    let text = written(client, &sandbox, &command).await;
    let mut runs: Vec<(&str, &str)> = text.lines().map(|line| line.trim().split_once(' ').unwrap()).collect();
    runs.sort_by_key(|(_, letter)| *letter);
    assert_eq!(runs, [("327680", "a"), ("327680", "b"), ("327680", "c")], "each in one piece");
}

/// How long the agent waits for a command to read.
const STALL: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_write_to_a_command_that_stops_reading_reports_the_bytes_written() {
    let daemon = &Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let command =
        begun(daemon, &sandbox, &open("head -c 100000 | wc -c; until [ -e go ]; do sleep 0.1; done")).await;
    let data = Bytes::from(vec![b'x'; 4 * 1024 * 1024]);
    let writing = client.write_stdin(&sandbox, &command, data, false);
    // A command that reads a page now and then is slow, not stuck.
    let slow = async {
        let script = "for n in $(seq 6); do dd bs=4096 count=1 status=none | wc -c; sleep 11; done; wc -c";
        let slow = begun(daemon, &sandbox, &open(script)).await;
        client.write_stdin(&sandbox, &slow, vec![b'x'; 96 * 1024], true).await.unwrap();
        let pages = "4096\n".repeat(6);
        assert_eq!(written(client, &sandbox, &slow).await, format!("{pages}{}\n", 96 * 1024 - 6 * 4096));
    };
    let others = async {
        // Other commands and other input are not delayed.
        let cat = begun(daemon, &sandbox, &open("cat")).await;
        client.write_stdin(&sandbox, &cat, "hi", true).await.unwrap();
        assert_eq!(written(client, &sandbox, &cat).await, "hi");
        // A writer waits this long for its turn, and then as long for the command.
        let began = Instant::now();
        let error = client.write_stdin(&sandbox, &command, "turn", true).await.unwrap_err();
        assert!(began.elapsed() < STALL * 5 / 2, "{:?}", began.elapsed());
        refusal(&error, ErrorCode::DeadlineExceeded)["writtenBytes"].as_u64().unwrap()
    };
    let (error, turn, ()) = tokio::join!(writing, others, slow);
    let took = refusal(&error.unwrap_err(), ErrorCode::DeadlineExceeded)["writtenBytes"].as_u64().unwrap();
    assert!((100_000..1024 * 1024).contains(&took), "{took}");
    assert_eq!(turn, 0);
    daemon.output(&sandbox, "touch go").await;
    assert_eq!(written(client, &sandbox, &command).await, "100000\n");
}

async fn input_of_any_length_is_accepted(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    // More than a JSON body may have, and more than all buffers on the way hold.
    let pieces: u64 = if under_gvisor() { 64 } else { 256 };
    let command = begun(daemon, &sandbox, &open("wc -c")).await;
    let piece = Bytes::from(vec![b'x'; 1024 * 1024]);
    let data = futures::stream::iter(0..pieces).map(move |_| Ok::<_, std::io::Error>(piece.clone()));
    daemon.client.stream_stdin(&sandbox, &command, data, true).await.unwrap();
    assert_eq!(written(&daemon.client, &sandbox, &command).await, format!("{}\n", pieces << 20));
}

/// Current or peak memory of a process, in bytes (proc_pid_status(5)).
fn resident(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_matches([':', ' ', '\t']).split(' ').next().unwrap().parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gibibyte_is_written_with_constant_memory() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let client = &daemon.client;
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let pid = daemon.child.id().unwrap();
    let before = resident(pid, "VmRSS");
    let pieces: u64 = if under_gvisor() { 64 } else { 1024 };
    let command = client.start(&sandbox, &open("sha256sum")).await.unwrap().command_id;
    let piece = Bytes::from((0..=255).cycle().take(1024 * 1024).collect::<Vec<u8>>());
    let data = futures::stream::iter(0..pieces).map(move |_| Ok::<_, std::io::Error>(piece.clone()));
    client.stream_stdin(&sandbox, &command, data, true).await.unwrap();
    let sum = format!(
        "python3 -c 'import hashlib; h=hashlib.sha256(); p=bytes(range(256))*4096; [h.update(p) for _ in range({pieces})]; print(h.hexdigest(), \"\", \"-\")'"
    );
    let wanted = outcome(client.run(&sandbox, &script(&sum)).await.unwrap()).await;
    assert_eq!(written(client, &sandbox, &command).await, wanted.text());
    let peak = resident(pid, "VmHWM");
    assert!(peak < before + 32 * 1024 * 1024, "the daemon grew from {before} to {peak} bytes");
    let metrics = client.get(&sandbox).await.unwrap().usage.unwrap();
    assert!(metrics.memory_bytes < 256 << 20, "{metrics:?}");
    client.delete(&sandbox).await.unwrap();
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemon_leaves_input_open_for_the_next() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let command = daemon.client.start(&sandbox, &open("cat")).await.unwrap().command_id;
    daemon.client.write_stdin(&sandbox, &command, "before ", false).await.unwrap();
    // A write that is in progress when the daemon ends, and that closes the input at its end.
    let client = daemon.client.clone();
    let pieces = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"middle "))])
        .chain(futures::stream::pending());
    let (in_middle, of) = (sandbox.clone(), command.clone());
    let middle = tokio::spawn(async move { client.stream_stdin(&in_middle, &of, pieces, true).await });
    until("it has arrived", || async {
        daemon.client.inspect(&sandbox, &command).await.unwrap().stdout_bytes == "before middle ".len() as u64
    })
    .await;
    daemon.kill().await;
    middle.await.unwrap().unwrap_err();

    let daemon = DaemonProcess::start(&home, port).await;
    daemon.client.write_stdin(&sandbox, &command, "after", true).await.unwrap();
    assert_eq!(written(&daemon.client, &sandbox, &command).await, "before middle after");
    daemon.client.delete(&sandbox).await.unwrap();
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_disconnects_does_not_close_the_input() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let command = begun(&daemon, &sandbox, &open("cat")).await;
    let path = format!("/v1/sandboxes/{sandbox}/commands/{command}/stdin?close=true");
    for framing in ["content-length: 1000\r\n\r\nbegun ", "transfer-encoding: chunked\r\n\r\n6\r\nbegun \r\n"]
    {
        let before = daemon.client.inspect(&sandbox, &command).await.unwrap().stdout_bytes;
        let mut wire = Wire::to(&daemon).await;
        wire.begin("POST", &path).await;
        wire.send(framing.as_bytes()).await.unwrap();
        until("it has arrived", || async {
            daemon.client.inspect(&sandbox, &command).await.unwrap().stdout_bytes == before + 6
        })
        .await;
    }
    daemon.client.write_stdin(&sandbox, &command, "and ended", true).await.unwrap();
    assert_eq!(written(&daemon.client, &sandbox, &command).await, "begun begun and ended");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_or_an_end_releases_the_writer() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let data = Bytes::from(vec![b'x'; 4 * 1024 * 1024]);
    // A child keeps the pipe open and reads nothing.
    let command = begun(&daemon, &sandbox, &open("sleep 60 <&0 & wait")).await;
    let writing = client.write_stdin(&sandbox, &command, data.clone(), false);
    let kill = async {
        until("the command runs", || async {
            let waiting = daemon.run(&sandbox, "pgrep -c sleep").await.text();
            waiting == "1\n"
        })
        .await;
        client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
    };
    let (error, ()) = tokio::join!(writing, kill);
    let details = refusal(&error.unwrap_err(), ErrorCode::WrongState);
    assert!(["ended", "closed"].contains(&details["state"].as_str().unwrap()), "{details}");
    // A writer that sends nothing is also notified of the end.
    let command = begun(&daemon, &sandbox, &open("sleep 1")).await;
    let silent = futures::stream::pending::<Result<Bytes, std::io::Error>>();
    let began = Instant::now();
    let error = client.stream_stdin(&sandbox, &command, silent, false).await.unwrap_err();
    assert_eq!(refusal(&error, ErrorCode::WrongState), json!({"state": "ended", "writtenBytes": 0}));
    assert!(began.elapsed() < Duration::from_secs(20));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_write_is_rejected_before_any_byte_is_written() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let api = HttpClient::of(&daemon);
    let command = begun(&daemon, &sandbox, &open("cat")).await;
    let path = format!("/v1/sandboxes/{sandbox}/commands/{command}/stdin");
    let post = async |path: &str| Answer::to(api.with_token("POST", path).body("not to be written")).await;
    for odd in ["?close=yes", "?close=", "?close=1"] {
        post(&format!("{path}{odd}")).await.faults("close", odd);
    }
    Answer::to(api.without_token("POST", &path).body("x"))
        .await
        .refused(ErrorCode::Unauthenticated, "no token");
    for unknown in [
        format!("/v1/sandboxes/{sandbox}/commands/nonsense/stdin"),
        format!("/v1/sandboxes/sbx_0000000000000000/commands/{command}/stdin"),
    ] {
        post(&unknown).await.refused(ErrorCode::NotFound, &unknown);
    }
    api.get(&path).await.refused(ErrorCode::MethodNotAllowed, "GET");
    // A body of any content type is written as bytes.
    let json = api.with_token("POST", &path).header("content-type", "application/json").body("{not json");
    assert_eq!(Answer::to(json).await.json(), json!({"ok": true}));
    daemon.client.write_stdin(&sandbox, &command, "", true).await.unwrap();
    assert_eq!(written(&daemon.client, &sandbox, &command).await, "{not json");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_writers_is_limited_and_other_requests_are_served() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let command = begun(&daemon, &sandbox, &open("sleep 100")).await;
    // Each writer sends as much as it may, and the command does not read.
    let data = Bytes::from(vec![b'x'; 4 * 1024 * 1024]);
    let writers = limits::MAX_WRITERS + 4;
    let mut stuck: FuturesUnordered<_> = (0..writers)
        .map(|_| {
            let (client, sandbox, command) = (client.clone(), sandbox.clone(), command.clone());
            let data = data.clone();
            tokio::spawn(async move { client.write_stdin(&sandbox, &command, data, false).await })
        })
        .collect();
    for _ in 0..4 {
        let refused =
            timeout(SOON, stuck.next()).await.expect("a writer above the limit is not rejected").unwrap();
        assert_eq!(refused.unwrap().unwrap_err().code(), Some(ErrorCode::CapacityExhausted));
    }
    assert_eq!(daemon.output(&sandbox, "echo served").await, "served\n");
    let request = StartCommand { stdin: Some("x".repeat(limits::MAX_STDIN_BYTES)), ..script("wc -c") };
    let large = outcome(client.run(&sandbox, &request).await.unwrap()).await;
    assert_eq!(large.text(), format!("{}\n", limits::MAX_STDIN_BYTES));
    client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
    while let Some(writer) = stuck.next().await {
        assert_eq!(writer.unwrap().unwrap_err().code(), Some(ErrorCode::WrongState));
    }
    daemon.stop().await;
}
