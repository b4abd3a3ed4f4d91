//! A command, run by sandboxd and by its competitors.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use sandbox_api::SandboxId;
use sandboxd::model::layout::container_name;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::home::{TOKEN, docker};

/// A script that writes `bytes` of 64-byte lines as fast as the tools can.
fn writer(bytes: u64) -> String {
    format!("yes 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde | head -c {bytes}")
}

/// A connection to an HTTP server on this machine that is kept alive.
pub(crate) async fn connect(port: u16) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// sandboxd, over one kept-alive connection.
pub(crate) struct Api {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Api {
    pub(crate) async fn connect(port: u16) -> Self {
        let host = format!("127.0.0.1:{port}");
        Self { sender: connect(port).await, host }
    }

    /// Start, stream and exit record in one call.
    pub(crate) async fn run_true(&mut self, sandbox: &SandboxId) -> Duration {
        self.time(sandbox, r#"{"script":"true"}"#).await
    }

    /// The same in a login shell.
    pub(crate) async fn run_true_in_login_shell(&mut self, sandbox: &SandboxId) -> Duration {
        self.time(sandbox, r#"{"args":["-lc","true"]}"#).await
    }

    async fn time(&mut self, sandbox: &SandboxId, request: &str) -> Duration {
        let began = Instant::now();
        let body = self.run(sandbox, request.to_owned()).await.collect().await.unwrap().to_bytes();
        let took = began.elapsed();
        assert!(body.ends_with(b"}\n") && body.windows(12).any(|part| part == b"\"exitCode\":0"));
        took
    }

    /// Reads the whole stream as bytes. The competitors' output is not parsed either.
    pub(crate) async fn stream(&mut self, sandbox: &SandboxId, bytes: u64) -> Duration {
        let began = Instant::now();
        let request = format!(r#"{{"script":"{}","timeoutMs":300000}}"#, writer(bytes));
        let mut body = self.run(sandbox, request).await;
        let mut last = Bytes::new();
        while let Some(frame) = body.frame().await {
            last = frame.unwrap().into_data().unwrap();
        }
        let took = began.elapsed();
        let end = String::from_utf8_lossy(&last);
        assert!(end.contains(&format!(r#""stdoutBytes":{bytes},"stderrBytes":0,"droppedBytes":0"#)), "{end}");
        took
    }

    /// Reads one response to its end, as bytes.
    pub(crate) async fn get(&mut self, path: &str) -> (Duration, Bytes) {
        let began = Instant::now();
        let body = self.send("GET", path, Bytes::new()).await.collect().await.unwrap().to_bytes();
        (began.elapsed(), body)
    }

    /// Sends a body and reads the response.
    pub(crate) async fn put(&mut self, path: &str, body: Bytes) -> Duration {
        let began = Instant::now();
        self.send("PUT", path, body).await.collect().await.unwrap();
        began.elapsed()
    }

    /// Reads a response and returns its length.
    pub(crate) async fn drain(&mut self, path: &str) -> (Duration, usize) {
        let began = Instant::now();
        let mut body = self.send("GET", path, Bytes::new()).await;
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame.unwrap().into_data().unwrap().len();
        }
        (began.elapsed(), bytes)
    }

    /// Runs a script that must succeed.
    pub(crate) async fn script(&mut self, sandbox: &SandboxId, script: &str) -> Duration {
        let began = Instant::now();
        let request = serde_json::json!({ "script": script, "timeoutMs": 120_000 }).to_string();
        let body = self.run(sandbox, request).await.collect().await.unwrap().to_bytes();
        let took = began.elapsed();
        assert!(body.windows(12).any(|part| part == b"\"exitCode\":0"), "{}", String::from_utf8_lossy(&body));
        took
    }

    async fn run(&mut self, sandbox: &SandboxId, request: String) -> Incoming {
        self.send("POST", &format!("/v1/sandboxes/{sandbox}/commands"), request).await
    }

    async fn send(&mut self, method: &str, path: &str, body: impl Into<Bytes>) -> Incoming {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("accept", "application/x-ndjson")
            .header("x-remcochat-admin-token", TOKEN)
            .body(Full::new(body.into()))
            .unwrap();
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body()
    }
}

/// The engine's own exec in the same container.
pub(crate) struct EngineExec {
    docker: Docker,
    container: String,
}

impl EngineExec {
    pub(crate) async fn new(sandbox: &SandboxId) -> Self {
        Self { docker: docker().await, container: container_name(sandbox) }
    }

    /// Create, start, read to the end, and query the exit code.
    pub(crate) async fn run_true(&mut self) -> Duration {
        let began = Instant::now();
        let id = self.create("true").await;
        let StartExecResults::Attached { mut output, .. } = self.docker.start_exec(&id, None).await.unwrap()
        else {
            panic!("the exec is not attached");
        };
        while output.next().await.is_some() {}
        let inspected = self.docker.inspect_exec(&id).await.unwrap();
        let took = began.elapsed();
        assert_eq!(inspected.exit_code, Some(0));
        took
    }

    /// Reads the hijacked connection raw, including the frames: the fastest way for a client of the engine.
    pub(crate) async fn stream(&mut self, bytes: u64) -> Duration {
        let began = Instant::now();
        let id = self.create(&writer(bytes)).await;
        let mut stream = UnixStream::connect("/var/run/docker.sock").await.unwrap();
        let body = r#"{"Detach":false,"Tty":false}"#;
        let request = format!(
            "POST /exec/{id}/start HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut buffer = vec![0; 256 * 1024];
        let mut read = 0;
        loop {
            match stream.read(&mut buffer).await.unwrap() {
                0 => break,
                length => read += length as u64,
            }
        }
        assert!(read > bytes, "{read} bytes came");
        began.elapsed()
    }

    async fn create(&self, script: &str) -> String {
        let config = ExecConfig {
            cmd: Some(vec!["bash".into(), "-c".into(), script.into()]),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..ExecConfig::default()
        };
        self.docker.create_exec(&self.container, config).await.unwrap().id
    }
}

/// The lower bound: a process on the host, without container, network or output.
pub(crate) fn fork_true() -> Duration {
    fork("-c")
}

pub(crate) fn fork_true_in_login_shell() -> Duration {
    fork("-lc")
}

fn fork(option: &str) -> Duration {
    let began = Instant::now();
    let status = Command::new("bash")
        .args([option, "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let took = began.elapsed();
    assert!(status.success());
    took
}
