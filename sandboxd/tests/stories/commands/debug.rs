//! `debug`: the commands that bash runs are reported apart from its output.

use sandbox_api::batch::{BatchOutcome, RunBatch};
use sandbox_api::command::{OutputOptions, RunCommand, StartCommand};

use crate::support::harness::{Daemon, outcome, over_each_transport, script, skipped_under_gvisor};

over_each_transport!(a_trace_is_reported_apart_from_the_output);

fn debug(text: &str) -> StartCommand {
    StartCommand { debug: Some(true), ..script(text) }
}

async fn a_trace_is_reported_apart_from_the_output(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let text = "x=1; echo out $x; (echo err >&2); echo \"$(echo inner)\"";
    let trace = "+ x=1\n+ echo out 1\n+ echo err\n++ echo inner\n+ echo inner\n";
    let request = RunCommand { command: debug(text), output: None };
    let ran = daemon.client.run_to_end(&sandbox, &request).await.unwrap();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out 1\ninner\n", "err\n"));
    assert_eq!((ran.trace.as_deref(), ran.truncated, ran.output_complete), (Some(trace), false, true));
    // A stream and the log have it as records, and the byte counts do not include it.
    let read_only = StartCommand { read_only: Some(!skipped_under_gvisor("no Landlock")), ..debug(text) };
    let streamed = outcome(daemon.client.run(&sandbox, &read_only).await.unwrap()).await;
    assert_eq!((streamed.text().as_str(), streamed.trace.as_slice()), ("out 1\ninner\n", trace.as_bytes()));
    let listed = &daemon.client.commands(&sandbox, 1).await.unwrap().commands[0];
    let logged = outcome(daemon.client.logs(&sandbox, &listed.command_id, 0, true).await.unwrap()).await;
    assert_eq!((logged.trace.as_slice(), logged.seqs), (trace.as_bytes(), streamed.seqs));
    assert_eq!((listed.stdout_bytes, listed.stderr_bytes), (12, 4));
    let batch = RunBatch { commands: vec![debug(text), script("true")], ..RunBatch::default() };
    let results = daemon.client.run_batch(&sandbox, &batch).await.unwrap().results;
    let traces = results.into_iter().map(|result| match result.outcome {
        BatchOutcome::Ended(ended) => ended.trace,
        BatchOutcome::NotStarted(fault) => panic!("{fault:?}"),
    });
    assert_eq!(traces.collect::<Vec<_>>(), [Some(trace.to_owned()), None]);

    // A long script is traced without the lines that load it, and a long trace is cut and not in the output file.
    let long = format!("echo first; # {}\nfor i in {{1..2000}}; do :; done", "x".repeat(200 * 1024));
    let output = Some(OutputOptions { max_chars: Some(300), ..OutputOptions::default() });
    let ran =
        daemon.client.run_to_end(&sandbox, &RunCommand { command: debug(&long), output }).await.unwrap();
    let trace = ran.trace.unwrap();
    assert!(trace.starts_with("++ echo first\n++ for i in {1..2000}\n"), "{trace}");
    assert!(trace.contains("not shown") && trace.len() < 500, "{trace}");
    assert_eq!((ran.stdout.as_str(), ran.truncated, ran.output_path), ("first\n", false, None));
}
