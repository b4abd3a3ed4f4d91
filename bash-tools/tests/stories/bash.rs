//! The bash tool: a command's output appears while it runs, its end is reported once, and it ends when its stream is
//! dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bash_tools::session::ChatKey;
use bash_tools::tools::anthropic::ShellInput;
use bash_tools::tools::{
    BashInput, BashOutput, CANCELLED, CommandHooks, Error, FLUSH_AFTER, KeptPart, OutputPart, RUNNING,
    TIMED_OUT, Toolkit,
};
use futures::StreamExt;
use test_daemon::until;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::fixture::{Fixture, all, command, key, limits, over_each_provider, run, values};

over_each_provider!(
    a_command_is_reported_from_its_start_to_its_end,
    output_is_flushed_without_further_output,
    the_end_of_long_output_is_kept_and_the_rest_counted,
    a_call_chooses_what_is_kept_of_long_output,
    a_character_in_several_writes_is_joined,
    a_timeout_keeps_the_output,
    a_cancelled_command_reports_it_and_has_ended,
    a_command_without_a_listener_is_ended,
    whole_responses_keep_the_beginning,
    every_command_is_a_separate_script,
    background_servers_do_not_delay_the_end,
    hooks_rewrite_refuse_and_redact_commands,
);

async fn a_command_is_reported_from_its_start_to_its_end(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let values = values(&tools, "echo out; echo err >&2; sleep 0.5; echo more; exit 3").await;
    let (last, before) = values.split_last().unwrap();
    assert_eq!(
        (before[0].exit_code, before[0].stdout.as_str()),
        (RUNNING, ""),
        "the first value reports that it runs"
    );
    assert!(before.iter().all(|value| value.exit_code == RUNNING), "{values:?}");
    assert!(before.iter().any(|value| value.stdout == "out\n" && value.stderr == "err\n"), "{values:?}");
    assert_eq!((last.exit_code, last.stdout.as_str(), last.stderr.as_str()), (3, "out\nmore\n", "err\n"));
    let json = serde_json::to_value(last).unwrap();
    assert_eq!(json, serde_json::json!({"stdout": "out\nmore\n", "stderr": "err\n", "exitCode": 3}));
}

async fn output_is_flushed_without_further_output(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let mut values =
        Box::pin(tools.bash(command("echo a; sleep 0.01; echo b; exec sleep 10"), CancellationToken::new()));
    let mut seen_at = None;
    let shown = async {
        while let Some(value) = values.next().await {
            let value = value.unwrap();
            if !value.stdout.is_empty() {
                seen_at.get_or_insert_with(Instant::now);
            }
            if value.stdout == "a\nb\n" {
                return seen_at.unwrap().elapsed();
            }
        }
        panic!("the command ended without both lines");
    };
    let waited = timeout(Duration::from_secs(9), shown).await.expect("both lines while the command sleeps");
    assert!(waited < FLUSH_AFTER * 10, "{waited:?}");
}

async fn the_end_of_long_output_is_kept_and_the_rest_counted(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let output = run(&tools, "seq 1 200000; yes é | head -n 2000 >&2").await;
    let all: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(output.stdout, all[all.len() - 1000..]);
    assert_eq!(output.stdout_truncated_chars, Some(all.len() as u64 - 1000));
    assert_eq!(output.stderr, "é\n".repeat(250));
    assert_eq!(output.stderr_truncated_chars, Some(3500));
    assert_eq!(output.exit_code, 0);
}

async fn a_call_chooses_what_is_kept_of_long_output(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let numbers: String = (1..=500).map(|number| format!("{number}\n")).collect();
    let input = |keep, max_chars, max_tokens| BashInput {
        output: Some(OutputPart { keep, max_chars, max_tokens }),
        ..command("seq 1 500")
    };
    let shown = async |input| all(tools.bash(input, CancellationToken::new())).await.pop().unwrap();
    let head = shown(input(Some(KeptPart::Head), Some(300), None)).await;
    assert_eq!((head.stdout.as_str(), head.stdout_truncated_chars), (&numbers[..300], Some(1592)));
    let both = shown(input(Some(KeptPart::Both), None, Some(100))).await;
    let rest = numbers.len() - 200;
    let expected = format!("{}\n[1492 characters not shown]\n{}", &numbers[..200], &numbers[rest..]);
    assert_eq!(both.stdout, expected);
    let whole = async |input| tools.bash_whole(input, CancellationToken::new()).await;
    let tail = whole(input(Some(KeptPart::Tail), Some(300), None)).await.unwrap();
    let expected =
        format!("[stdout truncated: 1592 characters removed]\n\n{}", &numbers[numbers.len() - 300..]);
    assert_eq!(tail.stdout, expected);
    assert!(whole(input(None, Some(300), None)).await.unwrap().stdout.starts_with("1\n2\n"));
    for (max_chars, max_tokens, problem) in [
        (Some(0), None, "`output.maxChars` must be from 1 to 1000"),
        (Some(1001), None, "`output.maxChars` must be from 1 to 1000"),
        (None, Some(251), "`output.maxTokens` must be from 1 to 250"),
        (Some(1), Some(1), "`output` has both maxChars and maxTokens"),
    ] {
        let rejected = whole(input(None, max_chars, max_tokens)).await.unwrap_err().to_string();
        assert_eq!(rejected, problem);
        let mut values = Box::pin(tools.bash(input(None, max_chars, max_tokens), CancellationToken::new()));
        assert_eq!(values.next().await.unwrap().unwrap_err().to_string(), problem);
        assert!(values.next().await.is_none());
    }
}

async fn a_character_in_several_writes_is_joined(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let output = run(&tools, r"printf '\xf0\x9f'; sleep 0.3; printf '\x98\x80|\xff|\xe2\x82'").await;
    assert_eq!(output.stdout, "\u{1f600}|\u{fffd}|\u{fffd}");
}

fn with_timeout(fixture: &Fixture, chat: &str, seconds: u64) -> Toolkit {
    let mut limits = limits();
    limits.timeout = Duration::from_secs(seconds);
    Toolkit::new(fixture.sessions(2), key(chat), limits)
}

async fn a_timeout_keeps_the_output(fixture: &Fixture) {
    let tools = with_timeout(fixture, "1", 1);
    let output = run(&tools, "echo so far; echo trouble >&2; sleep 60").await;
    assert_eq!((output.exit_code, output.stdout.as_str()), (TIMED_OUT, "so far\n"));
    assert_eq!(output.stderr, "trouble\nCommand timed out after 1000ms.");
    let own = run(&tools, "exit 124").await;
    assert_eq!((own.exit_code, own.stderr.as_str()), (124, ""), "its own exit code is not a timeout");
}

async fn a_cancelled_command_reports_it_and_has_ended(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let cancel = CancellationToken::new();
    let mut values =
        Box::pin(tools.bash(command("echo $$ >pid; echo begun; exec sleep 300"), cancel.clone()));
    while values.next().await.unwrap().unwrap().stdout.is_empty() {}
    cancel.cancel();
    let rest = all(values).await;
    let last = rest.last().unwrap();
    assert_eq!((last.exit_code, last.stdout.as_str()), (CANCELLED, "begun\n"));
    assert_eq!(last.stderr, "Command was cancelled.");
    gone(&tools).await;
}

async fn a_command_without_a_listener_is_ended(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let mut values =
        Box::pin(tools.bash(command("echo $$ >pid; echo begun; exec sleep 300"), CancellationToken::new()));
    while values.next().await.unwrap().unwrap().stdout.is_empty() {}
    drop(values);
    gone(&tools).await;
}

/// Waits until the process in `pid` has ended.
async fn gone(tools: &Toolkit) {
    until("the command has ended", || async {
        run(tools, "kill -0 $(cat pid) 2>/dev/null || echo gone").await.stdout == "gone\n"
    })
    .await;
}

async fn whole_responses_keep_the_beginning(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let whole = |script: &str| tools.bash_whole(command(script), CancellationToken::new());
    let output =
        whole("printf 'a%.0s' {1..990}; printf '\\n\\n\\n         bcd'; echo oh >&2; exit 1").await.unwrap();
    assert_eq!(output.stdout, format!("{}\n\n[stdout truncated: 5 characters removed]", "a".repeat(990)));
    assert_eq!((output.exit_code, output.stderr.as_str()), (1, "oh\n"));
    let short = whole("echo short").await.unwrap();
    assert_eq!(short.stdout, "short\n");
}

async fn every_command_is_a_separate_script(fixture: &Fixture) {
    let tools = fixture.tools("1");
    assert_eq!(run(&tools, "pwd").await.stdout, "/vercel/sandbox/workspace\n");
    assert_eq!(run(&tools, "# a comment alone").await.exit_code, 0);
    assert_eq!(run(&tools, "false || echo or").await.stdout, "or\n");
    assert_eq!(run(&tools, "cat <<'END'\n$HOME\nEND").await.stdout, "$HOME\n");
    assert_eq!(run(&tools, "cd /; x=1").await.exit_code, 0);
    assert_eq!(run(&tools, "echo \"$PWD $x\"").await.stdout, "/vercel/sandbox/workspace \n");
    assert_ne!(run(&tools, "if true; then").await.exit_code, 0);
    assert_eq!(run(&tools, "python --version >/dev/null && echo there").await.stdout, "there\n");
    let own = "mkdir -p .remcochat/bin && printf '#!/bin/sh\\necho mine\\n' >.remcochat/bin/node && chmod +x .remcochat/bin/node";
    assert_eq!(run(&tools, own).await.exit_code, 0);
    assert_eq!(run(&tools, "node").await.stdout, "mine\n");
}

async fn background_servers_do_not_delay_the_end(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let began = Instant::now();
    let output = run(&tools, "sleep 15 >/dev/null 2>&1 & echo started").await;
    assert_eq!((output.exit_code, output.stdout.as_str()), (0, "started\n"));
    assert!(began.elapsed() < Duration::from_secs(12));
}

/// Rewrites one word, refuses another, and redacts a third.
#[derive(Debug)]
struct Guard;

#[async_trait]
impl CommandHooks for Guard {
    async fn before(&self, chat: &ChatKey, command: String) -> Result<String, String> {
        assert_eq!(*chat, key("1"));
        if command.contains("forbidden") {
            Err("it is forbidden".into())
        } else {
            Ok(command.replace("old", "new"))
        }
    }

    fn after(&self, _: &ChatKey, mut output: BashOutput) -> BashOutput {
        output.stdout = output.stdout.replace("hunter2", "[secret]");
        output.exit_code = if output.exit_code == 9 { RUNNING } else { output.exit_code };
        output
    }
}

async fn hooks_rewrite_refuse_and_redact_commands(fixture: &Fixture) {
    let tools = fixture.tools("1").with_hooks(Arc::new(Guard));
    let values = values(&tools, "echo old hunter2; sleep 0.5; echo more; exit 9").await;
    assert!(values.iter().all(|value| !value.stdout.contains("hunter2")), "{values:?}");
    assert!(
        values.iter().any(|value| value.exit_code == RUNNING && value.stdout == "new [secret]\n"),
        "{values:?}"
    );
    let last = values.last().unwrap();
    assert_eq!((last.exit_code, last.stdout.as_str()), (9, "new [secret]\nmore\n"));
    let whole = tools.bash_whole(command("echo old; echo hunter2"), CancellationToken::new()).await.unwrap();
    assert_eq!((whole.exit_code, whole.stdout.as_str()), (0, "new\n[secret]\n"));
    let refused = tools.bash_whole(command("touch forbidden"), CancellationToken::new()).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { reason } if reason == "it is forbidden"), "{refused}");
    let shell = |command: &str| ShellInput { command: Some(command.into()), restart: None };
    let outputs = all(tools.shell(shell("word=old; echo $word hunter2"), CancellationToken::new())).await;
    assert_eq!(outputs.last().unwrap().stdout, "new [secret]\n");
    let mut refused = Box::pin(tools.shell(shell("touch forbidden"), CancellationToken::new()));
    assert!(matches!(refused.next().await, Some(Err(Error::Refused { .. }))));
    assert!(refused.next().await.is_none());
    assert_eq!(run(&tools, "ls").await.stdout, "");
}
