//! New sandboxes while some wait: a create, and the time until a first command has ended ("time to interactive": from the
//! request for a sandbox to the end of `node -v`), one after the other, ten at intervals, and twenty at once. The competitor is
//! the engine with the same container, and `docker exec`.

use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::join_all;
use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;
use sandbox_client::Client;
use tokio::time::sleep;

use crate::home::Home;
use crate::lifecycle::{EngineTimes, Rival, VERSION_OF_NODE, bring_up};
use crate::table::{heading, ratio, row};

const WARM_UP: usize = 2;
const ROUNDS: usize = 20;
const STAGGERED: usize = 10;
const BURST: usize = 20;

/// Sandboxes that wait.
const WAITING: &str = "2";

/// Interval of the ones at intervals.
const INTERVAL: Duration = Duration::from_millis(200);

/// Pause after work that keeps the engine busy, and until another sandbox waits.
const SETTLE: Duration = Duration::from_millis(1500);

pub(crate) async fn measure() {
    let mut warm = Home::new();
    warm.start_with(&[("SANDBOXD_POOL_SIZE", WAITING)]).await;
    let mut cold = Home::new();
    cold.start().await;
    let (warm, cold) = (warm.client(), cold.client());
    let rival = Rival::new().await;
    let (mut from_pool, mut interactive, mut without) = (Vec::new(), Vec::new(), Vec::new());
    let (mut engine, mut engine_interactive) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        let key = format!("bench:{round}");
        sleep(SETTLE).await;
        let (created, node, sandbox) = until_interactive(&warm, &key).await;
        warm.delete(&sandbox).await.unwrap();
        sleep(SETTLE).await;
        let (_, cold_node, sandbox) = until_interactive(&cold, &key).await;
        cold.delete(&sandbox).await.unwrap();
        sleep(SETTLE).await;
        let EngineTimes { started, interactive: exec, .. } = rival.create_and_start().await;
        if round >= WARM_UP {
            from_pool.push(created);
            interactive.push(node);
            without.push(cold_node);
            engine.push(started);
            engine_interactive.push(exec);
        }
    }
    heading(&format!("a new sandbox while {WAITING} wait, {ROUNDS} of each"));
    let from_pool = row("sandboxd, create: request to answer", from_pool);
    let engine = row("the engine's create and start of the same container", engine);
    ratio("engine / create", engine.p50 / from_pool.p50, "at least 20, and create at most 6 ms");
    heading("create to the end of the first `node -v`");
    row("sandboxd, while some wait (goal: at most 60 ms)", interactive);
    row("sandboxd, without one that waits", without);
    row("the engine's create, start and docker exec", engine_interactive);
    many(&warm, &format!("{STAGGERED}, one each {} ms", INTERVAL.as_millis()), STAGGERED, INTERVAL).await;
    many(&warm, &format!("{BURST} at once, while {WAITING} wait"), BURST, Duration::ZERO).await;
    many(&cold, &format!("{BURST} at once, without"), BURST, Duration::ZERO).await;
}

/// Prints the times of several sandboxes, of which one begins each `interval`.
async fn many(client: &Client, name: &str, count: usize, interval: Duration) {
    sleep(SETTLE).await;
    let begin = |number: usize| async move {
        sleep(interval * number as u32).await;
        until_interactive(client, &format!("{name}:{number}")).await
    };
    let done = join_all((0..count).map(begin)).await;
    for (_, _, sandbox) in &done {
        client.delete(sandbox).await.unwrap();
    }
    row(&format!("sandboxd, {name}"), done.into_iter().map(|(_, interactive, _)| interactive).collect());
}

/// Creates a sandbox and runs a first command. Returns the times from the first request on: to its answer, and to the end of
/// the command.
async fn until_interactive(client: &Client, key: &str) -> (Duration, Duration, SandboxId) {
    let began = Instant::now();
    let (created, sandbox) = bring_up(client, key).await;
    run_node(client, &sandbox).await;
    (created, began.elapsed(), sandbox)
}

async fn run_node(client: &Client, sandbox: &SandboxId) {
    let [cmd, argument] = VERSION_OF_NODE.map(str::to_owned);
    let request = StartCommand { cmd: Some(cmd), args: Some(vec![argument]), ..StartCommand::default() };
    let mut records = client.run(sandbox, &request).await.unwrap();
    while let Some(record) = records.next().await {
        record.unwrap();
    }
}
