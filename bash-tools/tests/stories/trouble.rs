//! Errors when sandboxd is full, away, unhealthy or silent, and streams that are not read to their end.

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use bash_tools::provider;
use bash_tools::session::{Error as SessionError, SessionLimits, SessionState, Sessions};
use bash_tools::tools::{Error, Toolkit};
use futures::{FutureExt, StreamExt};
use sandbox_client::Client;
use test_daemon::{Daemon, Home, TOKEN, free_port, until};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::fixture::{Fixture, command, key, limits, over_each_provider, run, sandboxd};

over_each_provider!(
    a_stream_can_be_dropped_at_any_time,
    a_caller_that_disconnects_during_the_start_ends_the_command,
    two_turns_of_a_chat_do_not_disturb_each_other,
);

async fn a_caller_that_disconnects_during_the_start_ends_the_command(fixture: &Fixture) {
    let tools = fixture.tools("1");
    run(&tools, "true").await;
    for after_ms in [0, 1, 2, 3, 5, 8, 12, 20].repeat(3) {
        let values = tools.bash(command("exec sleep 987.25"), CancellationToken::new());
        let _ = timeout(Duration::from_millis(after_ms), values.collect::<Vec<_>>()).await;
    }
    let count = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx '987[.]25'";
    until("all commands have ended", || async { run(&tools, count).await.stdout == "0\n" }).await;
}

async fn a_stream_can_be_dropped_at_any_time(fixture: &Fixture) {
    let sessions = fixture.sessions(1);
    let tools = Toolkit::new(sessions.clone(), key("1"), limits());
    for taken in 0..4 {
        let mut values =
            Box::pin(tools.bash(command("echo 1; sleep 0.3; echo 2; exit 3"), CancellationToken::new()));
        if taken == 0 {
            assert!(values.next().now_or_never().is_none(), "the sandbox is not ready at once");
        }
        for _ in 0..taken {
            values.next().await.unwrap().unwrap();
        }
        drop(values);
    }
    drop(tools.bash(command("echo never executed >file"), CancellationToken::new()));
    assert_eq!(run(&tools, "ls").await.stdout, "");
    until("no stream holds its session", || async { sessions.lease(&key("2")).await.is_ok() }).await;
}

async fn two_turns_of_a_chat_do_not_disturb_each_other(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let (first, second) = (run(&tools, "sleep 0.5; echo first"), run(&tools, "echo second; exit 2"));
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.stdout.as_str(), first.exit_code), ("first\n", 0));
    assert_eq!((second.stdout.as_str(), second.exit_code), ("second\n", 2));
}

fn tools_at(client: Client, chat: &str) -> (Sessions, Toolkit) {
    let limits = SessionLimits { max_open: 3, idle_ttl: Duration::from_secs(600) };
    let sessions = Sessions::new(sandboxd(client), None, limits);
    (sessions.clone(), Toolkit::new(sessions, key(chat), crate::fixture::limits()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_with_a_lower_limit_than_the_app_is_named() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_MAX_CONCURRENT", "1")).await;
    let (sessions, tools) = tools_at(daemon.client.clone(), "1");
    let mut values = Box::pin(tools.bash(command("echo begun; exec sleep 100"), CancellationToken::new()));
    while values.next().await.unwrap().unwrap().stdout.is_empty() {}
    let refused = sessions.lease(&key("2")).await.unwrap_err();
    assert!(matches!(refused, SessionError::ProviderFull(_)), "{refused:?}");
    let words = refused.to_string();
    assert!(
        words.contains("SANDBOXD_MAX_CONCURRENT") && words.contains("max_concurrent_sandboxes"),
        "{words}"
    );
    assert!(matches!(sessions.state(&key("2")), SessionState::Failed { .. }));
    drop(values);
    until("another session can start", || async { sessions.lease(&key("2")).await.is_ok() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_daemon_has_the_chats_sandbox() {
    let home = Home::new();
    let daemon = Daemon::start_in(home).await;
    let (_, tools) = tools_at(daemon.client.clone(), "1");
    assert_eq!(run(&tools, "echo kept >file").await.exit_code, 0);
    let home = daemon.stop().await;
    let away = tools.bash(command("true"), CancellationToken::new()).collect::<Vec<_>>().await;
    assert!(matches!(away[..], [Err(Error::Provider(provider::Error::Broken(_)))]), "{away:?}");

    let daemon = Daemon::start_in(home).await;
    let (_, tools) = tools_at(daemon.client.clone(), "1");
    assert_eq!(run(&tools, "cat file").await.stdout, "kept\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unhealthy_daemon_is_reported_and_retried() {
    let answer = || async {
        let body =
            r#"{"error":"the engine does not answer","code":"unavailable","details":{},"requestId":"req_1"}"#;
        (StatusCode::SERVICE_UNAVAILABLE, body)
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
    let (sessions, tools) = tools_at(Client::new(base, TOKEN).unwrap(), "1");
    for _ in 0..2 {
        let reported = tools.read_file(Default::default()).await.unwrap_err();
        assert!(reported.to_string().contains("the engine does not answer"), "{reported}");
    }
    assert!(matches!(sessions.state(&key("1")), SessionState::Failed { .. }));
}

/// With paused time, which advances whenever all tasks are idle.
#[tokio::test(start_paused = true)]
async fn a_daemon_that_never_responds_times_out() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", silent.local_addr().unwrap());
    let (_, tools) = tools_at(Client::new(base, TOKEN).unwrap(), "1");
    let cancel = CancellationToken::new();
    let values = tools.bash(command("true"), cancel.clone()).collect::<Vec<_>>().await;
    assert!(matches!(values[..], [Err(Error::Session(SessionError::Provider(_)))]), "{values:?}");
    let unreachable = format!("http://127.0.0.1:{}", free_port());
    let (_, tools) = tools_at(Client::new(unreachable, TOKEN).unwrap(), "1");
    let reported =
        tools.write_file(bash_tools::tools::WriteFileInput { path: "a".into(), content: "b".into() });
    assert!(matches!(reported.await, Err(Error::Session(SessionError::Provider(_)))));
}
