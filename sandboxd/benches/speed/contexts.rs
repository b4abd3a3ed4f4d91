//! Contexts: the time for code in an interpreter that is there already, beside an interpreter for each piece of code.

use std::time::{Duration, Instant};

use futures::StreamExt;
use sandbox_api::command::StartCommand;
use sandbox_api::context::{Language, OpenContext, RunCode, RunRecord};
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::tool::{Tool, ToolAnswer};
use sandbox_api::{ContextId, SandboxId};
use sandbox_client::Client;

use crate::home::Home;
use crate::table::{heading, ratio, row};

const WARM_UP: usize = 20;
const BLOCK: usize = 50;
const BLOCKS: usize = 6;

/// Contexts that are opened, one after the other.
const OPENED: usize = 10;

/// A language, code that computes, and the command that does the same.
const SUMS: [(Language, &str, &str); 3] = [
    (Language::Python, "1+1", "python3 -c 'print(1+1)'"),
    (Language::Javascript, "1+1", "node -e 'console.log(1+1)'"),
    (Language::Bash, "echo $((1+1))", "echo $((1+1))"),
];

/// Code that calls a tool many times.
const CALLS: [(Language, &str); 2] = [
    (Language::Python, "for value in range(320): tools.echo(value=value)"),
    (Language::Javascript, "for (let value = 0; value < 320; value++) await tools.echo({ value })"),
];

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let client = home.client();
    let request = CreateSandbox { session_key: "bench:1".into(), ..CreateSandbox::default() };
    let sandbox = client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    for (language, code, script) in SUMS {
        let name = format!("{language:?}").to_lowercase();
        heading(&format!("{name}: `{code}`"));
        open(&client, &sandbox, language, code).await;
        let context = client.open_context(&sandbox, &OpenContext::new(language)).await.unwrap().context_id;
        for _ in 0..WARM_UP {
            run(&client, &sandbox, &context, code).await;
        }
        let (mut in_context, mut alone) = (Vec::new(), Vec::new());
        for _ in 0..BLOCKS {
            for _ in 0..BLOCK {
                in_context.push(run(&client, &sandbox, &context, code).await);
            }
            for _ in 0..BLOCK / 5 {
                alone.push(run_alone(&client, &sandbox, script).await);
            }
        }
        let in_context = row("in a context (goal: 1.5 ms)", in_context);
        let alone = row(&format!("`{script}`"), alone);
        ratio("context / command", in_context.p50 / alone.p50, "none");
        client.close_context(&sandbox, &context).await.unwrap();
    }
    for (language, code) in CALLS {
        heading(&format!("{}: calls of a tool", format!("{language:?}").to_lowercase()));
        row("from one call to the next (goal: 1.5 ms)", calls(&client, &sandbox, language, code).await);
    }
}

/// Times between the calls of code that does nothing else, and that are answered at once.
async fn calls(client: &Client, sandbox: &SandboxId, language: Language, code: &str) -> Vec<Duration> {
    let input_schema = serde_json::json!({ "type": "object", "required": ["value"] });
    let (name, description) = ("echo".to_owned(), String::new());
    let tool = Tool { name, description, input_schema, output_schema: None, timeout_ms: None };
    let request = OpenContext { tools: vec![tool], ..OpenContext::new(language) };
    let context = client.open_context(sandbox, &request).await.unwrap().context_id;
    let mut records = client.run_code(sandbox, &context, &RunCode::new(code)).await.unwrap();
    let (mut times, mut last) = (Vec::new(), Instant::now());
    while let Some(record) = records.next().await {
        if let RunRecord::ToolCall(call) = record.unwrap() {
            times.push(last.elapsed());
            last = Instant::now();
            let answer = ToolAnswer::Result(call.arguments["value"].clone());
            client.answer_tool_call(sandbox, &context, call.call, &answer).await.unwrap();
        }
    }
    client.close_context(sandbox, &context).await.unwrap();
    times.split_off(WARM_UP)
}

/// Opens contexts, and waits for the result of code in each. The first one reads the interpreter from the disk.
async fn open(client: &Client, sandbox: &SandboxId, language: Language, code: &str) {
    let mut opened = Vec::new();
    for _ in 0..OPENED {
        let began = Instant::now();
        let context = client.open_context(sandbox, &OpenContext::new(language)).await.unwrap().context_id;
        run(client, sandbox, &context, code).await;
        opened.push(began.elapsed());
        client.close_context(sandbox, &context).await.unwrap();
    }
    let later = opened.split_off(1);
    row("first context, with its first result (goal: 400 ms)", opened);
    row("later ones", later);
}

async fn run(client: &Client, sandbox: &SandboxId, context: &ContextId, code: &str) -> Duration {
    let began = Instant::now();
    let mut records = client.run_code(sandbox, context, &RunCode::new(code)).await.unwrap();
    while let Some(record) = records.next().await {
        record.unwrap();
    }
    began.elapsed()
}

async fn run_alone(client: &Client, sandbox: &SandboxId, script: &str) -> Duration {
    let request = StartCommand { script: Some(script.into()), ..StartCommand::default() };
    let began = Instant::now();
    let mut records = client.run(sandbox, &request).await.unwrap();
    while let Some(record) = records.next().await {
        record.unwrap();
    }
    began.elapsed()
}
