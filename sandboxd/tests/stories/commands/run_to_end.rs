//! Commands that are run to their end in one request, and the files with their whole output.

use futures::StreamExt;
use sandbox_api::command::{
    CommandRan, CommandState, EndReason, OutputOptions, Record, RunCommand, StartCommand,
};
use sandbox_api::files::{GlobFiles, GrepFiles};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::WriteOptions;
use serde_json::json;

use crate::support::harness::{Daemon, over_each_transport, script, until};
use crate::support::http::{Answer, HttpClient};

over_each_transport!(
    a_short_output_is_returned_whole_and_has_no_file,
    a_long_output_is_cut_and_its_file_has_all_of_it,
    a_stream_reports_the_file,
    a_file_ends_at_its_limit,
    a_link_in_place_of_a_file_is_not_followed,
);

const MIB: u64 = 1024 * 1024;

async fn run(daemon: &Daemon, sandbox: &SandboxId, text: &str, output: OutputOptions) -> CommandRan {
    let request = RunCommand { command: script(text), output: Some(output) };
    daemon.client.run_to_end(sandbox, &request).await.unwrap()
}

fn at_most(max_chars: u64) -> OutputOptions {
    OutputOptions { max_chars: Some(max_chars), ..OutputOptions::default() }
}

async fn file(daemon: &Daemon, sandbox: &SandboxId, path: &str) -> Vec<u8> {
    let content = daemon.client.get_file(sandbox, path, None).await.unwrap();
    content.bytes(80 * MIB as usize).await.unwrap()
}

async fn a_short_output_is_returned_whole_and_has_no_file(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let text = r"printf 'a\e[31mb\e[0m\n10%%\r100%%\n'; echo oops >&2; exit 3";
    let ran = run(daemon, &sandbox, text, OutputOptions::default()).await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("ab\n100%\n", "oops\n"));
    assert_eq!((ran.exit_code, ran.reason, ran.signal.as_deref()), (3, EndReason::Exited, None));
    assert_eq!((ran.truncated, ran.dropped_bytes, ran.output_complete), (false, 0, true));
    assert_eq!(ran.output_path, None);
    assert_eq!(daemon.output(&sandbox, "ls -A /vercel/sandbox/outputs").await, "");
}

async fn a_long_output_is_cut_and_its_file_has_all_of_it(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let ran = run(daemon, &sandbox, "seq 100000; echo last >&2", at_most(100)).await;
    let path = format!("/vercel/sandbox/outputs/{}.log", ran.command_id);
    assert_eq!(ran.output_path.as_deref(), Some(path.as_str()));
    assert_eq!((ran.truncated, ran.output_complete, ran.stderr.as_str()), (true, true, "last\n"));
    let notice = format!("\n[588798 bytes (99973 lines) not shown: see {path}]\n");
    let (head, tail) = ran.stdout.split_once(&notice).unwrap_or_else(|| panic!("no notice: {}", ran.stdout));
    assert!(head.starts_with("1\n2\n3\n") && tail.ends_with("\n99999\n100000\n"), "{}", ran.stdout);
    let numbers: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    let written = String::from_utf8(file(daemon, &sandbox, &path).await).unwrap();
    assert!(written.replacen("last\n", "", 1) == numbers, "the file differs");

    // The other ways to read a file accept it too, and name it by its whole path.
    assert_eq!(daemon.client.stat_file(&sandbox, &path).await.unwrap().path, path);
    let listed = daemon.client.list_files(&sandbox, "/vercel/sandbox/outputs", 1, 10, None).await.unwrap();
    assert_eq!(listed.entries.iter().map(|entry| &entry.path).collect::<Vec<_>>(), [&path]);
    let grep = GrepFiles {
        query: "^9999.$".into(),
        path: Some(path.clone()),
        regex: Some(true),
        ..GrepFiles::default()
    };
    let found = daemon.client.grep_files(&sandbox, &grep).await.unwrap();
    assert_eq!((found.matches.len(), &found.matches[0].path), (10, &path));
    let glob = GlobFiles {
        pattern: "*.log".into(),
        path: Some("/vercel/sandbox/outputs".into()),
        ..GlobFiles::default()
    };
    let found = daemon.client.glob_files(&sandbox, &glob).await.unwrap();
    assert_eq!(found.entries[0].path, path);

    // The directory is only for reading, and no path leads out of it.
    let written = daemon.client.put_file(&sandbox, &path, "x", WriteOptions::default()).await;
    assert_eq!(written.unwrap_err().code(), Some(ErrorCode::Refused));
    let around = daemon.client.read_file(&sandbox, "/vercel/sandbox/outputs/../.local/x").await;
    assert_eq!(around.unwrap_err().code(), Some(ErrorCode::Refused));
}

async fn a_stream_reports_the_file(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    for (text, has_file) in [("seq 1000", false), ("seq 10000", true)] {
        let request = StartCommand { save_output: Some(true), ..script(text) };
        let mut records = daemon.client.run(&sandbox, &request).await.unwrap();
        let mut last = None;
        while let Some(record) = records.next().await {
            last = Some(record.unwrap());
        }
        let Some(Record::Exit { output_path, output_complete, .. }) = last else {
            panic!("no end: {last:?}");
        };
        assert_eq!((output_path.is_some(), output_complete), (has_file, has_file.then_some(true)), "{text}");
    }
}

async fn a_file_ends_at_its_limit(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let text = format!("yes | head -c {}", 70 * MIB);
    let command = StartCommand { timeout_ms: Some(120_000), ..script(&text) };
    let request = RunCommand { command, output: Some(at_most(1000)) };
    let ran = daemon.client.run_to_end(&sandbox, &request).await.unwrap();
    assert_eq!((ran.exit_code, ran.truncated, ran.output_complete), (0, true, false));
    let path = ran.output_path.unwrap();
    assert_eq!(daemon.client.stat_file(&sandbox, &path).await.unwrap().size, 64 * MIB);
}

async fn a_link_in_place_of_a_file_is_not_followed(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let id = "cmd_hasALinkAsItsFile1";
    let link = format!("echo mine > precious; ln -s $PWD/precious /vercel/sandbox/outputs/{id}.log");
    daemon.output(&sandbox, &link).await;
    let command = StartCommand { command_id: Some(id.into()), ..script("seq 10000") };
    let request = RunCommand { command, output: Some(at_most(100)) };
    let ran = daemon.client.run_to_end(&sandbox, &request).await.unwrap();
    assert!(ran.output_complete);
    assert_eq!(daemon.output(&sandbox, "cat precious").await, "mine\n");
    assert_eq!(file(daemon, &sandbox, &ran.output_path.unwrap()).await.len(), 48_894);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_room_for_its_file_runs_to_its_end() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    // The agent finds no directory that it can write to, and then a directory in place of the file.
    daemon.output(&sandbox, "chmod 000 /vercel/sandbox/outputs").await;
    let ran = run(&daemon, &sandbox, "seq 100000", at_most(100)).await;
    assert_eq!((ran.exit_code, ran.output_path.as_deref(), ran.output_complete), (0, None, false));
    assert!(ran.stdout.contains("not shown]"), "{}", ran.stdout);

    let id = "cmd_hasADirectoryAsFile";
    daemon.output(&sandbox, &format!("cd /vercel/sandbox; chmod 755 outputs; mkdir outputs/{id}.log")).await;
    let command = StartCommand { command_id: Some(id.into()), ..script("seq 100000") };
    let request = RunCommand { command, output: Some(at_most(100)) };
    let ran = daemon.client.run_to_end(&sandbox, &request).await.unwrap();
    assert_eq!((ran.exit_code, ran.output_path, ran.output_complete), (0, None, false));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_leaves_ends_the_command() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let request = RunCommand { command: script("echo begun > begun; sleep 60"), output: None };
    let (client, id) = (daemon.client.clone(), sandbox.clone());
    let task = tokio::spawn(async move { client.run_to_end(&id, &request).await });
    until("the command has begun", || async {
        daemon.client.read_file(&sandbox, "begun").await.unwrap().is_some()
    })
    .await;
    task.abort();
    until("the command has ended", || async {
        let commands = daemon.client.commands(&sandbox, 10).await.unwrap().commands;
        commands.iter().all(|command| command.state == CommandState::Ended)
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_text_body_is_a_script() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let path = format!("/v1/sandboxes/{}/commands", daemon.sandbox("chat:1").await);
    let post = |path: String, body: &'static [u8]| {
        let request = api.with_token("POST", &path).header("content-type", "text/plain; charset=utf-8");
        Answer::to(request.body(body))
    };
    let ran = post(format!("{path}:run"), b"x='\"quoted\"'\necho $x $0").await;
    assert_eq!((ran.status, &ran.json()["stdout"]), (200, &json!("\"quoted\" bash\n")));
    let started = post(path.clone(), b"exit 7").await;
    let id = started.json()["commandId"].as_str().unwrap().to_owned();
    assert_eq!(api.get(&format!("{path}/{id}/wait")).await.json()["exitCode"], 7);
    post(path.clone(), b"echo \xff").await.faults("body", "not UTF-8");
    post(path.clone(), b"echo \0").await.faults("script", "NUL");
    let form = api.with_token("POST", &path).header("content-type", "text/html").body("echo");
    Answer::to(form).await.refused(ErrorCode::UnsupportedMediaType, "another type");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_output_options_name_their_field() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let path = format!("/v1/sandboxes/{}/commands:run", daemon.sandbox("chat:1").await);
    for (output, field) in [
        (json!([]), "output"),
        (json!({ "keep": "middle" }), "output.keep"),
        (json!({ "maxChars": 0 }), "output.maxChars"),
        (json!({ "maxChars": 1_000_001 }), "output.maxChars"),
        (json!({ "maxChars": -1 }), "output.maxChars"),
        (json!({ "maxTokens": 250_001 }), "output.maxTokens"),
        (json!({ "maxChars": 1, "maxTokens": 1 }), "output.maxTokens"),
    ] {
        let answer = api.post(&path, &json!({ "script": "true", "output": output })).await;
        answer.faults(field, &output.to_string());
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_below_a_second_holds() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let command = StartCommand { timeout_ms: Some(100), ..script("exec sleep 60") };
    let ran = daemon.client.run_to_end(&sandbox, &RunCommand { command, output: None }).await.unwrap();
    assert_eq!((ran.reason, ran.exit_code), (EndReason::Timeout, 124));
    assert!((100..1000).contains(&ran.duration_ms), "{} ms", ran.duration_ms);
    daemon.stop().await;
}
