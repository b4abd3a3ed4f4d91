//! What one project does to the commands of another: `true` with and without load, in turns.

use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::join_all;
use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;
use sandbox_api::project::CreateToken;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::{Client, Error};
use tokio::process::{Child, Command};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::contenders::fork_true;
use crate::home::Home;
use crate::table::{heading, ratio, row};

/// Blocks with load, and as many without.
const ROUNDS: usize = 6;

/// Commands of a block.
const COMMANDS: usize = 50;

/// Time for a load to begin, and for its end.
const SETTLE: Duration = Duration::from_secs(2);

/// Sandboxes of the loud project.
const LOUD: usize = 4;

/// As much output as possible.
const OUTPUT: &str = "head -c 10M /dev/urandom | base64";

/// Segmentation faults one after the other.
const SEGFAULTS: &str = "while :; do bash -c 'kill -SEGV $$'; done";

/// Processes that only use the processor.
const BUSY: &str = "for n in $(seq 400); do (while :; do :; done) & done; wait";

/// Processes that live only until they have forked, so that no list has them all.
const HOPPERS: &str = "exec python3 -c '\nimport os\nfor _ in range(40):\n    if os.fork() == 0:\n        break\nwhile True:\n    if os.fork():\n        os._exit(0)'";

/// What the loud project does, its name in the table, and how much slower another project may become.
const LOADS: [(&str, &str, f64); 7] = [
    ("creates", "creates and deletes", 2.0),
    ("output", "commands with output", 2.0),
    ("downloads", "downloads", 2.0),
    ("requests", "creates, runs and downloads", 2.0),
    ("segfaults", "segmentation faults", 3.0),
    ("busy", "400 busy processes", 3.0),
    ("hoppers", "fork hoppers", 3.0),
];

/// First argument of the process that makes the load.
pub(crate) const LOUD_PROCESS: &str = "loud";

/// `only` selects loads. Without one, all are measured.
pub(crate) async fn measure(only: &[String]) {
    let is_load = |name: &String| LOADS.iter().any(|(load, ..)| load == name);
    let is_wanted = |load: &str| !only.iter().any(is_load) || only.iter().any(|name| name == load);
    let mut home = Home::new();
    home.start().await;
    let (loud, quiet) = (token_of(&home, "loud").await, token_of(&home, "quiet").await);
    let quiet = client_of(home.port, &quiet);
    let sandbox = create(&quiet, "quiet").await;
    for (load, name, goal) in LOADS.into_iter().filter(|(load, ..)| is_wanted(load)) {
        heading(&format!("`true` of a project beside another one's {name}"));
        let begin = || LoudProcess::start(load, home.port, &loud);
        against((&quiet, &sandbox), begin, goal).await;
    }
}

/// The clients of the loud project. They have a process of their own with the lowest priority: clients of another project
/// are on other machines, so only what they make the daemon do may slow it down.
struct LoudProcess(Child);

impl LoudProcess {
    fn start(load: &str, port: u16, token: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(program).args([LOUD_PROCESS, load, &port.to_string(), token]);
        Self(command.kill_on_drop(true).spawn().unwrap())
    }

    /// Ends it, and with its connections the commands that it waits for.
    async fn end(mut self) {
        self.0.kill().await.unwrap();
    }
}

/// The load of a [`LoudProcess`], given its arguments. Does not return.
pub(crate) async fn be_loud(arguments: &[String]) {
    let [load, port, token] = arguments else { panic!("a load, a port and a token are needed") };
    let client = client_of(port.parse().unwrap(), token);
    let each = (0..LOUD).map(|number| make_load(load, number, client.clone()));
    join_all(each).await;
}

async fn make_load(load: &str, number: usize, client: Client) {
    let script = match load {
        "creates" => return create_and_delete(&client, number).await,
        "output" => OUTPUT,
        "downloads" => return download(&client, number).await,
        "requests" => {
            let output = repeat(&client, number, OUTPUT);
            tokio::join!(create_and_delete(&client, number), output, download(&client, number));
            return;
        }
        "segfaults" => SEGFAULTS,
        "busy" => BUSY,
        "hoppers" => HOPPERS,
        other => panic!("there is no load {other}"),
    };
    repeat(&client, number, script).await;
}

async fn token_of(home: &Home, project: &str) -> String {
    let operator = home.client();
    operator.create_project(project).await.unwrap();
    operator.create_token(project, &CreateToken::default()).await.unwrap().token
}

fn client_of(port: u16, token: &str) -> Client {
    Client::new(format!("http://127.0.0.1:{port}"), token).unwrap()
}

async fn create(client: &Client, key: &str) -> SandboxId {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    loop {
        match client.create_or_reconnect(&request).await {
            Ok(created) => return created.sandbox_id,
            // The limit of creates in a minute.
            Err(Error::Refused { retry_after: Some(wait), .. }) => sleep(wait).await,
            Err(error) => panic!("a create failed: {error}"),
        }
    }
}

/// Measures `true` in turns without and with the load. Beside it, a bare `bash -c true` on the host: what the load does to
/// that is not the daemon's doing.
async fn against((client, sandbox): (&Client, &SandboxId), begin: impl Fn() -> LoudProcess, goal: f64) {
    let (mut idle, mut loaded) = (Block::default(), Block::default());
    for _ in 0..ROUNDS {
        idle.measure(client, sandbox).await;
        let load = begin();
        sleep(SETTLE).await;
        loaded.measure(client, sandbox).await;
        load.end().await;
        sleep(SETTLE).await;
    }
    let forked_idle = row("fork+exec on the host, the other one idle", idle.forked);
    let forked_loaded = row("fork+exec on the host, the other one busy", loaded.forked);
    let idle = row("sandboxd, the other one idle", idle.commands);
    let loaded = row("sandboxd, the other one busy", loaded.commands);
    ratio("fork+exec: p95, busy / idle", forked_loaded.p95 / forked_idle.p95, "none");
    ratio("sandboxd: p50, busy / idle", loaded.p50 / idle.p50, "none");
    ratio("sandboxd: p95, busy / idle", loaded.p95 / idle.p95, &format!("at most {goal}"));
}

/// What the blocks of one kind took.
#[derive(Default)]
struct Block {
    commands: Vec<Duration>,
    forked: Vec<Duration>,
}

impl Block {
    async fn measure(&mut self, client: &Client, sandbox: &SandboxId) {
        for _ in 0..COMMANDS {
            let began = Instant::now();
            run(client, sandbox, "true").await;
            self.commands.push(began.elapsed());
            self.forked.push(spawn_blocking(fork_true).await.unwrap());
        }
    }
}

async fn run(client: &Client, sandbox: &SandboxId, script: &str) {
    let request =
        StartCommand { script: Some(script.into()), timeout_ms: Some(300_000), ..StartCommand::default() };
    let Ok(mut records) = client.run(sandbox, &request).await else { return };
    while records.next().await.is_some_and(|record| record.is_ok()) {}
}

async fn repeat(client: &Client, number: usize, script: &str) {
    let sandbox = create(client, &format!("loud:{number}")).await;
    loop {
        run(client, &sandbox, script).await;
    }
}

async fn create_and_delete(client: &Client, number: usize) {
    loop {
        let created = create(client, &format!("created:{number}")).await;
        client.delete(&created).await.unwrap();
    }
}

async fn download(client: &Client, number: usize) {
    let sandbox = create(client, &format!("loud:{number}")).await;
    run(client, &sandbox, "test -s large || head -c 50M /dev/urandom >large; sync large").await;
    loop {
        let _ = client.read_file(&sandbox, "large").await;
    }
}
