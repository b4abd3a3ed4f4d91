//! Commands: started, streamed, waited for, ended. Each story runs over both agent transports.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use sandbox_api::ErrorCode;
use sandbox_api::command::{CommandState, EndReason, KillCommand, Record, StartCommand};

use crate::support::harness::{Daemon, outcome, over_each_transport, script, until};

over_each_transport!(
    a_script_streams_and_ends_with_its_code,
    a_command_gets_cwd_env_and_stdin,
    a_command_that_cannot_start_says_why,
    a_background_child_does_not_delay_the_end,
    a_timeout_keeps_the_output_so_far,
    a_script_that_ignores_term_is_killed,
    an_exit_code_of_124_is_not_a_timeout,
    a_started_command_is_waited_for_and_read_later,
    the_same_id_is_the_same_command,
    kill_also_ends_daemonised_children,
    leaving_the_stream_ends_the_command,
    leaving_the_stream_of_a_detached_command_does_not,
);

async fn a_script_streams_and_ends_with_its_code(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let outcome = daemon.run(&sandbox, "echo out; echo err >&2; exit 7").await;
    assert_eq!((outcome.exit_code, outcome.reason), (7, EndReason::Exited));
    assert_eq!((outcome.stdout.as_slice(), outcome.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    assert_eq!(outcome.seqs, [1, 2]);
}

async fn a_command_gets_cwd_env_and_stdin(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "mkdir -p a/b").await;
    let request = StartCommand {
        cwd: Some("a/b".into()),
        env: Some(BTreeMap::from([("GREETING".into(), "hé llo".into())])),
        stdin: Some("from stdin".into()),
        ..script("pwd; echo \"$GREETING\"; cat")
    };
    let received = outcome(daemon.client.run(&sandbox, &request).await.unwrap()).await;
    assert_eq!(received.text(), "/vercel/sandbox/workspace/a/b\nhé llo\nfrom stdin");
    let request = StartCommand {
        cmd: Some("printf".into()),
        args: Some(vec!["%s|".into(), "a b".into(), "$HOME".into()]),
        ..StartCommand::default()
    };
    assert_eq!(outcome(daemon.client.run(&sandbox, &request).await.unwrap()).await.text(), "a b|$HOME|");
}

async fn a_command_that_cannot_start_says_why(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let missing = StartCommand { cmd: Some("no-such-program".into()), ..StartCommand::default() };
    let nowhere = StartCommand { cwd: Some("no/such/dir".into()), ..script("true") };
    for (request, step) in [(missing, "exec"), (nowhere, "cwd")] {
        for streamed in [true, false] {
            let error = match streamed {
                true => daemon.client.run(&sandbox, &request).await.map(drop).unwrap_err(),
                false => daemon.client.start(&sandbox, &request).await.map(drop).unwrap_err(),
            };
            assert_eq!(error.code(), Some(ErrorCode::Refused));
            let sandbox_client::Error::Refused { body, .. } = error else { panic!("{error}") };
            assert_eq!(body.details["step"], step);
            assert_eq!(body.details["errno"], 2);
        }
    }
    assert_eq!(daemon.run(&sandbox, "no-such-program").await.exit_code, 127);
}

async fn a_background_child_does_not_delay_the_end(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let outcome = daemon.run(&sandbox, "sleep 60 & echo hi").await;
    assert_eq!((outcome.text().as_str(), outcome.exit_code), ("hi\n", 0));
    assert!(outcome.duration_ms < 10_000, "{} ms", outcome.duration_ms);
    assert_eq!(daemon.output(&sandbox, "pgrep -c sleep").await, "1\n", "the child keeps running");
}

async fn a_timeout_keeps_the_output_so_far(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let request = StartCommand { timeout_ms: Some(1000), ..script("echo partial; sleep 60; echo never") };
    let outcome = outcome(daemon.client.run(&sandbox, &request).await.unwrap()).await;
    assert_eq!((outcome.exit_code, outcome.reason), (124, EndReason::Timeout));
    assert_eq!(outcome.text(), "partial\n");
    assert!((1000..5000).contains(&outcome.duration_ms), "{} ms", outcome.duration_ms);
}

async fn a_script_that_ignores_term_is_killed(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let request = StartCommand {
        timeout_ms: Some(1000),
        ..script("trap '' TERM; echo here; while :; do sleep 0.1; done")
    };
    let outcome = outcome(daemon.client.run(&sandbox, &request).await.unwrap()).await;
    assert_eq!((outcome.exit_code, outcome.reason), (124, EndReason::Timeout));
    assert_eq!(outcome.signal.as_deref(), Some("SIGKILL"));
    assert_eq!(outcome.text(), "here\n");
}

async fn an_exit_code_of_124_is_not_a_timeout(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let outcome = daemon.run(&sandbox, "exit 124").await;
    assert_eq!((outcome.exit_code, outcome.reason), (124, EndReason::Exited));
}

async fn a_started_command_is_waited_for_and_read_later(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let request = script("for i in 1 2 3; do echo $i; sleep 0.1; done; until [ -e go ]; do sleep 0.05; done");
    let command = client.start(&sandbox, &request).await.unwrap().command_id;
    let early = client.wait(&sandbox, &command, Some(Duration::from_millis(200))).await.unwrap_err();
    assert_eq!(early.code(), Some(ErrorCode::DeadlineExceeded));
    assert_eq!(client.inspect(&sandbox, &command).await.unwrap().state, CommandState::Running);
    daemon.output(&sandbox, "touch go").await;

    let ended = client.wait(&sandbox, &command, None).await.unwrap();
    assert_eq!((ended.exit_code, ended.reason), (0, EndReason::Exited));
    let all = outcome(client.logs(&sandbox, &command, 0, true).await.unwrap()).await;
    assert_eq!(all.text(), "1\n2\n3\n");
    let rest = outcome(client.logs(&sandbox, &command, 1, true).await.unwrap()).await;
    assert_eq!((rest.text().as_str(), rest.seqs.as_slice()), ("2\n3\n", &[2, 3][..]));
    let status = client.inspect(&sandbox, &command).await.unwrap();
    assert_eq!((status.state, status.stdout_bytes, status.exit_code), (CommandState::Ended, 6, Some(0)));

    let unknown = "cmd_0000000000000000".parse().unwrap();
    let error = client.wait(&sandbox, &unknown, None).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotFound));
}

async fn the_same_id_is_the_same_command(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let request = StartCommand {
        command_id: Some("cmd_chosenByTheCaller".into()),
        ..script("echo once >> runs; cat runs")
    };
    for _ in 0..3 {
        let outcome = outcome(daemon.client.run(&sandbox, &request).await.unwrap()).await;
        assert_eq!(outcome.text(), "once\n");
    }
    assert_eq!(daemon.client.start(&sandbox, &request).await.unwrap().timeout_ms, 30_000);
    assert_eq!(daemon.output(&sandbox, "wc -l < runs").await, "1\n");
}

async fn kill_also_ends_daemonised_children(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let request = script("setsid sleep 77 & (setsid setsid sleep 78 &) ; touch ready; sleep 79");
    let command = daemon.client.start(&sandbox, &request).await.unwrap().command_id;
    until("the children run", || async {
        daemon.output(&sandbox, "[ -e ready ] && pgrep -c sleep || true").await == "3\n"
    })
    .await;
    let killed = daemon.client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
    assert!(!killed.already_ended);
    // The response means that they have ended, so one look is enough.
    assert_eq!(daemon.run(&sandbox, "pgrep sleep").await.text(), "");
    let ended = daemon.client.wait(&sandbox, &command, None).await.unwrap();
    assert_eq!((ended.exit_code, ended.reason), (143, EndReason::Killed));
    assert_eq!(ended.signal.as_deref(), Some("SIGTERM"));
    let again = daemon.client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
    assert!(again.already_ended);
}

async fn leaving_the_stream_ends_the_command(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let records = daemon.client.run(&sandbox, &script("echo begun; exec sleep 81")).await.unwrap();
    drop(after_first_output(records).await);
    until("the command has ended", || async { daemon.run(&sandbox, "pgrep sleep").await.text().is_empty() })
        .await;
}

async fn leaving_the_stream_of_a_detached_command_does_not(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let request = StartCommand {
        detached: Some(true),
        command_id: Some("cmd_leftBehindByItsReader".into()),
        ..script("echo begun; until [ -e go ]; do sleep 0.05; done; echo done")
    };
    drop(after_first_output(daemon.client.run(&sandbox, &request).await.unwrap()).await);
    daemon.output(&sandbox, "touch go").await;
    let command = "cmd_leftBehindByItsReader".parse().unwrap();
    let received = outcome(daemon.client.logs(&sandbox, &command, 0, true).await.unwrap()).await;
    assert_eq!((received.text().as_str(), received.reason), ("begun\ndone\n", EndReason::Exited));
}

async fn after_first_output(mut records: sandbox_client::Records) -> sandbox_client::Records {
    while let Some(record) = records.next().await {
        if matches!(record.unwrap(), Record::Stdout(_)) {
            return records;
        }
    }
    panic!("the command wrote nothing");
}
