//! Download links in a real browser: a link saves its file, and no page can use it for anything else.

use std::fs;
use std::path::Path;

use sandbox_api::files::LinkFile;
use sandbox_client::WriteOptions;
use serde_json::Value;

use crate::support::browser::Browser;
use crate::support::harness::{Daemon, until};
use crate::support::visitor::{link, node, sandbox_with_port, serve};

/// A document that would run a script and name its origin.
const PAGE: &str = "<script>document.title = 'it ran'; globalThis.ran = true</script>";

/// Ways in which a page of a sandbox can embed `TARGET`. Returns those that have worked.
const EMBED: &str = r"
const worked = [];
const load = (name, fields) => new Promise((resolve) => {
  const made = document.createElement(name);
  made.onload = () => resolve(worked.push(name));
  made.onerror = resolve;
  document.body.append(Object.assign(made, fields));
});
await load('script', { src: TARGET });
await load('img', { src: TARGET });
await load('link', { rel: 'stylesheet', href: TARGET });
await fetch(TARGET).then(() => worked.push('fetch'), () => {});
await fetch(TARGET, { mode: 'no-cors' }).then(() => worked.push('opaque fetch'), () => {});
if (globalThis.ran) worked.push('ran');
return worked;
";

fn saved(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_saves_the_file_and_renders_nothing() {
    let Some(browser) = Browser::start().await else { return };
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let name = "r\u{e9}sum\u{e9} \"1\".html";
    daemon.client.put_file(&sandbox, name, PAGE, WriteOptions::default()).await.unwrap();
    let request = LinkFile { path: name.into(), ttl_ms: None };
    let url = daemon.client.link_file(&sandbox, &request).await.unwrap().url;
    serve(
        &daemon,
        &sandbox,
        &node("res.setHeader('content-type', 'text/html'); res.end('<p>a page of a sandbox')"),
    )
    .await;
    browser.open(&link(&daemon, &sandbox).await).await;
    browser.reads("a page of a sandbox").await;
    let target = format!("const TARGET = {};", Value::from(url.as_str()));
    let worked: Vec<String> = browser.settle(&format!("{target}{EMBED}")).await;
    assert_eq!(worked, [""; 0], "a page of a sandbox embeds a file");

    let dir = tempfile::tempdir().unwrap();
    browser.save_downloads_in(dir.path()).await;
    let click = "const link = document.createElement('a'); link.href = TARGET;
        document.body.append(link); link.click();";
    browser.eval::<()>(&format!("{target}{click}")).await;
    until("the file is saved", || async { saved(dir.path()).iter().any(|name| name.ends_with(".html")) })
        .await;
    let [file] = &saved(dir.path())[..] else { panic!("{:?}", saved(dir.path())) };
    assert!(file.starts_with("r\u{e9}sum\u{e9} ") && file.ends_with(".html"), "{file}");
    until("the file is complete", || async { fs::read(dir.path().join(file)).unwrap() == PAGE.as_bytes() })
        .await;
    browser.reads("a page of a sandbox").await;
    browser.quit().await;
    daemon.stop().await;
}
