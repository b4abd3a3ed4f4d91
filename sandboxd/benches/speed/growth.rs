//! How cost grows with the number of running sandboxes: the time of a command, the daemon's memory, and the processor time of a
//! machine on which nothing happens. Beside them, the engine that runs the same containers.

use std::time::Duration;

use sandbox_api::SandboxId;
use tokio::time::sleep;

use crate::commands::agent_pid;
use crate::contenders::{Api, EngineExec, fork_true};
use crate::crowd::make;
use crate::home::Home;
use crate::memory::{anonymous_kib, engine_pid, parent, processor_time, resident_kib};
use crate::plots::TIMES;
use crate::table::{group, heading, ratio, row, share, size};

const STEPS: [usize; 4] = [1, 10, 100, 300];
const ROUNDS: usize = 4;
const BLOCK: usize = 100;

/// Calls of the engine in a block. Each takes about as long as forty of the others.
const ENGINE_BLOCK: usize = 10;

const SETTLE: Duration = Duration::from_millis(300);

/// Time for which nothing happens.
const IDLE: Duration = Duration::from_secs(10);

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start_with(&[("SANDBOXD_MAX_CONCURRENT", "400")]).await;
    let mut sandboxes = Vec::new();
    let mut first = None;
    for count in STEPS {
        let more = count - sandboxes.len();
        sandboxes.extend(make(&home.client(), &format!("step{count}"), more, false).await);
        latency(&home, &sandboxes).await;
        let kib = memory(&home, &sandboxes).await;
        idle(&home, &sandboxes).await;
        let first = *first.get_or_insert(kib);
        if count > 1 {
            let each = kib.saturating_sub(first) as f64 / (count - 1) as f64;
            size("the daemon, more for each sandbox after the first", each, "(goal: at most 80)");
        }
    }
}

/// The time of a command in one sandbox after the other.
async fn latency(home: &Home, sandboxes: &[SandboxId]) {
    let mut api = Api::connect(home.port).await;
    let (mut ours, mut fork, mut engine) = (Vec::new(), Vec::new(), Vec::new());
    let mut turn = sandboxes.iter().cycle();
    for _ in 0..ROUNDS {
        sleep(SETTLE).await;
        for sandbox in turn.by_ref().take(BLOCK) {
            ours.push(api.run_true(sandbox).await);
        }
        sleep(SETTLE).await;
        for _ in 0..BLOCK {
            fork.push(fork_true());
        }
        sleep(SETTLE).await;
        for sandbox in turn.by_ref().take(ENGINE_BLOCK) {
            engine.push(EngineExec::new(sandbox).await.run_true().await);
        }
    }
    let count = sandboxes.len();
    heading(&format!("`bash -c true` in one after the other of {count} sandboxes"));
    let ours = row("sandboxd", ours);
    let fork = row("fork+exec on the host", fork);
    let engine = row("docker exec through the engine's API", engine);
    ratio("sandboxd / fork+exec", ours.p50 / fork.p50, "none");
    ratio("docker exec / sandboxd", engine.p50 / ours.p50, "at least 30");
    TIMES.add("sandboxd", count, ours.p50);
    TIMES.add("docker exec", count, engine.p50);
    TIMES.add("fork+exec on the host", count, fork.p50);
}

/// Returns the daemon's memory that files do not back.
async fn memory(home: &Home, sandboxes: &[SandboxId]) -> u64 {
    group(&format!("memory with {} running sandboxes", sandboxes.len()));
    let kib = anonymous_kib(home.daemon_pid());
    size("the daemon, not counting its files", kib as f64, "");
    let agent = agent_pid(&sandboxes[0]).await;
    size("one sandbox's agent", resident_kib(agent) as f64, "(goal: at most 4096)");
    size("the engine's shim for one container", resident_kib(parent(agent)) as f64, "");
    size("the engine, not counting its files", anonymous_kib(engine_pid()) as f64, "");
    kib
}

async fn idle(home: &Home, sandboxes: &[SandboxId]) {
    let mut agents = Vec::new();
    for sandbox in sandboxes {
        agents.push(agent_pid(sandbox).await);
    }
    let mut shims: Vec<u32> = agents.iter().map(|agent| parent(*agent)).collect();
    shims.push(engine_pid());
    agents.push(home.daemon_pid());
    let total = |processes: &[u32]| processes.iter().map(|pid| processor_time(*pid)).sum::<Duration>();
    sleep(SETTLE).await;
    let before = (total(&agents), total(&shims));
    sleep(IDLE).await;
    let used = |now: Duration, before: Duration| 100.0 * (now - before).as_secs_f64() / IDLE.as_secs_f64();
    group(&format!("of one processor, while {} sandboxes are idle", sandboxes.len()));
    let goal = if sandboxes.len() <= 50 { "(goal: at most 0.5)" } else { "" };
    share("the daemon and the agents", used(total(&agents), before.0), goal);
    share("the engine and its shims", used(total(&shims), before.1), "");
}
