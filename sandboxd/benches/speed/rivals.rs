//! `bash -c true` by other programs that run commands for an agent, beside sandboxd in the same turns: those of them that are
//! installed. `make bench RIVALS=1` installs them below `target/bench/rivals`.
//!
//! They isolate a command to different degrees. Docker's and Podman's commands run it in a container, bubblewrap in new
//! namespaces on the host's own files. open-terminal runs it without isolation. just-bash, also as bash-tool's interpreter, is a
//! bash written in TypeScript, which starts no process.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::SendRequest;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;
use sandboxd::model::layout::container_name;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::sleep;

use crate::contenders::{self, Api};
use crate::home::{Home, IMAGE, docker};
use crate::table::{heading, ratio, remark, row};

const WARM_UP: usize = 5;
const BLOCK: usize = 20;
const BLOCKS: usize = 6;
const SETTLE: Duration = Duration::from_millis(300);

/// Time limit of a server's start.
const SOON: Duration = Duration::from_secs(20);

const KEY: &str = "a-key-for-benches";

/// What bubblewrap isolates: all it can, with the host's files read-only.
const BUBBLEWRAP: &str =
    "bwrap --unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp bash -c true";

/// The interpreters in TypeScript.
const INTERPRETERS: &str = include_str!("rivals.mjs");

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let request = CreateSandbox { session_key: "bench:1".into(), ..CreateSandbox::default() };
    let sandbox = home.client().create_or_reconnect(&request).await.unwrap().sandbox_id;
    let podman = Podman::start(&home).await;
    let mut ours = Api::connect(home.port).await;
    let mut rivals = installed(&home, &sandbox, podman.as_ref()).await;
    let (mut by_us, mut forked) = (Vec::new(), Vec::new());
    for _ in 0..WARM_UP {
        ours.run_true(&sandbox).await;
        contenders::fork_true();
    }
    for _ in 0..BLOCKS {
        sleep(SETTLE).await;
        for _ in 0..BLOCK {
            by_us.push(ours.run_true(&sandbox).await);
        }
        sleep(SETTLE).await;
        for _ in 0..BLOCK {
            forked.push(contenders::fork_true());
        }
        for (_, rival, times) in &mut rivals {
            sleep(SETTLE).await;
            rival.run(BLOCK, times).await;
        }
    }
    heading(&format!("`bash -c true` elsewhere, {} calls each", BLOCK * BLOCKS));
    let by_us = row("sandboxd, HTTP keep-alive", by_us);
    row("fork+exec on the host", forked);
    for (name, _, times) in rivals {
        let times = row(name, times);
        ratio(&format!("{name} / sandboxd"), times.p50 / by_us.p50, "none");
    }
}

/// Something that runs `bash -c true`.
enum Rival {
    /// A command line that does it each time.
    CommandLine(Vec<String>),
    Interpreter(Interpreter),
    Server(OpenTerminal),
}

impl Rival {
    async fn run(&mut self, count: usize, times: &mut Vec<Duration>) {
        match self {
            Self::CommandLine(words) => {
                for _ in 0..count {
                    let began = Instant::now();
                    assert!(succeeds(words).await, "{words:?}");
                    times.push(began.elapsed());
                }
            }
            Self::Interpreter(interpreter) => times.extend(interpreter.run(count).await),
            Self::Server(server) => times.extend(server.run(count).await),
        }
    }
}

async fn installed(
    home: &Home,
    sandbox: &SandboxId,
    podman: Option<&Podman>,
) -> Vec<(&'static str, Rival, Vec<Duration>)> {
    let mut rivals = Vec::new();
    let in_container = |program: &str, container: &str| {
        words(program).into_iter().chain([container.into()]).chain(words("bash -c true")).collect::<Vec<_>>()
    };
    let mut command_lines = vec![
        ("docker exec, the command", in_container("docker exec", &container_name(sandbox))),
        ("bubblewrap, on the host's files", words(BUBBLEWRAP)),
    ];
    if let Some(podman) = podman {
        command_lines.push(("podman exec, the command", in_container("podman exec", &podman.name)));
    } else {
        remark("podman is not installed, or cannot start a container here");
    }
    for (name, words) in command_lines {
        if succeeds(&words).await {
            rivals.push((name, Rival::CommandLine(words), Vec::new()));
        } else {
            remark(&format!("{} is not installed, or does not work here", words[0]));
        }
    }
    for (name, package) in [("just-bash, in Node", "just-bash"), ("bash-tool, in Node", "bash-tool")] {
        match Interpreter::start(package).await {
            Some(mut interpreter) => {
                interpreter.run(WARM_UP).await;
                rivals.push((name, Rival::Interpreter(interpreter), Vec::new()));
            }
            None => remark(&format!("{package} is not installed")),
        }
    }
    match OpenTerminal::start(home).await {
        Some(server) => rivals.push(("open-terminal, HTTP keep-alive", Rival::Server(server), Vec::new())),
        None => remark("open-terminal is not installed"),
    }
    rivals
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

async fn succeeds(words: &[String]) -> bool {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().await.is_ok_and(|status| status.success())
}

/// Where `make bench RIVALS=1` installs those that are not Debian packages.
fn dir() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_sandboxd")).ancestors().nth(2).unwrap().join("bench/rivals")
}

/// A Node process that measures its calls itself, so that the way to it does not count.
struct Interpreter {
    requests: ChildStdin,
    responses: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Interpreter {
    /// `None` if the package is not installed.
    async fn start(package: &str) -> Option<Self> {
        if !dir().join("node_modules").join(package).exists() {
            return None;
        }
        let script = dir().join("rivals.mjs");
        tokio::fs::write(&script, INTERPRETERS).await.unwrap();
        let mut command = Command::new("node");
        command.arg(&script).arg(package).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().ok()?;
        let (requests, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Some(Self { requests, responses: BufReader::new(output).lines(), _process: process })
    }

    async fn run(&mut self, count: usize) -> Vec<Duration> {
        self.requests.write_all(format!("{count}\n").as_bytes()).await.unwrap();
        let line = self.responses.next_line().await.unwrap().unwrap();
        let nanoseconds: Vec<u64> = serde_json::from_str(&line).unwrap();
        nanoseconds.into_iter().map(Duration::from_nanos).collect()
    }
}

/// A server of open-terminal.
struct OpenTerminal {
    port: u16,
    _process: Child,
}

impl OpenTerminal {
    async fn start(home: &Home) -> Option<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(dir().join("venv/bin/open-terminal"));
        command.args(["run", "--host", "127.0.0.1", "--port", &port.to_string(), "--api-key", KEY]);
        // It keeps a log of each command.
        command.env("HOME", home.path("open-terminal")).current_dir("/tmp").kill_on_drop(true);
        let process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let began = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(began.elapsed() < SOON, "open-terminal did not start");
            sleep(SETTLE).await;
        }
        let server = Self { port, _process: process };
        server.run(WARM_UP).await;
        Some(server)
    }

    /// Sends the requests over one connection, which is not part of the times. It ends a connection that is idle for a while.
    async fn run(&self, count: usize) -> Vec<Duration> {
        let mut sender = contenders::connect(self.port).await;
        let mut times = Vec::new();
        for _ in 0..count {
            times.push(Self::run_once(&mut sender).await);
        }
        times
    }

    async fn run_once(sender: &mut SendRequest<Full<Bytes>>) -> Duration {
        let request = Request::post("/execute?wait=10")
            .header("host", "localhost")
            .header("authorization", format!("Bearer {KEY}"))
            .header("content-type", "application/json")
            .body(Full::from(r#"{"command":"bash -c true"}"#))
            .unwrap();
        let began = Instant::now();
        sender.ready().await.unwrap();
        let response = sender.send_request(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let took = began.elapsed();
        let result: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(result["exit_code"], 0, "{result}");
        took
    }
}

/// A container of Podman on the files of a container of the engine, which has the image already.
struct Podman {
    name: String,
}

impl Podman {
    /// `None` if Podman is not installed or cannot start one.
    async fn start(home: &Home) -> Option<Self> {
        let name = format!("bench-podman-{}", home.instance.id());
        let files = format!("docker run -d --name {name} --entrypoint sleep {IMAGE} infinity");
        if !succeeds(&words("podman --version")).await || !succeeds(&words(&files)).await {
            return None;
        }
        let podman = Self { name };
        let inspected = docker().await.inspect_container(&podman.name, None).await.unwrap();
        let merged = inspected.graph_driver.and_then(|mut driver| driver.data.remove("MergedDir"));
        let run = format!(
            "podman run -d --name {} --network none --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --rootfs {} sleep infinity",
            podman.name,
            merged.unwrap_or_default()
        );
        succeeds(&words(&run)).await.then_some(podman)
    }
}

impl Drop for Podman {
    /// Also after a failed or interrupted measurement.
    fn drop(&mut self) {
        for line in ["podman rm -f -t 0", "docker rm -f -v"] {
            let mut command = std::process::Command::new("env");
            command.args(line.split(' ')).arg(&self.name).stdout(Stdio::null()).stderr(Stdio::null());
            let _ = command.status();
        }
    }
}
