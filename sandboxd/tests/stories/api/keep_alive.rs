//! Common HTTP clients pause between two requests and reuse their kept-alive connection.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use sandbox_api::TOKEN_HEADER;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::support::harness::{Daemon, SOON, TOKEN, skip};

/// Pause between two requests: longer than a request's head may take, and longer than clients keep a connection to a
/// server that announces no timeout.
const PAUSE: Duration = Duration::from_secs(12);

/// Node's `fetch`, which is undici.
const UNDICI: &str = "
const [base, name, token, pause] = process.argv.slice(1);
for (const ms of [Number(pause), 0]) {
  const headers = { [name]: token, 'content-type': 'application/json' };
  const asked = await fetch(base + '/v1/sandboxes', { method: 'POST', headers, body: '{\"sessionKey\":\"chat:1\"}' });
  await asked.json();
  console.log(asked.status);
  await new Promise((done) => setTimeout(done, ms));
}";

/// Python's own `http.client`.
const HTTP_CLIENT: &str = "
import http.client, sys, time
base, name, token, pause = sys.argv[1:]
connection = http.client.HTTPConnection(base.removeprefix('http://'))
for ms in (int(pause), 0):
    headers = {name: token, 'content-type': 'application/json'}
    connection.request('POST', '/v1/sandboxes', '{\"sessionKey\":\"chat:1\"}', headers)
    answer = connection.getresponse()
    answer.read()
    print(answer.status, flush=True)
    time.sleep(ms / 1000)
";

/// The popular Python package `requests`.
const REQUESTS: &str = "
import requests, sys, time
base, name, token, pause = sys.argv[1:]
session = requests.Session()
session.trust_env = False
for ms in (int(pause), 0):
    answer = session.post(base + '/v1/sandboxes', json={'sessionKey': 'chat:1'}, headers={name: token})
    print(answer.status_code, flush=True)
    time.sleep(ms / 1000)
";

/// Forwards connections to the daemon. Returns its URL and the number of connections.
async fn front(daemon: &Daemon) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (count, to) =
        (Arc::new(AtomicUsize::new(0)), daemon.base.strip_prefix("http://").unwrap().to_owned());
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut server = TcpStream::connect(&to).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    (url, count)
}

/// Makes two requests with a program that finds Python packages in `packages`.
async fn program(url: &str, program: &[&str], packages: &Path) -> String {
    let pause = PAUSE.as_millis().to_string();
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).args([url, TOKEN_HEADER, TOKEN, &pause]).env_clear().kill_on_drop(true);
    let path = std::env::var_os("PATH").unwrap();
    let output = command.env("PATH", path).env("PYTHONPATH", packages).stdin(Stdio::null()).output();
    let output = timeout(PAUSE + SOON, output).await.unwrap().unwrap();
    assert!(output.status.success(), "{program:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The directory of the package `requests`, which is installed if it is missing. Returns `None` if it cannot be
/// installed.
async fn requests() -> Option<PathBuf> {
    let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-requests");
    if !packages.join("requests").exists() {
        let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"];
        // Renamed into place, so that a partial installation is never used.
        let new = packages.with_extension(std::process::id().to_string());
        let installed = Command::new("python3").args(quiet).arg(&new).arg("requests").status().await;
        if !installed.is_ok_and(|status| status.success()) {
            return None;
        }
        std::fs::rename(new, &packages).unwrap();
    }
    Some(packages)
}

/// Makes two requests with reqwest and its default pool.
async fn pool(url: &str) -> String {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut said = String::new();
    for pause in [PAUSE, Duration::ZERO] {
        let body = json!({ "sessionKey": "chat:1" });
        let ask = http.post(format!("{url}/v1/sandboxes")).header(TOKEN_HEADER, TOKEN).json(&body);
        let answer = ask.send().await.unwrap();
        said += &format!("{}\n", answer.status().as_u16());
        answer.bytes().await.unwrap();
        // The pause itself is what the test needs.
        sleep(pause).await;
    }
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn common_clients_reuse_their_connection_after_a_pause() {
    let Some(packages) = requests().await else { return skip("pip cannot install requests") };
    let daemon = Daemon::start().await;
    daemon.sandbox("chat:1").await;
    let programs: [&[&str]; 3] = [
        &["node", "--input-type=module", "-e", UNDICI],
        &["python3", "-c", HTTP_CLIENT],
        &["python3", "-c", REQUESTS],
    ];
    let programs = join_all(programs.into_iter().map(async |words| {
        let (url, connections) = front(&daemon).await;
        (words[0], program(&url, words, &packages).await, connections.load(Ordering::Relaxed))
    }));
    let pool = async {
        let (url, connections) = front(&daemon).await;
        ("reqwest", pool(&url).await, connections.load(Ordering::Relaxed))
    };
    let (programs, pool) = tokio::join!(programs, pool);
    for (client, said, connections) in programs.into_iter().chain([pool]) {
        assert_eq!((said.as_str(), connections), ("200\n200\n", 1), "{client}");
    }
    daemon.stop().await;
}
