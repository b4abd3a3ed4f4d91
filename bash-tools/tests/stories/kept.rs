//! Commands that continue without the app that has started them.

use std::time::Duration;

use bash_tools::provider::CommandId;
use bash_tools::session::{SessionLimits, Sessions};
use bash_tools::tools::{CANCELLED, Error, Toolkit, WriteFileInput};
use futures::StreamExt;
use sandbox_client::Client;
use test_daemon::{DaemonProcess, Home, TOKEN, free_port};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::fixture::{Fixture, all, command, key, limits, run, sandboxd};

/// Says that it has begun, waits for a file, and counts how often it has run.
const WAITING: &str = "echo x >>runs; echo begun; until [[ -e go ]]; do sleep 0.1; done; wc -l <runs; exit 3";

fn id() -> CommandId {
    CommandId::random().unwrap()
}

async fn begin(tools: &Toolkit, id: &CommandId, script: &str) {
    let values = tools.keeping(id.clone()).bash(command(script), CancellationToken::new());
    let mut values = Box::pin(values);
    while values.next().await.unwrap().unwrap().stdout.is_empty() {}
}

async fn let_go(tools: &Toolkit) {
    tools.write_file(WriteFileInput { path: "go".into(), content: String::new() }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_command_continues_and_is_followed_by_another_instance() {
    let fixture = Fixture::docker().await;
    let (tools, id) = (fixture.tools("1"), id());
    begin(&tools, &id, WAITING).await;
    let other = fixture.tools("1");
    let follow = || other.follow(id.clone(), command(WAITING), CancellationToken::new());
    let mut values = Box::pin(follow());
    while values.next().await.unwrap().unwrap().stdout != "begun\n" {}
    let_go(&other).await;
    let last = all(values).await.pop().unwrap();
    assert_eq!((last.stdout.as_str(), last.exit_code), ("begun\n1\n", 3));
    // Also when it has ended.
    assert_eq!(all(follow()).await.pop().unwrap(), last);
    // The same id is the same command.
    let again = tools.keeping(id.clone()).bash(command(WAITING), CancellationToken::new());
    assert_eq!(all(again).await.pop().unwrap(), last);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_kept_command_has_ended() {
    let fixture = Fixture::docker().await;
    let (tools, id) = (fixture.tools("1"), id());
    begin(&tools, &id, "echo $$ >pid; echo begun; exec sleep 300").await;
    let cancel = CancellationToken::new();
    let mut values = Box::pin(tools.follow(id, command(""), cancel.clone()));
    while values.next().await.unwrap().unwrap().stdout.is_empty() {}
    cancel.cancel();
    assert_eq!(all(values).await.pop().unwrap().exit_code, CANCELLED);
    let is_gone = "kill -0 $(cat pid) 2>/dev/null || echo gone";
    assert_eq!(run(&tools, is_gone).await.stdout, "gone\n");
    // Also one that is just starting.
    for after_ms in [0, 1, 2, 3, 5, 8, 12, 20] {
        let cancel = CancellationToken::new();
        let values = tools.keeping(self::id()).bash(command("exec sleep 987.25"), cancel.clone());
        let cancelling = async {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            cancel.cancel();
        };
        tokio::join!(all(values), cancelling);
    }
    let count = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx '987[.]25'";
    assert_eq!(run(&tools, count).await.stdout, "0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_known_is_not_run_again() {
    for fixture in [Fixture::docker().await, Fixture::vercel().await] {
        let sessions = fixture.sessions(2);
        let tools = Toolkit::new(sessions.clone(), key("1"), limits());
        let follow = |id| {
            let values = tools.follow(id, command("echo never >file"), CancellationToken::new());
            async { Box::pin(values).next().await.unwrap() }
        };
        assert!(matches!(follow(id()).await, Err(Error::NoCommand)));
        assert_eq!(run(&tools, "ls").await.stdout, "");
        let id = id();
        begin(&tools, &id, "echo begun; exec sleep 300").await;
        sessions.delete(&key("1")).await.unwrap();
        assert!(matches!(follow(id).await, Err(Error::NoCommand)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_command_survives_the_daemon() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let client = Client::new(format!("http://127.0.0.1:{port}"), TOKEN).unwrap();
    let session_limits = SessionLimits { max_open: 2, idle_ttl: Duration::from_secs(600) };
    let sessions = Sessions::new(sandboxd(client), None, session_limits);
    let tools = Toolkit::new(sessions, key("1"), limits());
    let values = tools.keeping(id()).bash(command(WAITING), CancellationToken::new());
    let mut values = Box::pin(values);
    while values.next().await.unwrap().unwrap().stdout.is_empty() {}
    daemon.kill().await;
    let daemon = DaemonProcess::start(&home, port).await;
    let_go(&tools).await;
    let last = timeout(Duration::from_secs(60), all(values)).await.unwrap().pop().unwrap();
    assert_eq!((last.stdout.as_str(), last.exit_code), ("begun\n1\n", 3));
    daemon.kill().await;
}
