//! Terminals: the time until a typed key is echoed.

use std::fs::File;
use std::io::{Read, Write};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use futures::StreamExt;
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::terminal::OpenTerminal;
use sandbox_client::{Client, Keyboard, TerminalEvent, TerminalEvents};
use sandboxd::model::layout::container_name;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;

use crate::home::{Home, docker};
use crate::table::{heading, ratio, row};

const WARM_UP: usize = 20;
const BLOCK: usize = 50;
const BLOCKS: usize = 8;
const SETTLE: Duration = Duration::from_millis(300);

/// The same program on every side: it draws each key itself, like an interactive shell.
const SHELL: [&str; 3] = ["bash", "--norc", "-i"];

/// The end of its prompt.
const PROMPT: u8 = b'$';

/// A key, and the one that deletes it, so that the line stays short.
const KEY: u8 = b'x';
const RUB_OUT: u8 = 0x7f;

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let request = CreateSandbox { session_key: "bench:1".into(), ..CreateSandbox::default() };
    let sandbox = home.client().create_or_reconnect(&request).await.unwrap().sandbox_id;
    let mut ours = Ours::open(&home.client(), &sandbox).await;
    let mut engine = Engine::open(&sandbox).await;
    let mut bare = Bare::open();
    let (mut seen, mut seen_by_engine, mut seen_bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..WARM_UP {
        ours.press().await;
        engine.press().await;
        bare.press();
    }
    for _ in 0..BLOCKS {
        sleep(SETTLE).await;
        for _ in 0..BLOCK {
            seen.push(ours.press().await);
        }
        sleep(SETTLE).await;
        for _ in 0..BLOCK {
            seen_bare.push(bare.press());
        }
        sleep(SETTLE).await;
        for _ in 0..BLOCK {
            seen_by_engine.push(engine.press().await);
        }
    }
    heading(&format!("from a key press in bash to its echo, {} keys each", BLOCK * BLOCKS));
    let ours = row("sandboxd, WebSocket", seen);
    let engine = row("docker exec -it through the engine's API", seen_by_engine);
    row("a terminal on the host", seen_bare);
    println!("  {:<52} {:>7.2} ms   (goal: at most 3)", "sandboxd", ours.p50);
    ratio("sandboxd / docker exec", ours.p50 / engine.p50, "at most 2");
}

/// A viewer of a sandboxd terminal.
struct Ours {
    events: TerminalEvents,
    keyboard: Keyboard,
}

impl Ours {
    async fn open(client: &Client, sandbox: &SandboxId) -> Self {
        let args = SHELL[1..].iter().map(|arg| (*arg).to_owned()).collect();
        let request =
            OpenTerminal { cmd: Some(SHELL[0].into()), args: Some(args), ..OpenTerminal::default() };
        let terminal = client.open_terminal(sandbox, &request).await.unwrap().terminal_id;
        let (events, keyboard) = client.attach_terminal(sandbox, &terminal).await.unwrap();
        let mut opened = Self { events, keyboard };
        while !opened.output().await.contains(&PROMPT) {}
        opened
    }

    async fn press(&mut self) -> Duration {
        let began = Instant::now();
        self.keyboard.type_in(vec![KEY]).await.unwrap();
        assert_eq!(self.output().await.last(), Some(&KEY));
        let took = began.elapsed();
        self.keyboard.type_in(vec![RUB_OUT]).await.unwrap();
        self.output().await;
        took
    }

    async fn output(&mut self) -> Vec<u8> {
        loop {
            if let TerminalEvent::Output(bytes) = self.events.next().await.unwrap().unwrap() {
                return bytes.into();
            }
        }
    }
}

/// The engine's own exec with a terminal, in the same container.
struct Engine {
    output: Pin<Box<dyn futures::Stream<Item = Vec<u8>> + Send>>,
    input: Pin<Box<dyn AsyncWrite + Send>>,
}

impl Engine {
    async fn open(sandbox: &SandboxId) -> Self {
        let docker = docker().await;
        let config = ExecConfig {
            cmd: Some(SHELL.map(str::to_owned).into()),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(true),
            ..ExecConfig::default()
        };
        let id = docker.create_exec(&container_name(sandbox), config).await.unwrap().id;
        let options = StartExecOptions { tty: true, ..StartExecOptions::default() };
        let StartExecResults::Attached { output, input } =
            docker.start_exec(&id, Some(options)).await.unwrap()
        else {
            panic!("the exec is not attached");
        };
        let output = output.map(|output| output.unwrap().into_bytes().to_vec());
        let mut opened = Self { output: Box::pin(output), input };
        while !opened.output.next().await.unwrap().contains(&PROMPT) {}
        opened
    }

    async fn press(&mut self) -> Duration {
        let began = Instant::now();
        self.write(KEY).await;
        assert_eq!(self.output.next().await.unwrap().last(), Some(&KEY));
        let took = began.elapsed();
        self.write(RUB_OUT).await;
        self.output.next().await.unwrap();
        took
    }

    async fn write(&mut self, key: u8) {
        self.input.write_all(&[key]).await.unwrap();
        self.input.flush().await.unwrap();
    }
}

/// The lower bound: a terminal of the host, without container or network.
struct Bare {
    master: File,
    shell: Child,
}

impl Bare {
    fn open() -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap();
        let slave = File::from(open(&path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap());
        let side = || Stdio::from(slave.try_clone().unwrap());
        let mut shell = Command::new("setsid");
        // Root's prompt ends differently.
        shell.arg("--ctty").args(SHELL).env("TERM", "xterm-256color").env("PS1", "$ ");
        let shell = shell.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        let mut opened = Self { master: master.into(), shell };
        while !opened.read().contains(&PROMPT) {}
        opened
    }

    fn press(&mut self) -> Duration {
        let began = Instant::now();
        self.master.write_all(&[KEY]).unwrap();
        assert_eq!(self.read().last(), Some(&KEY));
        let took = began.elapsed();
        self.master.write_all(&[RUB_OUT]).unwrap();
        self.read();
        took
    }

    fn read(&mut self) -> Vec<u8> {
        let mut buffer = [0; 4096];
        let length = self.master.read(&mut buffer).unwrap();
        buffer[..length].to_vec()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
