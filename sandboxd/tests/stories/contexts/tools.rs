//! Code in a context calls the tools of its client.

use futures::StreamExt;
use sandbox_api::context::{Language, RunRecord, RunStatus};
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::tool::{Tool, ToolAnswer, ToolCall, ToolError, ToolErrorType};
use serde_json::{Value, json};

use crate::support::harness::{Daemon, DaemonProcess, Home, free_port, until};
use crate::support::runs::{Interpreter, rest_of};

/// Languages whose code can call tools.
const LANGUAGES: [Language; 3] = [Language::Python, Language::Javascript, Language::Typescript];

pub(super) fn tool(name: &str, description: &str, input_schema: Value) -> Tool {
    let (name, description) = (name.to_owned(), description.to_owned());
    Tool { name, description, input_schema, output_schema: None, timeout_ms: None }
}

/// Adds two numbers.
pub(super) fn add() -> Tool {
    let number = json!({ "type": "number" });
    let input = json!({
        "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"],
        "additionalProperties": false,
    });
    Tool { output_schema: Some(number), ..tool("add", "Adds two numbers.", input) }
}

/// Accepts anything.
pub(super) fn any(name: &str) -> Tool {
    tool(name, "", json!({}))
}

/// The answer of [`add`].
pub(super) fn sum(call: &ToolCall) -> Option<ToolAnswer> {
    let number = |name: &str| call.arguments[name].as_f64().unwrap();
    Some(ToolAnswer::Result(json!(number("a") + number("b"))))
}

/// Code that calls `add` in both ways.
fn adds(language: Language) -> &'static str {
    match language {
        Language::Python => "tools.add(a=1, b=2) + tools.call('add', {'a': 10, 'b': 20})",
        _ => "await tools.add({ a: 1, b: 2 }) + await tools.call('add', { a: 10, b: 20 })",
    }
}

/// Code that shows the type and the message of the error of an expression.
fn error_of(language: Language, expression: &str) -> String {
    match language {
        Language::Python => format!(
            "try:\n    {expression}\nexcept tools.Error as error:\n    print(f'{{error.type}}: {{error}}', end='')"
        ),
        _ => format!(
            "try {{ await {expression} }} catch (error) {{ process.stdout.write(`${{error.type}}: ${{error.message}}`) }}"
        ),
    }
}

/// An expression that calls a tool with one argument.
fn call(language: Language, name: &str, argument: &str) -> String {
    match language {
        Language::Python => format!("tools.call('{name}', {{'value': {argument}}})"),
        _ => format!("tools.call('{name}', {{ value: {argument} }})"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_calls_the_tools_of_its_client() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for language in LANGUAGES {
        let context = Interpreter::with_tools(&daemon, &sandbox, language, vec![add()]).await;
        let ran = context.run_answering(adds(language), sum).await;
        assert_eq!((ran.text().trim_end_matches(".0"), ran.calls.len()), ("33", 2), "{language:?}: {ran:?}");
        let first = ToolCall {
            call: 1,
            name: "add".into(),
            arguments: json!({ "a": 1, "b": 2 }),
            timeout_ms: 30_000,
        };
        assert_eq!(ran.calls[0], first, "{language:?}");
        // A new interpreter has the tools too.
        context.restart().await;
        let ran = context.run_answering(adds(language), sum).await;
        assert_eq!(
            (ran.text().trim_end_matches(".0"), ran.calls[0].call),
            ("33", 3),
            "{language:?}: {ran:?}"
        );
        let state = daemon.client.context(&sandbox, &context.id).await.unwrap();
        assert_eq!((state.tools, state.tool_calls), (vec!["add".to_owned()], 4));
        // Output before a call arrives before it.
        let print = if language == Language::Python { "print('before')" } else { "console.log('before')" };
        let mut records = context.begin_run(&format!("{print}\n{}", adds(language))).await;
        let mut seen = Vec::new();
        while let Some(Ok(record)) = records.next().await {
            match record {
                RunRecord::Stdout(_) => seen.push("stdout"),
                RunRecord::ToolCall(call) => {
                    seen.push("call");
                    context.answer(call.call, sum(&call).unwrap()).await.unwrap();
                }
                _ => {}
            }
        }
        assert_eq!(seen, ["stdout", "call", "call"], "{language:?}");
        let other = Interpreter::open(&daemon, &sandbox, language).await;
        let ran = other.run("tools").await;
        assert_eq!(ran.status, Some(RunStatus::Error), "a context without tools: {ran:?}");
        other.close().await;
        context.close().await;
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_typed() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let schema = json!({ "type": "object", "properties": { "value": { "type": "integer" } } });
    let checked = Tool { output_schema: Some(json!({ "type": "string" })), ..tool("checked", "", schema) };
    let hasty = Tool { timeout_ms: Some(50), ..any("hasty") };
    for language in LANGUAGES {
        let tools = vec![checked.clone(), hasty.clone(), any("never"), any("refuses")];
        let context = Interpreter::with_tools(&daemon, &sandbox, language, tools).await;
        let mut answers = 0;
        let mut shown = async |expression: &str, answer: Option<ToolAnswer>| {
            let code = error_of(language, expression);
            let ran = context.run_answering(&code, |_| answer.clone()).await;
            answers += ran.calls.len();
            (ran.stdout, ran.calls.len())
        };
        let (text, calls) = shown(&call(language, "checked", "'x'"), None).await;
        assert!(
            text.starts_with("validation_error: the arguments do not match the schema: /value"),
            "{text}"
        );
        assert_eq!(calls, 0, "the client is not asked");
        let (text, _) = shown(&call(language, "missing", "1"), None).await;
        assert_eq!(text, "validation_error: there is no tool named \"missing\"");
        let (text, _) = shown(&call(language, "hasty", "1"), None).await;
        assert_eq!(text, "timeout: the tool did not answer within 50 ms");
        for kind in [ToolErrorType::PermissionError, ToolErrorType::InternalError] {
            let error = ToolError { kind, message: "no \"way\"\u{0}\n".into() };
            let (text, _) = shown(&call(language, "refuses", "1"), Some(ToolAnswer::Error(error))).await;
            let name = serde_json::to_value(kind).unwrap();
            assert_eq!(text, format!("{}: no \"way\"\u{0}\n", name.as_str().unwrap()));
        }
        // A wrong result is the client's mistake too.
        let mut records = context.begin_run(&error_of(language, &call(language, "checked", "1"))).await;
        let open = next_call(&mut records).await;
        let wrong = context.answer(open.call, ToolAnswer::Result(json!(1))).await.unwrap_err();
        assert!(wrong.to_string().contains("result"), "{wrong}");
        let ran = rest_of(records).await;
        assert!(ran.stdout.starts_with("validation_error: the result does not match"), "{ran:?}");
        // Without a handler, it is an error of the code.
        let awaited = if language == Language::Python { "" } else { "await " };
        let ran = context.run(&format!("{awaited}{}", call(language, "hasty", "1"))).await;
        assert_eq!(
            (ran.status, ran.errors[0].name.as_str()),
            (Some(RunStatus::Error), "ToolError"),
            "{ran:?}"
        );
        context.close().await;
    }
    daemon.stop().await;
}

/// Reads records until the next call.
pub(super) async fn next_call(records: &mut sandbox_client::RunRecords) -> ToolCall {
    loop {
        match records.next().await.unwrap().unwrap() {
            RunRecord::ToolCall(call) => return call,
            RunRecord::End { status, .. } => panic!("the run ended: {status:?}"),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_ranks_by_relevance() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let city = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let tools = vec![
        tool("send_mail", "Sends a message.", json!({})),
        tool("getForecast", "The weather of the next days.", city.clone()),
        add(),
    ];
    for language in LANGUAGES {
        let context = Interpreter::with_tools(&daemon, &sandbox, language, tools.clone()).await;
        let found = match language {
            Language::Python => "import json\nprint(json.dumps(tools.search('weather forecasts city')))",
            _ => "console.log(JSON.stringify(await tools.search('weather forecasts city')))",
        };
        let ran = context.run(found).await;
        let found: Value = serde_json::from_str(&ran.stdout).unwrap();
        let expected = json!([{
            "name": "getForecast", "description": "The weather of the next days.", "inputSchema": city,
        }]);
        assert_eq!(found, expected, "{language:?}");
        let limited = match language {
            Language::Python => "len(tools.search('', limit=2))",
            _ => "(await tools.search('', 2)).length",
        };
        assert_eq!(context.run(limited).await.text(), "2");
        context.close().await;
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_wait_for_their_turn() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for (language, code) in [
        (
            Language::Javascript,
            "(await Promise.all([...Array(100).keys()].map((a) => tools.add({ a, b: 1 })))).join()",
        ),
        (
            Language::Python,
            "from concurrent.futures import ThreadPoolExecutor\n\
             with ThreadPoolExecutor(40) as pool:\n    \
             sums = list(pool.map(lambda a: int(tools.add(a=a, b=1)), range(100)))\n\
             ','.join(map(str, sums))",
        ),
    ] {
        let context = Interpreter::with_tools(&daemon, &sandbox, language, vec![add()]).await;
        let ran = context.run_answering(code, sum).await;
        let expected: Vec<String> = (1..=100).map(|sum| sum.to_string()).collect();
        assert_eq!(ran.text(), format!("'{}'", expected.join(",")), "{language:?}");
        assert_eq!(ran.calls.len(), 100);
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_values_and_secrets() {
    let daemon = Daemon::start().await;
    let env = [("KEY".to_owned(), "s3cr3t-v4lue".to_owned())].into_iter().collect();
    let request = CreateSandbox {
        env: Some(env),
        secret_env: Some(vec!["KEY".into()]),
        session_key: "chat:1".into(),
        ..CreateSandbox::default()
    };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    for language in LANGUAGES {
        let context = Interpreter::with_tools(&daemon, &sandbox, language, vec![any("echo")]).await;
        let echo = |call: &ToolCall| Some(ToolAnswer::Result(call.arguments["value"].clone()));
        let (length, key) = match language {
            Language::Python => {
                ("len(tools.echo(value='é' * 500_000))", "tools.echo(value=__import__('os').environ['KEY'])")
            }
            _ => (
                "(await tools.echo({ value: 'é'.repeat(500_000) })).length",
                "await tools.echo({ value: process.env.KEY })",
            ),
        };
        let ran = context.run_answering(length, echo).await;
        assert_eq!(ran.text(), "500000", "{language:?}");
        let ran = context.run_answering(key, |_| Some(ToolAnswer::Result(Value::Null))).await;
        assert!(
            ran.is_ok() && !ran.calls[0].arguments.to_string().contains("s3cr3t"),
            "{language:?}: {ran:?}"
        );
        let long = call(
            language,
            "echo",
            if language == Language::Python { "'x' * 2_000_000" } else { "'x'.repeat(2_000_000)" },
        );
        let ran = context.run_answering(&error_of(language, &long), echo).await;
        assert_eq!(ran.stdout, "validation_error: the arguments are longer than 1048576 bytes");
        context.close().await;
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_and_calls_are_in_the_history() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo first").await;
    let hasty = Tool { timeout_ms: Some(50), ..any("hasty") };
    let tools = vec![add(), hasty, any("ask")];
    let context = Interpreter::with_tools(&daemon, &sandbox, Language::Python, tools).await;
    assert_eq!(context.run_answering("tools.add(a=1, b=2)", sum).await.text(), "3.0");
    let ran = context.run("1 / 0").await;
    assert_eq!(ran.status, Some(RunStatus::Error));
    let ran = context.run("try: tools.hasty()\nexcept tools.Error: pass").await;
    assert!(ran.is_ok(), "{ran:?}");
    let mut records = context.begin_run("tools.ask(why='open')").await;
    next_call(&mut records).await;
    drop(records);
    let found = async || daemon.client.history(&sandbox, None).await.unwrap().commands;
    until("everything has ended", async || found().await.len() == 8).await;

    let entries: Vec<Value> =
        found().await.iter().map(|entry| serde_json::to_value(entry).unwrap()).collect();
    let shown = |entry: &Value| {
        let status = ["run", "toolCall"].map(|of| entry[of]["status"].as_str().unwrap_or("-").to_owned());
        format!("{} {} {}", entry["cmd"].as_str().unwrap(), entry["args"], status.join(" "))
    };
    let shown: Vec<String> = entries.iter().map(shown).collect();
    assert_eq!(shown.last().unwrap(), "bash [\"-c\",\"echo first\"] - -");
    for expected in [
        r#"python ["tools.add(a=1, b=2)"] ok -"#,
        r#"add ["{\"a\": 1, \"b\": 2}"] - ok"#,
        r#"python ["1 / 0"] error -"#,
        r#"hasty ["{}"] - timeout"#,
        r#"python ["try: tools.hasty()\nexcept tools.Error: pass"] ok -"#,
        r#"ask ["{\"why\": \"open\"}"] - run_over"#,
        r#"python ["tools.ask(why='open')"] interrupted -"#,
    ] {
        assert!(shown.iter().any(|entry| entry == expected), "{expected}: {shown:#?}");
    }
    let call = entries.iter().find(|entry| entry["cmd"] == "add").unwrap();
    let run = entries.iter().find(|entry| entry["args"][0] == "tools.add(a=1, b=2)").unwrap();
    assert_eq!(call["commandId"], run["commandId"], "a call names its run");
    assert_eq!(run["run"]["contextId"], context.id.to_string());
    assert_eq!((&call["toolCall"]["call"], &run["exitCode"]), (&json!(1), &json!(0)));
    // None of them is a command.
    let listed = daemon.client.commands(&sandbox, 10).await.unwrap().commands;
    assert_eq!(listed.len(), 1, "{listed:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_outlive_the_daemon() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let request = sandbox_api::context::OpenContext {
        tools: vec![add()],
        ..sandbox_api::context::OpenContext::new(Language::Python)
    };
    let id = daemon.client.open_context(&sandbox, &request).await.unwrap().context_id;
    daemon.kill().await;
    let daemon = DaemonProcess::start(&home, port).await;
    let context = Interpreter { client: daemon.client.clone(), sandbox, id };
    let ran = context.run_answering("tools.add(a=1, b=2)", sum).await;
    assert_eq!(ran.text(), "3.0", "{ran:?}");
    let ran = context.run(&error_of(Language::Python, "tools.add(a='x', b=2)")).await;
    assert!(ran.stdout.starts_with("validation_error: "), "{ran:?}");
    daemon.kill().await;
}
