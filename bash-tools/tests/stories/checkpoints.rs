//! Checkpoints: undo and branch at any tool call.

use std::sync::Arc;

use bash_tools::provider::{CheckpointId, Docker, DockerOptions};
use bash_tools::session::{SessionLimits, Sessions};
use bash_tools::tools::{ReadFileInput, Toolkit, WriteFileInput};
use test_daemon::{Daemon, until};

use crate::fixture::{key, limits, run, small};

async fn write(tools: &Toolkit, content: &str) {
    let input = WriteFileInput { path: "file".into(), content: content.into() };
    tools.write_file(input).await.unwrap();
}

async fn read(tools: &Toolkit) -> String {
    let input = ReadFileInput { path: "file".into(), ..ReadFileInput::default() };
    tools.read_file(input).await.unwrap().content
}

/// The checkpoint after the last tool call, as soon as it exists.
async fn checkpoint(daemon: &Daemon, tools: &Toolkit) -> CheckpointId {
    let id = tools.checkpoint().await.unwrap().expect("something has changed");
    until("it is made", || async { daemon.client.snapshot(&id).await.is_ok() }).await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_is_undone_and_branched_at_a_tool_call() {
    let daemon = Daemon::start().await;
    let options = DockerOptions { checkpoints: Some(10), ..small() };
    let provider = Arc::new(Docker::new(daemon.client.clone(), options));
    let session_limits = SessionLimits { max_open: 3, idle_ttl: std::time::Duration::from_secs(600) };
    let sessions = Sessions::new(provider, None, session_limits);
    let tools = Toolkit::new(sessions.clone(), key("1"), limits());
    assert_eq!(tools.checkpoint().await.unwrap(), None, "there is no sandbox yet");

    write(&tools, "one").await;
    let first = checkpoint(&daemon, &tools).await;
    run(&tools, "printf two > file").await;
    let second = checkpoint(&daemon, &tools).await;
    assert_ne!(first, second);
    run(&tools, "rm file").await;

    tools.restore(&second).await.unwrap();
    assert_eq!(read(&tools).await, "two");
    tools.branch(&key("2"), &first).await.unwrap();
    let branch = Toolkit::new(sessions, key("2"), limits());
    assert_eq!((read(&branch).await, read(&tools).await), ("one".into(), "two".into()));
    let taken = tools.branch(&key("2"), &second).await.unwrap_err();
    assert!(taken.to_string().contains("already has a sandbox"), "{taken}");
    let missing = tools.restore(&"snap_0123456789abcdef".parse().unwrap()).await.unwrap_err();
    assert!(missing.to_string().contains("snapshot"), "{missing}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_setting_there_are_none() {
    let daemon = Daemon::start().await;
    let provider = Arc::new(Docker::new(daemon.client.clone(), small()));
    let limits_of_sessions = SessionLimits { max_open: 1, idle_ttl: std::time::Duration::from_secs(600) };
    let tools = Toolkit::new(Sessions::new(provider, None, limits_of_sessions), key("1"), limits());
    write(&tools, "one").await;
    assert_eq!(tools.checkpoint().await.unwrap(), None);
    daemon.stop().await;
}
