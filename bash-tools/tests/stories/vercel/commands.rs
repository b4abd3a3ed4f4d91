//! Commands end once, in time, and with all processes that they started.

use std::time::{Duration, Instant};

use bash_tools::provider::{Command, End, EndReason, Environment, Error, Event, Provider};
use futures::StreamExt;
use test_daemon::until;

use super::{SUCCESS, Story, collect};
use crate::vercel_fake::Fault;

#[tokio::test]
async fn a_command_ends_with_all_its_processes() {
    let story = Story::begin().await;
    let script = "echo so far; setsid sleep 1115 & (trap '' TERM; sleep 1115) & sleep 1115";
    let received = collect(story.start(script, 1).await.unwrap()).await;
    assert_eq!(received.end, Some(End { exit_code: 124, reason: EndReason::Timeout }));
    assert_eq!(received.stdout, "so far\n");
    story.nothing_runs("1115").await;

    let mut running = story.start(&script.replace("1115", "1116"), 60).await.unwrap();
    while !matches!(running.next().await, Some(Ok(Event::Stdout(_)))) {}
    drop(running);
    story.nothing_runs("1116").await;

    let server = story.run("sleep 1117 >/dev/null 2>&1 & echo started").await;
    assert_eq!(server.end, SUCCESS);
    assert!(
        !story.output("pgrep -fx 'sleep 1117'").await.is_empty(),
        "a server outlives the command that started it"
    );
}

#[tokio::test]
async fn a_caller_that_disconnects_during_the_start_ends_the_command() {
    let story = Story::begin().await;
    {
        let starting = story.start("sleep 1118", 60);
        tokio::pin!(starting);
        assert!(futures::poll!(&mut starting).is_pending());
    }
    until("the command was ended", || async { story.fake.count("POST", "/kill") == 1 }).await;
    story.nothing_runs("1118").await;
}

#[tokio::test]
async fn a_timeout_is_reported_in_time_even_if_no_process_can_be_ended() {
    let story = Story::begin().await;
    let running = story.start("echo so far; exec sleep 1120", 1).await.unwrap();
    story.fake.inject_fault("POST", "/kill", Fault::Hang);
    story.fake.inject_fault("POST", "/cmd", Fault::Hang);
    let began = Instant::now();
    let received = collect(running).await;
    assert_eq!(received.end, Some(End { exit_code: 124, reason: EndReason::Timeout }));
    assert_eq!(received.stdout, "so far\n");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    until("both were tried", || async { story.fake.count("POST", "/cmd") == 2 }).await;
    // Vercel itself ends it.
    story.nothing_runs("1120").await;
}

#[tokio::test]
async fn exit_code_124_is_not_a_timeout() {
    let story = Story::begin().await;
    for code in [124, 137] {
        let received = story.run(&format!("exit {code}")).await;
        assert_eq!(received.end, Some(End { exit_code: code, reason: EndReason::Exited }));
    }
}

#[tokio::test]
async fn scripts_can_be_longer_than_an_argument() {
    let story = Story::begin().await;
    let lines = "# é, a comment of a line\n".repeat(20_000);
    let script = format!("{lines}echo \"$# $0\"; cat <<'END'\n$HOME\nEND\n");
    assert_eq!(story.output(&script).await, "0 bash\n$HOME\n");
    let refused = story.start(&"x".repeat(1024 * 1024 + 1), 20).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { message } if message.contains("1048576")), "{refused:?}");
    let refused = story.start("echo \0", 20).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_command_ends_with_its_machine() {
    let story = Story::begin().await;
    story.fake.inject_fault("POST", "/cmd", Fault::EndAfter(2));
    let mut running = story.start("echo begun; sleep 1; echo more; sleep 1112", 30).await.unwrap();
    let mut end = None;
    while let Some(event) = running.next().await {
        match event.unwrap() {
            Event::Stdout(_) => story.fake.stop_all(),
            Event::Ended(it) => end = Some(it),
            _ => {}
        }
    }
    assert_eq!(end, Some(End { exit_code: 137, reason: EndReason::Lost }));
}

#[tokio::test]
async fn a_command_has_its_own_variables_and_leaves_none() {
    let story = Story::begin().await;
    let mut command = Command::new("echo \"$OWN\"; bash -c 'echo \"$OWN\"'", Duration::from_secs(20));
    command.environment = Environment::default().with("OWN", "a 'b' é");
    let received = collect(story.vercel.run(&story.sandbox, command).await.unwrap()).await;
    assert_eq!((received.end, received.stdout.as_str()), (SUCCESS, "a 'b' é\na 'b' é\n"));
    assert_eq!(story.output("echo \"${OWN-none}\"").await, "none\n");
}
