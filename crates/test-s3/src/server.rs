//! The server, and what it stores.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The bucket of a new server.
pub const BUCKET: &str = "snapshots";

/// The server requires a signature and does not check it.
const ANY_SIGNATURE: &str =
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// Time in which the server must start.
const START: Duration = Duration::from_secs(60);

/// A server, which ends when this is dropped.
#[derive(Debug)]
pub struct S3 {
    /// Its URL.
    pub endpoint: String,
    client: reqwest::Client,
    _process: Child,
}

impl S3 {
    /// Starts a server with an empty bucket. `None` if it is not installed, which is an error in continuous integration.
    #[expect(clippy::print_stderr, reason = "a skipped test must not look like one that passed")]
    pub async fn start() -> Option<Self> {
        let program = program();
        if !program.exists() {
            let reason = format!("{} is not installed; `scripts/test` installs it", program.display());
            assert!(std::env::var_os("CI").is_none(), "nothing is skipped under CI: {reason}");
            eprintln!("skipped: {reason}");
            return None;
        }
        let mut process = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", "0"])
            .kill_on_drop(true)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let listening = async {
            loop {
                let line = log.next_line().await.unwrap().expect("the server ended");
                if let Some((_, url)) = line.split_once("Running on ") {
                    return url.trim().to_owned();
                }
            }
        };
        let endpoint = timeout(START, listening).await.expect("the server does not start");
        // It logs each request, and would wait for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let server = Self { endpoint, client, _process: process };
        server.put("", Bytes::new()).await;
        Some(server)
    }

    /// The keys of all objects.
    pub async fn keys(&self) -> Vec<String> {
        let list = self.request(reqwest::Method::GET, "?list-type=2&max-keys=10000").send().await.unwrap();
        let list = list.error_for_status().unwrap().text().await.unwrap();
        let keys = list.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
        keys.map(|key| percent_decode_str(key).decode_utf8().unwrap().into_owned()).collect()
    }

    /// The bytes of an object.
    pub async fn get(&self, key: &str) -> Bytes {
        let found = self.request(reqwest::Method::GET, key).send().await.unwrap();
        found.error_for_status().unwrap().bytes().await.unwrap()
    }

    /// Writes an object.
    pub async fn put(&self, key: &str, bytes: Bytes) {
        let done = self.request(reqwest::Method::PUT, key).body(bytes).send().await.unwrap();
        done.error_for_status().unwrap();
    }

    /// Deletes an object.
    pub async fn delete(&self, key: &str) {
        self.request(reqwest::Method::DELETE, key).send().await.unwrap().error_for_status().unwrap();
    }

    fn request(&self, method: reqwest::Method, key: &str) -> reqwest::RequestBuilder {
        let separator = if key.is_empty() || key.starts_with('?') { "" } else { "/" };
        let url = format!("{}/{BUCKET}{separator}{key}", self.endpoint);
        self.client.request(method, url).header(http::header::AUTHORIZATION, ANY_SIGNATURE)
    }
}

/// The program: named by `TEST_S3_SERVER`, or where `scripts/test` installs it.
fn program() -> PathBuf {
    let named = std::env::var_os("TEST_S3_SERVER").map(PathBuf::from);
    // The test's own program is in `<target>/debug/deps`.
    let installed = || {
        let test = std::env::current_exe().unwrap();
        test.ancestors().nth(3).unwrap().join("s3-venv/bin/moto_server")
    };
    named.unwrap_or_else(installed)
}
