//! Output: complete, in order and bounded.

use std::sync::atomic::Ordering::Relaxed;

use futures::StreamExt;
use sandbox_api::command::{EndReason, KillCommand, Record, StartCommand};

use crate::support::harness::{
    Collected, Daemon, DaemonProcess, Home, free_port, outcome, over_each_transport, script, until,
};

over_each_transport!(
    bytes_that_are_not_utf8_are_kept,
    a_character_split_across_writes_stays_whole,
    a_slow_reader_slows_the_command_and_loses_nothing,
    a_late_reader_gets_the_number_of_dropped_bytes,
    an_eight_mebibyte_script_runs,
);

async fn bytes_that_are_not_utf8_are_kept(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let all_bytes = r#"python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 100)'"#;
    let outcome = daemon.run(&sandbox, all_bytes).await;
    let wanted: Vec<u8> = (0..=255).cycle().take(25_600).collect();
    assert!(outcome.stdout == wanted, "the bytes differ");
}

async fn a_character_split_across_writes_stays_whole(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let split = r"printf '\xe2'; sleep 0.1; printf '\x82'; sleep 0.1; printf '\xac!'";
    let mut records = daemon.client.run(&sandbox, &script(split)).await.unwrap();
    let mut texts = Vec::new();
    while let Some(record) = records.next().await {
        if let Record::Stdout(output) = record.unwrap() {
            assert_eq!(output.data_base64, None);
            texts.push(output.data);
        }
    }
    assert_eq!(texts.concat(), "€!");
}

async fn a_slow_reader_slows_the_command_and_loses_nothing(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let request = StartCommand {
        command_id: Some("cmd_writesOneGibibyte".into()),
        timeout_ms: Some(300_000),
        ..script("seq 1 130000000")
    };
    let command = "cmd_writesOneGibibyte".parse().unwrap();
    let mut records = daemon.client.run(&sandbox, &request).await.unwrap();
    let written = || async { daemon.client.inspect(&sandbox, &command).await.unwrap().stdout_bytes };
    let before = std::sync::atomic::AtomicU64::new(0);
    until("the command waits for its reader", || async {
        let now = written().await;
        now > 0 && before.swap(now, Relaxed) == now
    })
    .await;
    let before = before.into_inner();
    assert!(before < 64 * 1024 * 1024, "{before} bytes are in flight");
    // Other clients are served meanwhile.
    let other = daemon.sandbox("chat:2").await;
    assert_eq!(daemon.output(&other, "echo hi").await, "hi\n");
    assert_eq!(daemon.output(&sandbox, "echo hi").await, "hi\n");

    let mut collected = Collected::default();
    while collected.stdout.len() < 40 * 1024 * 1024 {
        collected.take(records.next().await.unwrap().unwrap());
    }
    let lines = collected.stdout.split(|byte| *byte == b'\n').take(4_000_000);
    for (expected, line) in (1..).zip(lines) {
        assert_eq!(std::str::from_utf8(line).unwrap().parse(), Ok(expected));
    }
}

async fn a_late_reader_gets_the_number_of_dropped_bytes(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let total = 40 * 1024 * 1024;
    let request = script(&format!("head -c {total} /dev/zero | tr '\\0' x; echo; echo last"));
    let command = daemon.client.start(&sandbox, &request).await.unwrap().command_id;
    daemon.client.wait(&sandbox, &command, None).await.unwrap();
    let beyond = outcome(daemon.client.logs(&sandbox, &command, u64::MAX, true).await.unwrap()).await;
    assert_eq!((beyond.text().as_str(), beyond.dropped_bytes), ("", 0));
    let received = outcome(daemon.client.logs(&sandbox, &command, 0, true).await.unwrap()).await;
    assert!(received.dropped_bytes > 0, "40 MiB exceed what is kept");
    assert_eq!(received.dropped_bytes as usize + received.stdout.len(), total + "\nlast\n".len());
    assert!(received.stdout.ends_with(b"x\nlast\n"));
}

async fn an_eight_mebibyte_script_runs(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let tail = "\necho \"$x\" \"$0\" \"$#\"; exit 5";
    let filler = format!("x=begun # é\n{}", "# filler\n".repeat(8 * 1024 * 1024 / 9));
    let mut long = filler[..8 * 1024 * 1024 - tail.len()].to_owned();
    long.push_str(tail);
    assert_eq!(long.len(), 8 * 1024 * 1024);
    let received = daemon.run(&sandbox, &long).await;
    assert_eq!((received.text().as_str(), received.exit_code), ("begun bash 0\n", 5));

    long.push(' ');
    let error = daemon.client.run(&sandbox, &script(&long)).await.map(drop).unwrap_err();
    assert_eq!(error.code(), Some(sandbox_api::ErrorCode::TooLarge));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemon_loses_and_repeats_no_record() {
    let home = Home::new();
    let port = free_port();
    let daemon = DaemonProcess::start(&home, port).await;
    let request = sandbox_api::sandbox::CreateSandbox { session_key: "chat:1".into(), ..Default::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let count = 3_000_000;
    let request = StartCommand {
        command_id: Some("cmd_printsAllItsNumbers".into()),
        timeout_ms: Some(120_000),
        ..script(&format!("seq 1 {count}"))
    };
    let command = "cmd_printsAllItsNumbers".parse().unwrap();
    let mut records = daemon.client.run(&sandbox, &request).await.unwrap();
    let mut collected = Collected::default();
    while collected.stdout.len() < 2 * 1024 * 1024 {
        collected.take(records.next().await.unwrap().unwrap());
    }
    daemon.kill().await;
    // Records that arrived before the connection broke count as read.
    while let Some(Ok(record)) = records.next().await {
        collected.take(record);
    }

    let daemon = DaemonProcess::start(&home, port).await;
    let after = *collected.seqs.last().unwrap();
    let rest = outcome(daemon.client.logs(&sandbox, &command, after, true).await.unwrap()).await;
    assert_eq!((rest.exit_code, rest.reason, rest.dropped_bytes), (0, EndReason::Exited, 0));
    assert_eq!(rest.seqs.first(), Some(&(after + 1)));
    let all = [collected.stdout, rest.stdout].concat();
    let wanted: String = (1..=count).map(|number| format!("{number}\n")).collect();
    assert!(all == wanted.as_bytes(), "the numbers differ");
    let killed = daemon.client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
    assert!(killed.already_ended);
    daemon.client.delete(&sandbox).await.unwrap();
    daemon.kill().await;
}
