//! Code of a model in the page: figures, tables and errors, also hostile ones.

use std::sync::Arc;

use chat::model::{ModelClient, OpenAi};
use serde_json::{Value, json};

use crate::browser::{is_skipped, run_script};
use crate::scripted_model::{Reply, ScriptedModel};
use crate::test_app::TestApp;
use crate::turns::{calls, text};

/// A figure that nothing saves, and a number that the next code uses.
const FIGURE: &str = "import matplotlib.pyplot as plt\nsquares = [n * n for n in range(20)]\nplt.plot(squares)\nplt.title('Squares')\nplt.show()\nlen(squares)";

const TABLE: &str =
    "import pandas as pd\nprint('a table')\npd.DataFrame({'n': range(3), 'square': squares[:3]})";

const ERROR: &str = "def broken(n):\n    return n / 0\nbroken(squares[1])";

/// Values that try to run a script in the page.
const HOSTILE: &str = "class Hostile:\n    def _repr_html_(self):\n        return '<table><tr><td><img src=x onerror=window.__xss=1><script>window.__xss=1</script>cell</td></tr></table>'\n\
    class Drawing:\n    def _repr_svg_(self):\n        return '<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"40\" onload=\"window.__xss=1\"><script>window.__xss=1</script><rect width=\"40\" height=\"40\"/></svg>'\n\
    display(Drawing())\nHostile()";

fn python(code: &str) -> Reply {
    calls(&[("python", &json!({ "code": code }).to_string())])
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_tables_and_errors_are_shown() {
    if is_skipped() {
        return;
    }
    let replies = [
        python(FIGURE),
        python(TABLE),
        python(ERROR),
        text("All shown."),
        python(HOSTILE),
        text("Harmless."),
    ];
    let model = ScriptedModel::start(replies).await;
    let client: Arc<dyn ModelClient> = Arc::new(OpenAi::new(model.base.clone(), None).unwrap());
    let app = TestApp::with("localhost", "max_concurrent_sandboxes = 10", vec![client]).await;
    run_script("python", &[&app.base]).await;
    let requests = model.requests();
    let names: Vec<_> = tools_of(&requests[0].body).collect();
    assert!(names.contains(&"python"), "{names:?}");
    let results: String = results_of(&requests.last().unwrap().body).collect();
    for told in ["the user sees this as an image", "the user sees this as a table", "ZeroDivisionError"] {
        assert!(results.contains(told), "{results}");
    }
    assert!(!results.contains("iVBOR") && !results.contains("<svg"), "a model gets no images: {results}");
}

/// What the model got of the tools.
fn results_of(request: &Value) -> impl Iterator<Item = String> {
    let messages = request["messages"].as_array().unwrap().iter();
    messages.filter(|message| message["role"] == "tool").map(|message| message["content"].to_string())
}

fn tools_of(request: &Value) -> impl Iterator<Item = &str> {
    request["tools"].as_array().unwrap().iter().filter_map(|tool| tool["function"]["name"].as_str())
}
