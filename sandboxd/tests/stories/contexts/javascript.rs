//! JavaScript and TypeScript.

use sandbox_api::context::{Language, RunStatus};

use crate::support::harness::Daemon;
use crate::support::runs::Interpreter;

#[tokio::test(flavor = "multi_thread")]
async fn declarations_stay_and_can_be_repeated() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let node = Interpreter::open(&daemon, &sandbox, Language::Javascript).await;
    let ran = node
        .run("const a = 1; let b = 2; class C {}; function f() { return a + b }\nconsole.log('set')")
        .await;
    assert_eq!((ran.stdout.as_str(), ran.is_ok(), ran.results.len()), ("set\n", true, 0), "{ran:?}");
    assert_eq!(node.run("f()").await.text(), "3");
    assert_eq!(node.run("const a = 10; f()").await.text(), "12");
    assert_eq!(node.run("const c = await Promise.resolve({ deep: [1] }); c").await.text(), "{ deep: [ 1 ] }");
    assert_eq!(node.run("c.deep.length").await.text(), "1");
    let imports = "import fs, { readFileSync as read } from 'node:fs'\nimport * as path from 'path'\n\
        const { join } = await import('node:path');\n\
        [typeof fs.statSync, typeof read, path.join === join, typeof require('os').cpus]";
    let shown = node.run(imports).await;
    assert_eq!(shown.text(), "[ 'function', 'function', true, 'function' ]", "{shown:?}");
    daemon.output(&sandbox, "echo 'export const local = 5' > local.mjs").await;
    assert_eq!(node.run("const { local } = await import('./local.mjs'); local").await.text(), "5");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_displays_and_types() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let node = Interpreter::open(&daemon, &sandbox, Language::Javascript).await;
    let ran = node.run("function fail() { throw new TypeError('wrong') }\nfail()").await;
    let error = &ran.errors[0];
    assert_eq!(
        (ran.status, error.name.as_str(), error.value.as_str()),
        (Some(RunStatus::Error), "TypeError", "wrong")
    );
    assert_eq!(error.traceback, "TypeError: wrong\n    at fail (run-1:1:25)\n    at run-1:2:1");
    assert_eq!(node.run("throw 5").await.errors[0].value, "5");
    assert_eq!(node.run("await Promise.reject(new Error('later'))").await.errors[0].value, "later");
    assert_eq!(node.run("x y").await.errors[0].name, "SyntaxError");
    let ran = node.run("display.html('<b>1</b>'); display({ [Symbol.for('Jupyter.display')]: () => ({ 'application/json': { a: 1 } }) })").await;
    assert_eq!(ran.displays[0].html.as_deref(), Some("<b>1</b>"));
    assert_eq!(ran.displays[1].json, Some(serde_json::json!({ "a": 1 })));
    // Code of an earlier run must not end the context.
    assert!(
        node.run("let seen = 1; setTimeout(() => { seen = 2; throw new Error('late') }, 1); 0").await.is_ok()
    );
    let wait = "await new Promise(done => setTimeout(done, 50)); seen";
    let ran = node.run(wait).await;
    assert_eq!((ran.text(), ran.restarted), ("2", false), "{ran:?}");

    let typed = Interpreter::open(&daemon, &sandbox, Language::Typescript).await;
    let ran =
        typed.run("interface Point { x: number }\nconst point: Point = { x: 1 }\npoint.x as number").await;
    assert_eq!(ran.text(), "1");
    assert_eq!(typed.run("const twice = (n: number): number => 2 * n; twice(point.x)").await.text(), "2");
    daemon.stop().await;
}

/// More than a pipe holds, before a record and before the end of the run.
#[tokio::test(flavor = "multi_thread")]
async fn large_output_arrives_with_its_run() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let node = Interpreter::open(&daemon, &sandbox, Language::Javascript).await;
    for code in ["console.log('x'.repeat(999_999)); 1", "process.stdout.write(Buffer.alloc(1_000_000, 'x'))"]
    {
        let ran = node.run(code).await;
        assert_eq!((ran.stdout.len(), ran.is_ok()), (1_000_000, true), "{code}");
    }
    let ran = node.run("console.error('e'.repeat(99_999))").await;
    assert_eq!((ran.stdout.len(), ran.stderr.len()), (0, 100_000));
    daemon.stop().await;
}
