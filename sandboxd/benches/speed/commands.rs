//! Commands: latency of a short command, and throughput of output.

use std::time::Duration;

use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;
use sandboxd::model::layout::container_name;
use tokio::time::sleep;

use crate::contenders::{self, Api, EngineExec};
use crate::home::{Home, docker};
use crate::memory::{peak_kib, resident_kib};
use crate::table::{heading, ratio, row};

const WARM_UP: usize = 20;
const BLOCK: usize = 50;
const BLOCKS: usize = 8;
const SETTLE: Duration = Duration::from_millis(300);
const STREAM_BYTES: u64 = 1 << 30;
const STREAM_ROUNDS: usize = 3;

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let request = CreateSandbox { session_key: "bench:1".into(), ..CreateSandbox::default() };
    let sandbox = home.client().create_or_reconnect(&request).await.unwrap().sandbox_id;
    let agent = agent_pid(&sandbox).await;
    println!(
        "idle with a sandbox: daemon {} KiB resident, agent {} KiB",
        resident_kib(home.daemon_pid()),
        resident_kib(agent)
    );
    latency(&home, &sandbox).await;
    throughput(&home, &sandbox).await;
    println!(
        "  peak resident: daemon {} KiB, agent {} KiB   (goal: below 65536)",
        peak_kib(home.daemon_pid()),
        peak_kib(agent)
    );
}

/// The first process of a sandbox, as the host sees it.
pub(crate) async fn agent_pid(sandbox: &SandboxId) -> u32 {
    let inspected = docker().await.inspect_container(&container_name(sandbox), None).await.unwrap();
    inspected.state.unwrap().pid.unwrap() as u32
}

async fn latency(home: &Home, sandbox: &SandboxId) {
    let mut api = Api::connect(home.port).await;
    let mut exec = EngineExec::new(sandbox).await;
    let (mut ours, mut engine, mut fork) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..WARM_UP {
        api.run_true(sandbox).await;
        exec.run_true().await;
        contenders::fork_true();
    }
    for _ in 0..BLOCKS {
        sleep(SETTLE).await;
        for _ in 0..BLOCK {
            ours.push(api.run_true(sandbox).await);
        }
        sleep(SETTLE).await;
        for _ in 0..BLOCK {
            fork.push(contenders::fork_true());
        }
        sleep(SETTLE).await;
        for _ in 0..BLOCK {
            engine.push(exec.run_true().await);
        }
    }
    heading(&format!("`bash -c true`, start to exit code, {} calls each", BLOCK * BLOCKS));
    let ours = row("sandboxd, HTTP keep-alive", ours);
    let engine = row("docker exec through the engine's API", engine);
    let fork = row("fork+exec on the host", fork);
    ratio("docker exec / sandboxd", engine.p50 / ours.p50, "at least 15");
    ratio("sandboxd / fork+exec", ours.p50 / fork.p50, "at most 2");
}

async fn throughput(home: &Home, sandbox: &SandboxId) {
    let (mut ours, mut engine) = (Vec::new(), Vec::new());
    for _ in 0..STREAM_ROUNDS {
        ours.push(Api::connect(home.port).await.stream(sandbox, STREAM_BYTES).await);
        engine.push(EngineExec::new(sandbox).await.stream(STREAM_BYTES).await);
    }
    let rate = |times: &mut Vec<Duration>| {
        times.sort();
        STREAM_BYTES as f64 / times[times.len() / 2].as_secs_f64() / 1e6
    };
    let (ours, engine) = (rate(&mut ours), rate(&mut engine));
    println!("\n1 GiB of text lines, median of {STREAM_ROUNDS}");
    println!("  {:<52} {ours:>7.0} MB/s", "sandboxd, NDJSON over HTTP");
    println!("  {:<52} {engine:>7.0} MB/s", "docker exec, the raw stream");
    ratio("sandboxd / docker exec", ours / engine, "at least 1.5");
}
