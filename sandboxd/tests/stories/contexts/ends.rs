//! How runs and interpreters end: interrupts, timeouts, deaths, restarts.

use std::time::{Duration, Instant};

use futures::future::join_all;
use sandbox_api::ErrorCode;
use sandbox_api::context::{Language, OpenContext, RunCode, RunStatus};
use sandbox_api::sandbox::CreateSandbox;

use crate::support::harness::{Daemon, DaemonProcess, Home, free_port, until};
use crate::support::limits::{sandbox_with, small};
use crate::support::runs::{Interpreter, rest_of};

const LANGUAGES: [Language; 4] =
    [Language::Python, Language::Javascript, Language::Typescript, Language::Bash];

/// Code that prints `begun` and then computes forever.
fn endless(language: Language) -> &'static str {
    match language {
        Language::Python => "kept = 1\nprint('begun', flush=True)\nwhile True: pass",
        Language::Javascript | Language::Typescript => "var kept = 1; console.log('begun'); for (;;) {}",
        Language::Bash => "kept=1; echo begun; while :; do :; done; echo not reached",
    }
}

/// Code that prints what the endless one has kept.
fn kept(language: Language) -> &'static str {
    match language {
        Language::Python => "print(kept)",
        Language::Javascript | Language::Typescript => "console.log(kept)",
        Language::Bash => "echo $kept",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_a_busy_loop_and_keeps_the_state() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for language in LANGUAGES {
        let interpreter = Interpreter::open(&daemon, &sandbox, language).await;
        assert!(!interpreter.interrupt().await, "{language:?}: nothing runs");
        let records = interpreter.begin(endless(language), "begun").await;
        let refused = interpreter.client.run_code(&sandbox, &interpreter.id, &RunCode::new("1")).await;
        assert_eq!(
            refused.unwrap_err().code(),
            Some(ErrorCode::WrongState),
            "{language:?}: one run at a time"
        );
        assert!(interpreter.interrupt().await);
        let ran = rest_of(records).await;
        assert_eq!(
            (ran.status, ran.state_lost),
            (Some(RunStatus::Interrupted), false),
            "{language:?}: {ran:?}"
        );
        let ran = interpreter.run(kept(language)).await;
        assert_eq!((ran.stdout.as_str(), ran.restarted), ("1\n", false), "{language:?}: {ran:?}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_interrupts_and_then_kills() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for language in LANGUAGES {
        let interpreter = Interpreter::open(&daemon, &sandbox, language).await;
        let ran = interpreter.run_within(endless(language), Some(1500)).await;
        assert_eq!((ran.status, ran.state_lost), (Some(RunStatus::Timeout), false), "{language:?}: {ran:?}");
        assert_eq!(interpreter.run(kept(language)).await.stdout, "1\n", "{language:?}");
    }
    let stubborn = Interpreter::open(&daemon, &sandbox, Language::Python).await;
    let ignored = "import signal\nx = 1\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    let began = Instant::now();
    let ran = stubborn.run_within(ignored, Some(500)).await;
    assert_eq!((ran.status, ran.state_lost), (Some(RunStatus::Timeout), true), "{ran:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let ran = stubborn.run("'x' in globals()").await;
    assert_eq!((ran.text(), ran.restarted), ("False", true));
    assert!(!stubborn.run("1").await.restarted);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_run_after_a_death_says_that_it_is_a_fresh_one() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let deaths = [
        (
            Language::Python,
            "print('last words', flush=True)\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        ),
        (Language::Javascript, "console.log('last words'); process.exit(3)"),
        (
            Language::Typescript,
            "const words: string = 'last words'; console.log(words); process.kill(process.pid, 'SIGKILL')",
        ),
        (Language::Bash, "echo last words; exit 3"),
    ];
    for (language, death) in deaths {
        let interpreter = Interpreter::open(&daemon, &sandbox, language).await;
        let ran = interpreter.run(death).await;
        assert_eq!(ran.stdout, "last words\n", "{language:?}");
        assert_eq!((ran.status, ran.state_lost), (Some(RunStatus::Died), true), "{language:?}: {ran:?}");
        let ran = interpreter.run(if language == Language::Bash { "echo 1" } else { "1" }).await;
        assert!(ran.is_ok() && ran.restarted, "{language:?}: {ran:?}");
    }
    // Killed by another process while nothing runs.
    let python = Interpreter::open(&daemon, &sandbox, Language::Python).await;
    let pid = python.run("import os; os.getpid()").await.text().to_owned();
    daemon.output(&sandbox, &format!("kill -9 {pid}; while kill -0 {pid} 2>&-; do sleep 0.05; done")).await;
    let ran = python.run("2").await;
    assert_eq!((ran.text(), ran.restarted), ("2", true));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_runs_out_is_named() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with(&daemon, "chat:1", small()).await;
    let python = Interpreter::open(&daemon, &sandbox, Language::Python).await;
    let ran = python.run("x = 1\nhog = []\nwhile True: hog.append(bytearray(b'x') * 2**24)").await;
    assert_eq!((ran.status, ran.state_lost), (Some(RunStatus::OutOfMemory), true), "{ran:?}");
    let ran = python.run("'x' in globals()").await;
    assert_eq!((ran.text(), ran.restarted), ("False", true));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_interrupts_its_run() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let python = Interpreter::open(&daemon, &sandbox, Language::Python).await;
    drop(python.begin("x = 1\nprint('begun', flush=True)\nwhile True: pass", "begun").await);
    let is_idle = async || !daemon.client.context(&sandbox, &python.id).await.unwrap().running;
    until("the run is interrupted", is_idle).await;
    let ran = python.run("x").await;
    assert_eq!((ran.text(), ran.restarted), ("1", false));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_close_and_park_end_everything_of_a_context() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let python = Interpreter::open(&daemon, &sandbox, Language::Python).await;
    let child = "import subprocess\nx = 1\nsubprocess.Popen(['sleep', '987']).pid > 0";
    let sleepers = "pgrep -fc '^sleep 987' || true";
    assert_eq!(python.run(child).await.text(), "True");
    assert_eq!(daemon.output(&sandbox, sleepers).await, "1\n", "a child outlives its run");
    python.restart().await;
    assert_eq!(daemon.output(&sandbox, sleepers).await, "0\n");
    let ran = python.run("'x' in globals()").await;
    assert_eq!((ran.text(), ran.restarted), ("False", false));

    assert_eq!(python.run(child).await.text(), "True");
    python.close().await;
    assert_eq!(daemon.output(&sandbox, sleepers).await, "0\n");
    let gone = python.client.run_code(&sandbox, &python.id, &RunCode::new("1")).await.unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::NotFound));

    let parked = Interpreter::open(&daemon, &sandbox, Language::Python).await;
    daemon.client.park(&sandbox, false).await.unwrap();
    let gone = parked.client.run_code(&sandbox, &parked.id, &RunCode::new("1")).await.unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::NotFound));
    assert!(gone.to_string().contains("parked"), "{gone}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_or_close_ends_the_run_and_says_so() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for language in LANGUAGES {
        let interpreter = Interpreter::open(&daemon, &sandbox, language).await;
        let records = interpreter.begin(endless(language), "begun").await;
        let ((), ran) = tokio::join!(interpreter.restart(), rest_of(records));
        assert_eq!((ran.status, ran.state_lost), (Some(RunStatus::Died), true), "{language:?}: {ran:?}");
        let ran = interpreter.run(kept(language)).await;
        assert_ne!(ran.stdout, "1\n", "{language:?}: the state is lost");
        let records = interpreter.begin(endless(language), "begun").await;
        let ((), ran) = tokio::join!(interpreter.close(), rest_of(records));
        assert_eq!(ran.status, Some(RunStatus::Died), "{language:?}: {ran:?}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemon_interrupts_its_runs_and_keeps_the_state() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let mut interpreters = Vec::new();
    for language in LANGUAGES {
        let opened = daemon.client.open_context(&sandbox, &OpenContext::new(language)).await.unwrap();
        let client = daemon.client.clone();
        interpreters.push(Interpreter { client, sandbox: sandbox.clone(), id: opened.context_id });
    }
    let begun = LANGUAGES.iter().zip(&interpreters);
    let begun = begun.map(|(language, interpreter)| interpreter.begin(endless(*language), "begun"));
    let runs = join_all(begun).await;
    daemon.kill().await;
    drop(runs);
    let daemon = DaemonProcess::start(&home, port).await;
    for (language, interpreter) in LANGUAGES.into_iter().zip(interpreters) {
        let is_idle = async || !daemon.client.context(&sandbox, &interpreter.id).await.unwrap().running;
        until(&format!("{language:?}: the run is interrupted"), is_idle).await;
        let ran = interpreter.run(kept(language)).await;
        assert_eq!((ran.stdout.as_str(), ran.restarted), ("1\n", false), "{language:?}: {ran:?}");
    }
    daemon.kill().await;
}
