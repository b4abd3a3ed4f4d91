//! Python: state, results, errors, displays. Each story runs over both agent transports.

use sandbox_api::context::{Language, OpenContext, RunStatus};
use sandbox_api::sandbox::CreateSandbox;

use crate::support::harness::{Daemon, over_each_transport};
use crate::support::runs::Interpreter;

over_each_transport!(
    state_is_kept_in_a_context_and_nowhere_else,
    an_error_has_a_traceback_of_the_code,
    a_coroutine_is_awaited,
    values_are_shown_in_their_formats,
    a_figure_is_shown_without_a_call_to_save_it,
    tables_and_images_are_shown,
    output_of_children_arrives_before_later_results,
    secrets_are_replaced_in_results_and_errors,
);

async fn python(daemon: &Daemon) -> Interpreter {
    let sandbox = daemon.sandbox("chat:1").await;
    Interpreter::open(daemon, &sandbox, Language::Python).await
}

async fn state_is_kept_in_a_context_and_nowhere_else(daemon: &Daemon) {
    let first = python(daemon).await;
    let second = Interpreter::open(daemon, &first.sandbox, Language::Python).await;
    let ran = first.run("import math\nx = 40\ndef double(n):\n    return 2 * n\nprint('set')").await;
    assert_eq!((ran.stdout.as_str(), ran.is_ok(), ran.results.len()), ("set\n", true, 0), "{ran:?}");
    assert_eq!(first.run("double(x) + math.floor(2.5)").await.text(), "82");
    assert_eq!(first.run("_ + 1").await.text(), "83");
    let ran = second.run("x").await;
    assert_eq!((ran.status, ran.errors[0].name.as_str()), (Some(RunStatus::Error), "NameError"));

    let listed = daemon.client.contexts(&first.sandbox).await.unwrap().contexts;
    let found: Vec<_> = listed.iter().map(|one| (&one.context_id, one.runs, one.running)).collect();
    assert_eq!(found, [(&first.id, 3, false), (&second.id, 1, false)]);
    first.close().await;
    let one = daemon.client.context(&first.sandbox, &second.id).await.unwrap();
    assert_eq!((one.language, one.cwd.as_str()), (Language::Python, "/vercel/sandbox/workspace"));
    assert_eq!(daemon.client.contexts(&first.sandbox).await.unwrap().contexts, [one]);

    daemon.output(&first.sandbox, "mkdir sub").await;
    let below = OpenContext { cwd: Some("sub".into()), ..OpenContext::new(Language::Python) };
    let id = daemon.client.open_context(&first.sandbox, &below).await.unwrap().context_id;
    let below = Interpreter { id, ..second };
    assert_eq!(below.run("import os; os.getcwd()").await.text(), "'/vercel/sandbox/workspace/sub'");
}

async fn an_error_has_a_traceback_of_the_code(daemon: &Daemon) {
    let python = python(daemon).await;
    let ran =
        python.run("def ratio(n):\n    return 1 / n\n\nprint('before')\nratio(0)\nprint('after')").await;
    let error = &ran.errors[0];
    assert_eq!((ran.stdout.as_str(), ran.status), ("before\n", Some(RunStatus::Error)));
    assert_eq!((error.name.as_str(), error.value.as_str()), ("ZeroDivisionError", "division by zero"));
    let lines: Vec<&str> = error.traceback.lines().filter(|line| line.contains("File")).collect();
    assert_eq!(
        lines,
        [r#"  File "<run 1>", line 5, in <module>"#, r#"  File "<run 1>", line 2, in ratio"#],
        "{error:?}"
    );
    assert!(error.traceback.contains("    return 1 / n\n"), "{error:?}");
    let error = &python.run("x =").await.errors[0];
    assert_eq!(error.name, "SyntaxError");
    assert!(!error.traceback.contains("ast.py"), "{error:?}");
    assert_eq!(python.run("def again():\n    again()\nagain()").await.errors[0].name, "RecursionError");
    assert_eq!(python.run("raise SystemExit(0)").await.status, Some(RunStatus::Ok));
    assert_eq!(python.run("1 + 1").await.text(), "2");
}

async fn a_coroutine_is_awaited(daemon: &Daemon) {
    let python = python(daemon).await;
    let code = "import asyncio\nasync def three():\n    await asyncio.sleep(0)\n    return 3\nawait three()";
    assert_eq!(python.run(code).await.text(), "3");
    assert_eq!(python.run("values = [await three() for _ in range(2)]\nvalues").await.text(), "[3, 3]");
}

async fn values_are_shown_in_their_formats(daemon: &Daemon) {
    let python = python(daemon).await;
    let code = "class Shown:\n    def __repr__(self): return 'shown'\n    def _repr_html_(self): return '<b>1</b>'\n    \
        def _repr_markdown_(self): return '*1*'\n    def _repr_svg_(self): return '<svg/>'\n    \
        def _repr_png_(self): return b'\\x89PNG'\n    def _repr_json_(self): return {'a': [1]}\n\
        display(Shown(), 'two')\nShown()";
    let ran = python.run(code).await;
    let shown = &ran.results[0];
    assert_eq!(ran.displays[0], *shown);
    assert_eq!(ran.displays[1].text.as_deref(), Some("'two'"));
    let texts = [&shown.text, &shown.html, &shown.markdown, &shown.svg, &shown.png].map(Option::as_deref);
    let expected = ["shown", "<b>1</b>", "*1*", "<svg/>", "iVBORw=="];
    assert_eq!(texts, expected.map(Some), "{shown:?}");
    assert_eq!(shown.json, Some(serde_json::json!({ "a": [1] })));
    let ran = python.run("!echo from the shell\nimport sys").await;
    assert_eq!((ran.stdout.as_str(), ran.is_ok()), ("from the shell\n", true), "{ran:?}");
}

async fn a_figure_is_shown_without_a_call_to_save_it(daemon: &Daemon) {
    let python = python(daemon).await;
    let code =
        "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.figure()\nplt.title('second')\nNone";
    let ran = python.run(code).await;
    assert!(ran.is_ok() && ran.stderr.is_empty(), "{ran:?}");
    assert_eq!(ran.displays.len(), 2, "{ran:?}");
    assert!(ran.displays.iter().all(|shown| is_png(shown.png.as_deref())), "{ran:?}");
    assert_ne!(ran.displays[0].png, ran.displays[1].png);
    let ran = python.run("plt.plot([1])\nplt.show()\nprint('shown')").await;
    assert_eq!((ran.displays.len(), ran.stdout.as_str()), (1, "shown\n"), "{ran:?}");
    let ran = python.run("from matplotlib.figure import Figure\nFigure()").await;
    assert!(is_png(ran.results[0].png.as_deref()) && ran.displays.is_empty(), "{ran:?}");
}

async fn tables_and_images_are_shown(daemon: &Daemon) {
    let python = python(daemon).await;
    let table = python.run("import pandas\npandas.DataFrame({'n': [1, 2]})").await;
    let html = table.results[0].html.as_deref().unwrap_or_default();
    assert!(html.contains("<table") && table.text().contains("0  1"), "{table:?}");
    let image = python.run("from PIL import Image\nImage.new('RGB', (2, 2), 'red')").await;
    assert!(is_png(image.results[0].png.as_deref()), "{image:?}");
}

/// Whether a text is a PNG image in base64: the first six of the eight bytes with which each begins.
fn is_png(image: Option<&str>) -> bool {
    image.is_some_and(|image| image.starts_with("iVBORw0K"))
}

async fn output_of_children_arrives_before_later_results(daemon: &Daemon) {
    let python = python(daemon).await;
    let code = "import os, subprocess\nprint('one')\nsubprocess.run(['sh', '-c', 'echo two; echo err >&2'])\n\
        os.write(1, b'three\\n')\ndisplay(4)\n5";
    let ran = python.run(code).await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("one\ntwo\nthree\n", "err\n"));
    assert_eq!((ran.displays[0].text.as_deref(), ran.text()), (Some("4"), "5"));
}

async fn secrets_are_replaced_in_results_and_errors(daemon: &Daemon) {
    let request = CreateSandbox {
        session_key: "chat:secret".into(),
        env: Some([("API_KEY".to_owned(), "s3cr\"et-value".to_owned())].into_iter().collect()),
        secret_env: Some(vec!["API_KEY".to_owned()]),
        ..CreateSandbox::default()
    };
    let sandbox = daemon.create(&request).await;
    let python = Interpreter::open(daemon, &sandbox, Language::Python).await;
    let ran = python
        .run("import os\nkey = os.environ['API_KEY']\nprint(key)\ndisplay(key)\nraise KeyError(key)")
        .await;
    let reported = format!("{ran:?}");
    assert!(!reported.contains("et-value"), "{reported}");
    assert_eq!(ran.stdout, "[API_KEY]\n");
}
