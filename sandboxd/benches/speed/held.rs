//! What open connections keep in memory: readers of a command's output, terminals with a viewer, and connections through the
//! preview gateway. Beside them, `docker exec` with and without a terminal.

use std::time::Duration;

use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::terminal::OpenTerminal;
use sandboxd::model::layout::container_name;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::commands::agent_pid;
use crate::home::{Home, docker};
use crate::memory::{anonymous_kib, engine_pid, parent};
use crate::table::{group, size};
use crate::web::start_server;

/// Connections of each kind.
const OPEN: usize = 50;

const PORT: u16 = 3000;

/// What runs in a terminal or writes to a reader: a line, and then nothing.
const PROGRAM: &str = "echo ready; exec sleep 1000";

/// Time after which temporary memory is free.
const SETTLE: Duration = Duration::from_secs(3);

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let request = CreateSandbox {
        session_key: "bench:1".into(),
        ports: Some(vec![PORT.into()]),
        ..CreateSandbox::default()
    };
    let sandbox = home.client().create_or_reconnect(&request).await.unwrap().sandbox_id;
    let agent = agent_pid(&sandbox).await;
    group(&format!("memory of one of {OPEN} open connections"));
    previews(&home, &sandbox, agent).await;
    readers(&home, &sandbox, agent).await;
    terminals(&home, &sandbox, agent).await;
    engine_execs(&sandbox, agent).await;
}

/// Memory of two processes that files do not back.
#[derive(Clone, Copy)]
struct Pair(u32, u32);

impl Pair {
    async fn kib(self) -> (u64, u64) {
        sleep(SETTLE).await;
        (anonymous_kib(self.0), anonymous_kib(self.1))
    }

    async fn print(self, names: [&str; 2], before: (u64, u64)) {
        let now = self.kib().await;
        for (name, now, before) in [(names[0], now.0, before.0), (names[1], now.1, before.1)] {
            size(name, now.saturating_sub(before) as f64 / OPEN as f64, "");
        }
    }
}

async fn readers(home: &Home, sandbox: &SandboxId, agent: u32) {
    let client = home.client();
    let request = StartCommand { script: Some(PROGRAM.into()), ..StartCommand::default() };
    let command = client.start(sandbox, &request).await.unwrap().command_id;
    let pair = Pair(home.daemon_pid(), agent);
    let before = pair.kib().await;
    let mut open = Vec::new();
    for _ in 0..OPEN {
        let mut records = client.logs(sandbox, &command, 0, true).await.unwrap();
        records.next().await.unwrap().unwrap();
        open.push(records);
    }
    pair.print(["a reader of output, in the daemon", "  in the agent"], before).await;
}

async fn terminals(home: &Home, sandbox: &SandboxId, agent: u32) {
    let client = home.client();
    let pair = Pair(home.daemon_pid(), agent);
    let before = pair.kib().await;
    let mut open = Vec::new();
    for _ in 0..OPEN {
        let args = ["-c", PROGRAM].map(str::to_owned).into();
        let request = OpenTerminal { cmd: Some("bash".into()), args: Some(args), ..OpenTerminal::default() };
        let terminal = client.open_terminal(sandbox, &request).await.unwrap().terminal_id;
        let (mut events, keyboard) = client.attach_terminal(sandbox, &terminal).await.unwrap();
        events.next().await.unwrap().unwrap();
        open.push((events, keyboard));
    }
    pair.print(["a terminal with a viewer, in the daemon", "  in the agent"], before).await;
}

async fn previews(home: &Home, sandbox: &SandboxId, agent: u32) {
    start_server(([127, 0, 0, 1], PORT).into(), Some(agent)).await;
    let found = home.client().find_port(sandbox, PORT).await.unwrap();
    let host = found.url.unwrap().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let pair = Pair(home.daemon_pid(), agent);
    let before = pair.kib().await;
    let mut open = Vec::new();
    for _ in 0..OPEN {
        let mut stream = TcpStream::connect(("127.0.0.1", found.host_port.unwrap())).await.unwrap();
        stream.write_all(format!("GET /small HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await.unwrap();
        assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
        open.push(stream);
    }
    pair.print(["a connection by the preview gateway, in the daemon", "  in the agent"], before).await;
}

/// The engine and its shim with as many `docker exec`.
async fn engine_execs(sandbox: &SandboxId, agent: u32) {
    let docker = docker().await;
    for (tty, names) in [
        (false, ["docker exec, in the engine", "  in the container's shim"]),
        (true, ["docker exec -t, in the engine", "  in the container's shim"]),
    ] {
        let pair = Pair(engine_pid(), parent(agent));
        let before = pair.kib().await;
        let mut open = Vec::new();
        for _ in 0..OPEN {
            let config = ExecConfig {
                cmd: Some(["bash", "-c", PROGRAM].map(str::to_owned).into()),
                attach_stdout: Some(true),
                tty: Some(tty),
                ..ExecConfig::default()
            };
            let exec = docker.create_exec(&container_name(sandbox), config).await.unwrap().id;
            let options = StartExecOptions { tty, ..StartExecOptions::default() };
            let StartExecResults::Attached { mut output, .. } =
                docker.start_exec(&exec, Some(options)).await.unwrap()
            else {
                panic!("no output")
            };
            output.next().await.unwrap().unwrap();
            open.push(output);
        }
        pair.print(names, before).await;
    }
}
