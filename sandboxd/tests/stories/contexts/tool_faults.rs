//! Calls of tools that go wrong: wrong answers, wrong callers, wrong definitions, hostile code.

use futures::StreamExt;
use sandbox_api::ErrorCode;
use sandbox_api::context::{Language, OpenContext, RunCode, RunRecord, RunStatus};
use sandbox_api::project::CreateChildToken;
use sandbox_api::tool::{Tool, ToolAnswer, ToolError, ToolErrorType};
use sandbox_client::{Client, Error};
use serde_json::{Value, json};

use super::tools::{add, any, next_call, sum, tool};
use crate::support::harness::{Daemon, until};
use crate::support::runs::{Interpreter, rest_of};

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> Option<ErrorCode> {
    result.unwrap_err().code()
}

fn result(value: Value) -> ToolAnswer {
    ToolAnswer::Result(value)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_answered_once_and_by_its_principal() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let context = Interpreter::with_tools(&daemon, &sandbox, Language::Python, vec![any("ask")]).await;
    let of_sandbox = CreateChildToken { sandbox_id: Some(sandbox.clone()), ..CreateChildToken::default() };
    let token = daemon.client.create_child_token(&of_sandbox).await.unwrap().token;
    let other = Client::new(&daemon.base, &token).unwrap();
    let mut records = context.begin_run("tools.ask()\ntools.ask()").await;
    let first = next_call(&mut records).await.call;
    let by_other = other.answer_tool_call(&sandbox, &context.id, first, &result(json!(1))).await;
    assert_eq!(code(by_other), Some(ErrorCode::Forbidden));
    assert_eq!(code(context.answer(first + 1, result(json!(1))).await), Some(ErrorCode::NotFound));
    let too_large = result(json!("x".repeat(1_100_000)));
    assert_eq!(code(context.answer(first, too_large).await), Some(ErrorCode::TooLarge));
    let message = "x".repeat(20_000);
    let too_long = ToolAnswer::Error(ToolError { kind: ToolErrorType::InternalError, message });
    assert_eq!(code(context.answer(first, too_long).await), Some(ErrorCode::TooLarge));
    context.answer(first, result(json!("once"))).await.unwrap();
    assert_eq!(code(context.answer(first, result(json!("twice"))).await), Some(ErrorCode::WrongState));
    let second = next_call(&mut records).await.call;
    // The same call cannot be answered through another sandbox or context.
    let elsewhere = daemon.sandbox("chat:2").await;
    let wrong = daemon.client.answer_tool_call(&elsewhere, &context.id, second, &result(json!(1))).await;
    assert_eq!(code(wrong), Some(ErrorCode::NotFound));
    context.answer(second, result(json!("last"))).await.unwrap();
    assert_eq!(rest_of(records).await.text(), "'last'");
    assert_eq!(code(context.answer(second, result(json!(1))).await), Some(ErrorCode::WrongState));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_takes_its_calls_along() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for (language, waits) in [
        (Language::Python, "kept = 1\ntools.ask()"),
        (Language::Javascript, "var kept = 1; await tools.ask()"),
    ] {
        let context = Interpreter::with_tools(&daemon, &sandbox, language, vec![any("ask")]).await;
        let mut records = context.begin_run(waits).await;
        let open = next_call(&mut records).await.call;
        assert!(context.interrupt().await);
        let ran = rest_of(records).await;
        assert_eq!(
            (ran.status, ran.state_lost),
            (Some(RunStatus::Interrupted), false),
            "{language:?}: {ran:?}"
        );
        assert_eq!(code(context.answer(open, result(json!(1))).await), Some(ErrorCode::WrongState));
        // The client leaves.
        let mut records = context.begin_run(waits).await;
        let open = next_call(&mut records).await.call;
        drop(records);
        let is_idle = async || !daemon.client.context(&sandbox, &context.id).await.unwrap().running;
        until("the run is interrupted", is_idle).await;
        assert_eq!(code(context.answer(open, result(json!(1))).await), Some(ErrorCode::WrongState));
        // An answer that comes too late is not that of the next call.
        let answer = |_: &_| Some(result(json!(7)));
        let next =
            if language == Language::Python { "tools.ask() + kept" } else { "await tools.ask() + kept" };
        assert_eq!(context.run_answering(next, answer).await.text(), "8", "{language:?}");
    }
    // The time of the run is over while a call waits.
    let context = Interpreter::with_tools(&daemon, &sandbox, Language::Python, vec![any("ask")]).await;
    // The interpreter has started.
    assert!(context.run("1").await.is_ok());
    let ran = context.run_within("tools.ask()", Some(300)).await;
    assert_eq!((ran.status, ran.state_lost), (Some(RunStatus::Timeout), false), "{ran:?}");
    // A thread that still waits gets no answer, and does not disturb.
    let thread = "import threading\ndef ask():\n    try: tools.ask()\n    except RuntimeError as error: print(error)\n\
                  thread = threading.Thread(target=ask)\nthread.start()\nimport time\ntime.sleep(0.2)";
    assert!(context.run(thread).await.is_ok());
    let ran = context.run("thread.join()\n1 + 1").await;
    assert_eq!((ran.text(), ran.restarted), ("2", false), "{ran:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_definitions_are_refused() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let open = async |language, tools: Vec<Tool>| {
        let request = OpenContext { tools, ..OpenContext::new(language) };
        daemon.client.open_context(&sandbox, &request).await.unwrap_err().to_string()
    };
    let named = |name: &str| any(name);
    let long = "x".repeat(65);
    let of_schema = |schema| tool("a", "", schema);
    let deep: String = format!("{}1{}", "[".repeat(120), "]".repeat(120));
    for (tools, problem) in [
        (vec![named("")], "tools[0].name"),
        (vec![named("a b")], "tools[0].name"),
        (vec![named("1a")], "tools[0].name"),
        (vec![named("ä")], "tools[0].name"),
        (vec![named(&long)], "tools[0].name"),
        (vec![named("a"), named("a")], "tools[1].name"),
        (vec![of_schema(json!(true))], "tools[0].inputSchema"),
        (vec![of_schema(json!({ "type": "no such type" }))], "tools[0].inputSchema"),
        (vec![of_schema(json!({ "$ref": "https://example.com/schema" }))], "tools[0].inputSchema"),
        (vec![of_schema(json!({ "$ref": "#" }))], "recursive"),
        (vec![of_schema(json!({ "pattern": "(" }))], "tools[0].inputSchema"),
        (
            vec![of_schema(
                json!({ "default": serde_json::from_str::<Value>(&deep).unwrap(), "minimum": "1" }),
            )],
            "tools[0].inputSchema",
        ),
        (vec![Tool { timeout_ms: Some(0), ..any("a") }], "tools[0].timeoutMs"),
        (vec![Tool { timeout_ms: Some(600_001), ..any("a") }], "tools[0].timeoutMs"),
        (vec![tool("a", "nul \u{0}", json!({}))], "tools[0].description"),
        ((0..129).map(|number| named(&format!("t{number}"))).collect(), "128 tools"),
        (vec![tool("a", &"x".repeat(262_144), json!({}))], "`tools`"),
    ] {
        let refused = open(Language::Python, tools).await;
        assert!(refused.contains(problem), "{problem}: {refused}");
    }
    assert!(open(Language::Bash, vec![add()]).await.contains("tools"));
    assert!(daemon.client.contexts(&sandbox).await.unwrap().contexts.is_empty());
    daemon.stop().await;
}

/// Python code that finds the control descriptor, and sends a request of the current run by its own.
const FORGE: &str = "import os, stat\n\
    control = next(n for n in range(3, 64) if os.path.exists(f'/proc/self/fd/{n}') \
    and stat.S_ISSOCK(os.fstat(n).st_mode))\n\
    def forge(kind, *values):\n    \
    parts = b''.join(b'%s %d\\n%s' % (name, len(value), value) for name, value in values)\n    \
    os.write(control, b'%d %s %d\\n%s' % (run, kind, len(values), parts))\n";

#[tokio::test(flavor = "multi_thread")]
async fn forged_calls_are_checked_too() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let context = Interpreter::with_tools(&daemon, &sandbox, Language::Python, vec![add()]).await;
    // Wrong arguments, and JSON that is none, never reach the client. Without the driver, the answers are for nothing.
    let forged = format!(
        "{FORGE}run = 1\nfor arguments in [b'', b'{{', b'[1', b'{{\"a\":\"x\"}}']:\n    \
         forge(b'call', (b'id', b'1000'), (b'tool', b'add'), (b'arguments', arguments))\n\
         forge(b'search', (b'id', b'2000'), (b'query', b'x' * 100000), (b'limit', b'9999999'))\n\
         import time\ntime.sleep(0.3)\n'done'"
    );
    let ran = context.run_answering(&forged, sum).await;
    assert_eq!((ran.text(), ran.calls.len()), ("'done'", 0), "{ran:?}");
    // A call that names another run is dropped.
    let ran = context
        .run_answering(&format!("{FORGE}run = 1\nforge(b'call', (b'id', b'1'), (b'tool', b'add'), (b'arguments', b'{{\"a\":1,\"b\":2}}'))\n'x'"), sum)
        .await;
    assert_eq!((ran.text(), ran.calls.len()), ("'x'", 0), "{ran:?}");
    for garbage in [
        "(b'id', b'x'), (b'tool', b'add'), (b'arguments', b'{}')",
        "(b'id', b'1'), (b'tool', b'add'), (b'arguments', b'\\xff')",
        "(b'tool', b'add'),",
    ] {
        let context = Interpreter::with_tools(&daemon, &sandbox, Language::Python, vec![add()]).await;
        let ran = context
            .run(&format!("{FORGE}run = 1\nforge(b'call', {garbage})\nimport time\ntime.sleep(5)"))
            .await;
        assert_eq!((ran.status, ran.state_lost), (Some(RunStatus::Died), true), "{garbage}: {ran:?}");
        context.close().await;
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_calls_harms_only_its_context() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let bystander = Interpreter::with_tools(&daemon, &sandbox, Language::Python, vec![add()]).await;
    let attacker = Interpreter::with_tools(&daemon, &sandbox, Language::Python, vec![any("ask")]).await;
    // It never reads the answers.
    let flood = format!(
        "{FORGE}run = 1\nwhile True: forge(b'search', (b'id', b'1'), (b'query', b''), (b'limit', b'9'))"
    );
    let body = RunCode { timeout_ms: Some(3_000), ..RunCode::new(&flood) };
    let records = daemon.client.run_code(&sandbox, &attacker.id, &body).await.unwrap();
    let ran = bystander.run_answering("tools.add(a=1, b=2)", sum).await;
    assert_eq!(ran.text(), "3.0", "{ran:?}");
    let ran = rest_of(records).await;
    assert_eq!(ran.status, Some(RunStatus::Timeout), "{ran:?}");
    // Calls that the client leaves open are bounded.
    let many = format!(
        "{FORGE}run = {}\nfor id in range(200): forge(b'call', (b'id', b'%d' % id), (b'tool', b'ask'), (b'arguments', b'{{}}'))\n\
         import time\ntime.sleep(1)\n'done'",
        daemon.client.context(&sandbox, &attacker.id).await.unwrap().runs + 1
    );
    let ran = attacker.run_answering(&many, |_| None).await;
    assert_eq!((ran.text(), ran.calls.len()), ("'done'", 16), "{ran:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_process_cannot_call() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let context = Interpreter::with_tools(&daemon, &sandbox, Language::Python, vec![any("ask")]).await;
    let forks = "import os\npid = os.fork()\nif pid == 0:\n    try: tools.ask()\n    except RuntimeError as error: print(error, flush=True)\n    \
                 os._exit(0)\nos.waitpid(pid, 0)\ntools.ask()";
    let mut records = context.begin_run(forks).await;
    let open = next_call(&mut records).await.call;
    context.answer(open, result(json!("parent"))).await.unwrap();
    let mut shown = String::new();
    let mut text = None;
    while let Some(Ok(record)) = records.next().await {
        match record {
            RunRecord::Stdout(output) => shown += &output.data,
            RunRecord::Result(value) => text = value.text,
            _ => {}
        }
    }
    assert_eq!(text.as_deref(), Some("'parent'"), "{shown}");
    daemon.stop().await;
}
