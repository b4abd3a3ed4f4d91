//! An API that rejects requests, breaks connections, or sends unreadable responses.

use std::time::{Duration, Instant};

use bash_tools::provider::{Credentials, End, EndReason, Error, Provider, Vercel};
use futures::StreamExt;

use super::Story;
use crate::fixture::key;
use crate::vercel_fake::{Fake, Fault, PROJECT, TEAM, TOKEN, request};

#[tokio::test]
async fn retry_after_is_honoured_up_to_a_limit() {
    let story = Story::begin().await;
    let began = Instant::now();
    story.fake.inject_fault("POST", "/cmd", Fault::TooMany(1));
    assert_eq!(story.output("echo done").await, "done\n");
    assert!(began.elapsed() >= Duration::from_secs(1));
    story.fake.inject_fault("POST", "/cmd", Fault::TooMany(21));
    let full = story.start("echo done", 20).await.unwrap_err();
    assert!(
        matches!(full, Error::Full { retry_after: Some(after), .. } if after.as_secs() == 21),
        "{full:?}"
    );
    for _ in 0..3 {
        story.fake.inject_fault("POST", "/cmd", Fault::TooMany(0));
    }
    let full = story.start("echo done", 20).await.unwrap_err();
    assert!(matches!(full, Error::Full { .. }), "{full:?}");
}

#[tokio::test]
async fn only_reads_are_retried() {
    let story = Story::begin().await;
    for fault in [Fault::Refuse(503, "unavailable"), Fault::LoseAnswer] {
        story.fake.inject_fault("GET", "/bash-tools-chat-1", fault);
    }
    story.vercel.url(&story.sandbox, 3000).await.unwrap();
    let url = |_| story.vercel.url(&story.sandbox, 3000);
    for _ in 0..3 {
        story.fake.inject_fault("GET", "/bash-tools-chat-1", Fault::Refuse(500, "internal"));
    }
    let broken = url(()).await.unwrap_err();
    assert!(matches!(broken, Error::Unavailable { .. }), "{broken:?}");

    let commands = story.fake.count("POST", "/cmd");
    story.fake.inject_fault("POST", "/cmd", Fault::FailAfterwards);
    let failed = story.start("sleep 1111", 30).await.unwrap_err();
    assert!(matches!(failed, Error::Unavailable { .. }), "{failed:?}");
    let more = story.fake.count("POST", "/cmd") - commands;
    assert!(more <= 2, "only the command and its end, not {more}");
    story.nothing_runs("1111").await;

    story.fake.inject_fault("POST", "/fs/write", Fault::LoseAnswer);
    let writes = story.fake.count("POST", "/fs/write");
    let write = story.vercel.write_file(&story.sandbox, "a", "b".into()).await;
    assert!(write.is_ok() || matches!(write, Err(Error::Broken(_))), "{write:?}");
    assert_eq!(story.fake.count("POST", "/fs/write"), writes + 1);
}

#[tokio::test]
async fn a_broken_stream_is_resumed_without_loss() {
    let script = "for i in $(seq 1 50); do echo $i; echo é$i >&2; sleep 0.02; done; exit 7";
    let stdout: String = (1..=50).map(|i| format!("{i}\n")).collect();
    let stderr: String = (1..=50).map(|i| format!("é{i}\n")).collect();
    for fault in [Fault::BreakAfter(9), Fault::EndAfter(9), Fault::BreakAfter(1), Fault::EndAfter(2)] {
        let story = Story::begin().await;
        story.fake.inject_fault("POST", "/cmd", fault);
        // The replay also breaks, and once it ends as if it were complete.
        story.fake.inject_fault("GET", "/logs", Fault::BreakAfter(20));
        story.fake.inject_fault("GET", "/logs", Fault::EndAfter(30));
        let received = story.run(script).await;
        assert_eq!((received.stdout.as_str(), received.stderr.as_str()), (&*stdout, &*stderr), "{fault:?}");
        assert_eq!(received.end, Some(End { exit_code: 7, reason: EndReason::Exited }), "{fault:?}");
        assert!(story.fake.count("GET", "/logs") >= 3);
    }
}

#[tokio::test]
async fn a_replay_that_ends_early_is_not_complete() {
    let story = Story::begin().await;
    let script = "for i in $(seq 1 20); do echo $i; sleep 0.02; done; sleep 0.3; echo last";
    story.fake.inject_fault("POST", "/cmd", Fault::BreakAfter(15));
    story.fake.inject_fault("GET", "/logs", Fault::EndAfter(18));
    // By then its end is known.
    story.fake.inject_fault("GET", "/logs", Fault::EndAfter(3));
    let stdout: String = (1..=20).map(|i| format!("{i}\n")).collect();
    assert_eq!(story.output(script).await, stdout + "last\n");
}

#[tokio::test]
async fn unreadable_responses_are_errors() {
    let story = Story::begin().await;
    story.fake.inject_fault("POST", "/cmd", Fault::Without("/command", "id"));
    let broken = story.start("sleep 1113", 60).await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)), "{broken:?}");
    story.nothing_runs("1113").await;

    story.fake.inject_fault("POST", "/cmd", Fault::Charset);
    assert_eq!(story.output("echo fine").await, "fine\n");

    story.fake.inject_fault("GET", "/bash-tools-chat-1", Fault::Without("/session", "id"));
    let broken = story.vercel.url(&story.sandbox, 3000).await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)), "{broken:?}");

    story.fake.inject_fault("POST", "/fs/read", Fault::Redirect);
    let broken = story.vercel.read_file(&story.sandbox, "x", 0, 1).await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)), "{broken:?}");
    assert_eq!(story.fake.count("POST", "/elsewhere"), 0, "the token is not sent to another host");

    story.fake.inject_fault("POST", "/cmd", Fault::EndlessLine);
    assert_eq!(story.run("echo once").await.stdout, "once\n", "its replay is complete");
    story.fake.inject_fault("POST", "/cmd", Fault::EndlessLine);
    for _ in 0..9 {
        story.fake.inject_fault("GET", "/logs", Fault::EndlessLine);
    }
    let running = story.start("echo begun; exec sleep 1114", 60).await.unwrap();
    let received: Vec<_> = running.collect().await;
    assert!(matches!(received.last(), Some(Err(Error::Broken(_)))), "{received:?}");
    story.nothing_runs("1114").await;
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let story = Story::begin().await;
    story.fake.inject_fault("POST", "/cmd", Fault::Hang);
    let began = Instant::now();
    let broken = story.start("true", 300).await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)), "{broken:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_rejected_token_is_reported_without_the_token() {
    let fake = Fake::start().await;
    let wrong = Credentials::new("wrong-t0ken".into(), TEAM.into(), PROJECT.into()).unwrap();
    let vercel = Vercel::new(&fake.base, wrong, request()).unwrap();
    let error = vercel.open(&key("1")).await.unwrap_err();
    assert!(matches!(error, Error::Unauthenticated), "{error:?}");
    assert!(!format!("{vercel:?} {error:?} {error}").contains("t0ken"));

    // Every kind of error contains the token in its text.
    let vercel = fake.provider();
    for status in [400, 409, 429, 500] {
        fake.inject_fault("POST", "/sandboxes", Fault::Refuse(status, TOKEN));
        let error = vercel.open(&key("1")).await.unwrap_err();
        let shown = format!("{vercel:?} {error:?} {error}");
        assert!(shown.contains("[the token]") && !shown.contains(TOKEN), "{status}: {shown}");
    }
}

#[tokio::test]
async fn an_unreachable_provider_is_reported() {
    let credentials = Credentials::new(TOKEN.into(), TEAM.into(), PROJECT.into()).unwrap();
    let vercel = Vercel::new("http://127.0.0.1:9/api", credentials, request()).unwrap();
    let broken = vercel.open(&key("1")).await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)) && broken.is_temporary(), "{broken:?}");
    assert!(!format!("{broken:?}").contains(TEAM), "{broken:?}");
}

#[tokio::test]
async fn the_fake_rejects_wrong_requests() {
    let story = Story::begin().await;
    let http = reqwest::Client::new();
    let base = format!("{}/v2/sandboxes", story.fake.base);
    let get = |path: &str| http.get(format!("{base}{path}")).bearer_auth(TOKEN);
    let json = ("content-type", "application/json");
    let team = [("teamId", TEAM)];
    let right = get("/x").header(json.0, json.1).query(&team).query(&[("projectId", PROJECT)]);
    assert_eq!(right.send().await.unwrap().status(), 404);
    assert_eq!(story.fake.violations(), Vec::<String>::new());
    for wrong in [
        get("/x").query(&team).query(&[("projectId", PROJECT)]),
        get("/x").header(json.0, json.1).query(&[("projectId", PROJECT)]),
        get("/x").header(json.0, json.1).query(&team),
        http.post(&base).bearer_auth(TOKEN).query(&team).json(&serde_json::json!({"name": "x"})),
    ] {
        assert_eq!(wrong.send().await.unwrap().status(), 400);
        assert_eq!(story.fake.violations().len(), 1);
    }
}
