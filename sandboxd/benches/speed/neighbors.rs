//! What one project does to the commands of another: `true` with and without load, in turns.

use std::time::{Duration, Instant};

use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;
use sandbox_api::project::CreateToken;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::Client;
use tokio::task::JoinSet;
use tokio::time::sleep;

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

/// Segmentation faults one after the other.
const SEGFAULTS: &str = "while :; do bash -c 'kill -SEGV $$'; done";

/// Processes that only use the processor.
const BUSY: &str = "for n in $(seq 400); do (while :; do :; done) & done; wait";

/// Processes that live only until they have forked, so that no list has them all.
const HOPPERS: &str = "exec python3 -c '\nimport os\nfor _ in range(40):\n    if os.fork() == 0:\n        break\nwhile True:\n    if os.fork():\n        os._exit(0)'";

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let (loud, quiet) = (client_of(&home, "loud").await, client_of(&home, "quiet").await);
    let sandbox = create(&quiet, "quiet").await;
    let mut sandboxes = Vec::new();
    for number in 0..LOUD {
        sandboxes.push(create(&loud, &format!("loud:{number}")).await);
    }
    let quiet = (&quiet, &sandbox);
    against(quiet, "creates, runs and downloads", 2.0, || requests(&loud, &sandboxes)).await;
    for (name, script) in
        [("segmentation faults", SEGFAULTS), ("400 busy processes", BUSY), ("fork hoppers", HOPPERS)]
    {
        against(quiet, name, 3.0, || {
            let mut load = JoinSet::new();
            for sandbox in &sandboxes {
                let (loud, sandbox, script) = (loud.clone(), sandbox.clone(), script.to_owned());
                load.spawn(async move { run(&loud, &sandbox, &script).await });
            }
            load
        })
        .await;
    }
}

async fn client_of(home: &Home, project: &str) -> Client {
    let operator = home.client();
    operator.create_project(project).await.unwrap();
    let token = operator.create_token(project, &CreateToken::default()).await.unwrap().token;
    Client::new(format!("http://127.0.0.1:{}", home.port), &token).unwrap()
}

async fn create(client: &Client, key: &str) -> SandboxId {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    client.create_or_reconnect(&request).await.unwrap().sandbox_id
}

/// Measures `true` in turns without and with the load. A load ends when its set is dropped, because the end of a stream ends
/// its command.
async fn against(
    (client, sandbox): (&Client, &SandboxId),
    name: &str,
    goal: f64,
    begin: impl Fn() -> JoinSet<()>,
) {
    let (mut idle, mut loaded) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        idle.extend(block(client, sandbox).await);
        let mut load = begin();
        sleep(SETTLE).await;
        loaded.extend(block(client, sandbox).await);
        load.shutdown().await;
        sleep(SETTLE).await;
    }
    heading(&format!("`true` of a project beside another one's {name}"));
    let idle = row("the other one idle", idle);
    let loaded = row("the other one busy", loaded);
    ratio("p50, busy / idle", loaded.p50 / idle.p50, "none");
    ratio("p95, busy / idle", loaded.p95 / idle.p95, &format!("at most {goal}"));
}

async fn block(client: &Client, sandbox: &SandboxId) -> Vec<Duration> {
    let mut took = Vec::new();
    for _ in 0..COMMANDS {
        let began = Instant::now();
        run(client, sandbox, "true").await;
        took.push(began.elapsed());
    }
    took
}

async fn run(client: &Client, sandbox: &SandboxId, script: &str) {
    let request =
        StartCommand { script: Some(script.into()), timeout_ms: Some(300_000), ..StartCommand::default() };
    let Ok(mut records) = client.run(sandbox, &request).await else { return };
    while records.next().await.is_some_and(|record| record.is_ok()) {}
}

/// Creates and deletes, runs commands with output, and downloads, each as fast as it can.
fn requests(client: &Client, sandboxes: &[SandboxId]) -> JoinSet<()> {
    let mut load = JoinSet::new();
    for (number, sandbox) in sandboxes.iter().enumerate() {
        let key = format!("created:{number}");
        let (creating, running, downloading) = (client.clone(), client.clone(), client.clone());
        load.spawn(async move {
            loop {
                let created = create(&creating, &key).await;
                creating.delete(&created).await.unwrap();
            }
        });
        let used = sandbox.clone();
        load.spawn(async move {
            loop {
                run(&running, &used, "head -c 10M /dev/urandom | base64").await;
            }
        });
        let used = sandbox.clone();
        load.spawn(async move {
            run(&downloading, &used, "head -c 50M /dev/urandom > large").await;
            loop {
                let _ = downloading.read_file(&used, "large").await;
            }
        });
    }
    load
}
