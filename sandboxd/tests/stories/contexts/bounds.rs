//! Bounds of contexts and runs, and requests that are refused.

use std::time::{Duration, Instant};

use sandbox_api::ErrorCode;
use sandbox_api::context::{Language, OpenContext, RunCode, RunStatus};
use serde_json::json;

use crate::support::harness::Daemon;
use crate::support::http::HttpClient;
use crate::support::runs::{Interpreter, rest_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_output_and_of_displays_is_cut_and_counted() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let python = Interpreter::open(&daemon, &sandbox, Language::Python).await;
    let ran = python.run("for _ in range(100): print('x' * (1024 * 1024 - 1))\n'end'").await;
    assert_eq!((ran.text(), ran.is_ok()), ("'end'", true));
    let total = 100 * 1024 * 1024;
    assert_eq!(ran.stdout.len() as u64 + ran.dropped_bytes, total);
    assert!(ran.stdout.len() <= 16 * 1024 * 1024, "{}", ran.stdout.len());

    let ran = python.run("for _ in range(40): display('x' * 1024 * 1024)\n'end'").await;
    assert!(ran.is_ok() && ran.dropped_bytes > 20 * 1024 * 1024, "{}", ran.dropped_bytes);
    assert!(ran.displays.len() <= 16, "{}", ran.displays.len());
    let ran = python.run("for n in range(20_000): display(n)").await;
    assert!(ran.is_ok() && ran.displays.len() <= 16 * 1024, "{}", ran.displays.len());
    // One value larger than a record.
    let ran = python.run("'x' * (8 * 1024 * 1024)").await;
    assert!((1024 * 1024..=4 * 1024 * 1024).contains(&ran.text().len()), "{}", ran.text().len());
    daemon.stop().await;
}

/// The exact times are those of the benchmarks. This finds delays that have another cause than work, such as a socket that
/// waits for more data.
#[tokio::test(flavor = "multi_thread")]
async fn a_warm_run_does_not_wait() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for language in [Language::Python, Language::Javascript, Language::Bash] {
        let interpreter = Interpreter::open(&daemon, &sandbox, language).await;
        let mut times = Vec::new();
        for _ in 0..21 {
            let began = Instant::now();
            assert!(interpreter.run("1+1").await.status.is_some());
            times.push(began.elapsed());
        }
        println!("{language:?}: first {:?}", times[0]);
        times.sort();
        println!("{language:?}: median {:?}", times[10]);
        assert!(times[10] < Duration::from_millis(30), "{language:?}: {times:?}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_is_closed_while_its_flood_is_unread() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let python = Interpreter::open(&daemon, &sandbox, Language::Python).await;
    let flood = "print('begun')\nwhile True: print('x' * 65536)";
    let unread = python.begin(flood, "begun").await;
    let bash = Interpreter::open(&daemon, &sandbox, Language::Bash).await;
    let began = Instant::now();
    python.close().await;
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    assert!(bash.run("echo 1").await.is_ok(), "the container was not restarted");
    let status = rest_of(unread).await.status;
    assert!(matches!(status, Some(RunStatus::Died | RunStatus::Interrupted)), "{status:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_names_its_field_or_limit() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let api = HttpClient::of(&daemon);
    let contexts = format!("/v1/sandboxes/{sandbox}/contexts");
    let cases = [
        (json!({}), "language"),
        (json!({ "language": "perl" }), "language"),
        (json!({ "language": "bash", "cwd": 1 }), "cwd"),
        (json!({ "language": "bash", "cwd": "a\0b" }), "cwd"),
        (json!({ "language": "bash", "env": { "a=b": "c" } }), "env.a=b"),
    ];
    for (body, field) in cases {
        let refused = api.post(&contexts, &body).await;
        assert_eq!(
            (refused.status, refused.json()["details"]["field"].as_str()),
            (400, Some(field)),
            "{body}"
        );
    }
    let nowhere = OpenContext { cwd: Some("nowhere".into()), ..OpenContext::new(Language::Bash) };
    let refused = daemon.client.open_context(&sandbox, &nowhere).await.unwrap_err();
    assert!(refused.to_string().contains("nowhere"), "{refused}");
    assert!(daemon.client.contexts(&sandbox).await.unwrap().contexts.is_empty());

    let bash = Interpreter::open(&daemon, &sandbox, Language::Bash).await;
    let run = format!("{contexts}/{}:run", bash.id);
    for (body, field) in [(json!({}), "code"), (json!({ "code": "a\0" }), "code")] {
        let refused = api.post(&run, &body).await;
        assert_eq!(
            (refused.status, refused.json()["details"]["field"].as_str()),
            (400, Some(field)),
            "{body}"
        );
    }
    let long = RunCode::new("#".repeat(1024 * 1024 + 1));
    let refused = bash.client.run_code(&sandbox, &bash.id, &long).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::TooLarge));
    assert!(bash.run(&"#".repeat(1024 * 1024)).await.is_ok(), "the longest code");

    for _ in 1..8 {
        Interpreter::open(&daemon, &sandbox, Language::Bash).await;
    }
    let refused = bash.client.open_context(&sandbox, &OpenContext::new(Language::Bash)).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted));
    bash.close().await;
    Interpreter::open(&daemon, &sandbox, Language::Bash).await;
    daemon.stop().await;
}
