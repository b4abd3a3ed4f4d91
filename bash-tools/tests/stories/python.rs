//! The tool `python`: an interpreter that keeps its state, and functions of the app that its code calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bash_tools::session::ChatKey;
use bash_tools::tools::{
    CancellationToken, CommandHooks, Error, HostCall, HostTool, Python, PythonInput, PythonOutput,
    PythonStatus, ToolError, ToolErrorType, ToolLimits, Toolkit,
};
use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::context::{Language, OpenContext};
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::Client;
use serde_json::{Value, json};
use test_daemon::{Daemon, until};

use crate::fixture::{Fixture, key, limits, run as bash};

/// Time that is enough for everything but a hang.
const SOON: Duration = Duration::from_secs(20);

fn code(code: &str) -> PythonInput {
    PythonInput { code: code.into() }
}

/// The last value of code.
async fn run(tools: &Toolkit, script: &str) -> PythonOutput {
    tools.python_whole(code(script), CancellationToken::new()).await.unwrap()
}

fn with(fixture: &Fixture, host_tools: impl IntoIterator<Item = HostTool>) -> Toolkit {
    fixture.tools("1").with_python(Python::new(host_tools))
}

/// The text of the last expression's value.
fn result(output: &PythonOutput) -> &str {
    output.result.as_ref().and_then(|result| result.text.as_deref()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_are_kept_and_an_error_is_reported() {
    let fixture = Fixture::docker().await;
    let tools = with(&fixture, []);
    let first = run(&tools, "x = 20\nprint('hello')\nx + 1").await;
    assert_eq!((first.status, first.stdout.as_str(), result(&first)), (PythonStatus::Ok, "hello\n", "21"));
    assert!(!first.restarted, "{first:?}");
    let second = run(&tools, "x / 0").await;
    let error = second.error.clone().unwrap();
    assert_eq!((second.status, error.name.as_str()), (PythonStatus::Error, "ZeroDivisionError"));
    assert!(error.traceback.contains("x / 0"), "{error:?}");
    assert_eq!(result(&run(&tools, "x").await), "20");
    // The same files as those of bash.
    run(&tools, "open('from_python', 'w').write('yes')").await;
    assert_eq!(bash(&tools, "cat from_python").await.stdout, "yes");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_appears_while_code_runs() {
    let fixture = Fixture::docker().await;
    let tools = with(&fixture, []);
    let script = "import time\nprint('first', flush=True)\nopen('started', 'w')\nwhile not __import__('os').path.exists('go'):\n    time.sleep(0.01)\nprint('last')";
    let mut values = Box::pin(tools.python(code(script), CancellationToken::new()));
    let mut seen = Vec::new();
    let mut went = false;
    while let Some(value) = values.next().await {
        let value = value.unwrap();
        if value.stdout == "first\n" && !went {
            assert_eq!(value.status, PythonStatus::Running);
            bash(&tools, "touch go").await;
            went = true;
        }
        seen.push(value);
    }
    let last = seen.last().unwrap();
    assert_eq!((last.status, last.stdout.as_str()), (PythonStatus::Ok, "first\nlast\n"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn displays_are_shown_up_to_a_limit() {
    let fixture = Fixture::docker().await;
    let tools = with(&fixture, []);
    let show = "class Svg:\n    def _repr_svg_(self):\n        return '<svg>' + 'x' * SIZE + '</svg>'\n    def __repr__(self):\n        return 'a drawing'\n";
    let small = run(&tools, &format!("SIZE = 10\n{show}display(Svg())\nSvg()")).await;
    assert_eq!(small.displays.len(), 1, "{small:?}");
    let svg = small.displays[0].svg.as_deref();
    assert_eq!(svg, small.result.as_ref().unwrap().svg.as_deref());
    assert_eq!(svg, Some("<svg>xxxxxxxxxx</svg>"));
    let large = run(&tools, "SIZE = 400_000\nfor _ in range(4):\n    display(Svg())").await;
    assert_eq!((large.status, large.omitted_displays), (PythonStatus::Ok, 2));
    let texts: Vec<_> = large.displays.iter().map(|shown| shown.svg.is_some()).collect();
    assert_eq!(texts, [true, true, false, false], "the text of each is shown");
    let bytes: usize = large.displays.iter().map(bash_tools::tools::Shown::bytes).sum();
    assert!(bytes <= PythonOutput::MAX_SHOWN_BYTES, "{bytes}");
}

/// Adds two numbers, and counts its calls.
fn add(calls: &Arc<AtomicU64>) -> HostTool {
    let calls = Arc::clone(calls);
    let number = json!({ "type": "number" });
    let schema = json!({
        "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"],
        "additionalProperties": false,
    });
    HostTool::new("add", "Adds two numbers.", schema, move |call| {
        calls.fetch_add(1, Ordering::Relaxed);
        async move { Ok(json!(call.arguments["a"].as_f64().unwrap() + call.arguments["b"].as_f64().unwrap())) }
    })
    .with_output_schema(number)
}

/// Accepts anything.
fn any<F, R>(name: &str, function: F) -> HostTool
where
    F: Fn(HostCall) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, ToolError>> + Send + 'static,
{
    HostTool::new(name, "Anything.", json!({}), function)
}

/// Code that prints the type of the error that a call ends with.
fn error_type(call: &str) -> String {
    format!("try:\n    print({call})\nexcept tools.Error as error:\n    print(error.type)")
}

#[tokio::test(flavor = "multi_thread")]
async fn code_calls_functions_of_the_app() {
    let fixture = Fixture::docker().await;
    let calls = Arc::default();
    let refused =
        |_| async { Err(ToolError { kind: ToolErrorType::PermissionError, message: "not for you".into() }) };
    let tools = with(
        &fixture,
        [
            add(&calls),
            any("chat", |call: HostCall| async move { Ok(json!(call.chat.to_string())) }),
            any("refused", refused),
            any("broken", |_| async { panic!("a mistake of the app") }),
            any("silent", |_| std::future::pending()).with_timeout(Duration::from_millis(200)),
            any("wrong", |_| async { Ok(json!("text")) }).with_output_schema(json!({ "type": "number" })),
        ],
    );
    let sum = run(&tools, "sum(tools.add(a=n, b=1) for n in range(10))").await;
    assert_eq!((sum.status, result(&sum).trim_end_matches(".0")), (PythonStatus::Ok, "55"), "{sum:?}");
    assert_eq!(calls.load(Ordering::Relaxed), 10);
    assert_eq!(run(&tools, "print(tools.chat())").await.stdout.trim(), key("1").to_string());
    assert!(result(&run(&tools, "tools.search('adds numbers')[0]['name']").await).contains("add"));
    for (call, kind) in [
        ("tools.refused()", "permission_error"),
        ("tools.broken()", "internal_error"),
        ("tools.silent()", "timeout"),
        ("tools.wrong()", "validation_error"),
        ("tools.add(a=1)", "validation_error"),
    ] {
        assert_eq!(run(&tools, &error_type(call)).await.stdout.trim(), kind, "{call}");
    }
    assert_eq!(
        calls.load(Ordering::Relaxed),
        10,
        "a call that does not match the schema reaches no function"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_with_its_code() {
    let fixture = Fixture::docker().await;
    let (entered, left) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let waits = {
        let (entered, left) = (Arc::clone(&entered), Arc::clone(&left));
        any("wait", move |_| {
            entered.fetch_add(1, Ordering::Relaxed);
            let left = CountsItsEnd(Arc::clone(&left));
            async move {
                let _left = left;
                std::future::pending::<()>().await;
                Ok(Value::Null)
            }
        })
    };
    let tools = with(&fixture, [waits]);
    run(&tools, "kept = 1").await;
    let cancel = CancellationToken::new();
    let mut values = Box::pin(tools.python(code("print('a')\ntools.wait()"), cancel.clone()));
    let ended = async {
        let mut last = None;
        while let Some(value) = values.next().await {
            if entered.load(Ordering::Relaxed) == 1 {
                cancel.cancel();
            }
            last = Some(value.unwrap());
        }
        last.unwrap()
    };
    let cancelled = async {
        until("the function is called", || async { entered.load(Ordering::Relaxed) == 1 }).await;
        cancel.cancel();
    };
    let (last, ()) = tokio::join!(ended, cancelled);
    assert_eq!((last.status, last.stdout.as_str()), (PythonStatus::Interrupted, "a\n"), "{last:?}");
    assert_eq!(left.load(Ordering::Relaxed), 1, "the function has ended");
    let next = run(&tools, "kept").await;
    assert_eq!((result(&next), next.restarted), ("1", false), "the interpreter keeps its state: {next:?}");
    // Code whose value is dropped is interrupted too.
    let mut values = Box::pin(tools.python(code("tools.wait()"), CancellationToken::new()));
    values.next().await.unwrap().unwrap();
    let dropped = tokio::spawn(async move { while values.next().await.is_some() {} });
    until("the function is called again", || async { entered.load(Ordering::Relaxed) == 2 }).await;
    dropped.abort();
    until("it has ended", || async { left.load(Ordering::Relaxed) == 2 }).await;
    assert_eq!(result(&run(&tools, "kept").await), "1");
}

/// The sandbox of the chat.
async fn sandbox_of(client: &Client) -> SandboxId {
    let session = CreateSandbox { session_key: key("1").to_string(), ..CreateSandbox::default() };
    client.create_or_reconnect(&session).await.unwrap().sandbox_id
}

/// Counts when it is dropped.
struct CountsItsEnd(Arc<AtomicU64>);

impl Drop for CountsItsEnd {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_interpreter_or_of_the_time_is_shown() {
    let fixture = Fixture::docker().await;
    let limits = ToolLimits { timeout: Duration::from_secs(2), ..limits() };
    let tools = Toolkit::new(fixture.sessions(2), key("1"), limits).with_python(Python::default());
    run(&tools, "x = 1").await;
    let late = run(&tools, "import time\ntime.sleep(60)").await;
    assert_eq!(late.status, PythonStatus::Timeout);
    assert!(late.stderr.contains("Code timed out after 2000ms."), "{late:?}");
    run(&tools, "x = 1").await;
    let died = run(&tools, "import os\nos._exit(3)").await;
    assert_eq!(died.status, PythonStatus::Died);
    assert!(died.stderr.contains("The interpreter ended. Its variables are lost."), "{died:?}");
    let next = run(&tools, "'x' in globals()").await;
    assert_eq!((result(&next), next.restarted), ("False", true), "{next:?}");
    assert!(!run(&tools, "1").await.restarted);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_chat_wait_for_each_other() {
    let fixture = Fixture::docker().await;
    let tools = with(&fixture, []);
    run(&tools, "import time\nnumbers = []").await;
    let append = |n: u32| {
        let tools = tools.clone();
        async move { run(&tools, &format!("time.sleep(0.05)\nnumbers.append({n})")).await.status }
    };
    let ended = futures::future::join_all((0..8).map(append)).await;
    assert_eq!(ended, [PythonStatus::Ok; 8]);
    assert_eq!(result(&run(&tools, "sorted(numbers)").await), "[0, 1, 2, 3, 4, 5, 6, 7]");
}

#[tokio::test(flavor = "multi_thread")]
async fn code_runs_in_a_new_sandbox_if_the_old_one_was_deleted() {
    let daemon = Daemon::start().await;
    let client = daemon.client.clone();
    let fixture = Fixture::of(daemon);
    let tools = with(&fixture, []);
    run(&tools, "x = 1").await;
    client.delete(&sandbox_of(&client).await).await.unwrap();
    let next = run(&tools, "'x' in globals()").await;
    assert_eq!((result(&next), next.restarted), ("False", true), "{next:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn interpreters_that_an_app_has_left_make_room() {
    let daemon = Daemon::start().await;
    let client = daemon.client.clone();
    let fixture = Fixture::of(daemon);
    let tools = with(&fixture, []);
    run(&tools, "1").await;
    let sandbox = sandbox_of(&client).await;
    let mut open = 1;
    while client.open_context(&sandbox, &OpenContext::new(Language::Python)).await.is_ok() {
        open += 1;
    }
    // Another app for the same chats: after a restart.
    let other = with(&fixture, []);
    assert_eq!(result(&run(&other, "1 + 1").await), "2");
    assert_eq!(client.contexts(&sandbox).await.unwrap().contexts.len(), open);
    // The oldest interpreter was that of the first app.
    let first = run(&tools, "2 + 2").await;
    assert_eq!((result(&first), first.restarted), ("4", true));
}

/// Refuses some code, changes other code, and hides a word of its output.
#[derive(Debug)]
struct Guard;

#[async_trait]
impl CommandHooks for Guard {
    async fn before_code(&self, _: &ChatKey, code: String) -> Result<String, String> {
        if code.contains("forbidden") {
            Err("not this code".into())
        } else {
            Ok(format!("secret = 'hunter2'\n{code}"))
        }
    }

    fn after_code(&self, _: &ChatKey, output: PythonOutput) -> PythonOutput {
        PythonOutput { stdout: output.stdout.replace("hunter2", "***"), status: PythonStatus::Lost, ..output }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_rewrite_refuse_and_redact_code() {
    let fixture = Fixture::docker().await;
    let tools = with(&fixture, []).with_hooks(Arc::new(Guard));
    let shown = run(&tools, "print(secret)").await;
    assert_eq!((shown.status, shown.stdout.as_str()), (PythonStatus::Ok, "***\n"));
    let refused = tools.python_whole(code("forbidden()"), CancellationToken::new()).await.unwrap_err();
    assert!(refused.to_string().contains("not this code"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_without_interpreters_refuses_code() {
    let fixture = Fixture::vercel().await;
    let refused = with(&fixture, []).python_whole(code("1"), CancellationToken::new()).await.unwrap_err();
    assert!(refused.to_string().contains("no Python interpreters"), "{refused}");
    let without = Fixture::docker().await.tools("1");
    let refused = without.python_whole(code("1"), CancellationToken::new()).await.unwrap_err();
    assert!(matches!(refused, Error::NoTool { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_that_sandboxd_rejects_are_explained() {
    let fixture = Fixture::docker().await;
    let tools = with(&fixture, [HostTool::new("not a name", "", json!({}), |_| async { Ok(Value::Null) })]);
    let refused = tokio::time::timeout(SOON, tools.python_whole(code("1"), CancellationToken::new()));
    let refused = refused.await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("name"), "{refused}");
}
