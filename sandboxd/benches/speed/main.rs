//! How fast sandboxd is, each number beside its rival's in the same run.
//!
//! Contenders take turns in blocks, so that a noisy while meets all of them. A block and not a single call,
//! and a pause after each, because an exec leaves the engine and its shims busy for a while after its answer,
//! which is its own cost and not its neighbour's. Nothing here fails on a number: it prints them with the
//! goal beside.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints its table and ends where it cannot go on"
)]

mod contenders;
mod subject;

use std::time::Duration;

use contenders::{Api, EngineExec};
use subject::{Subject, peak_kib, resident_kib};
use tokio::time::sleep;

const WARM_UP: usize = 20;
const BLOCK: usize = 50;
const BLOCKS: usize = 8;
const SETTLE: Duration = Duration::from_millis(300);
const STREAM_BYTES: u64 = 1 << 30;
const STREAM_ROUNDS: usize = 3;

#[tokio::main]
async fn main() {
    // `cargo test --benches` passes this; there is nothing to test in a bench.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let subject = Subject::start().await;
    println!(
        "idle: daemon {} KiB resident, agent {} KiB",
        subject.daemon_kib(),
        resident_kib(subject.agent_pid)
    );
    latency(&subject).await;
    throughput(&subject).await;
    subject.stop().await;
}

async fn latency(subject: &Subject) {
    let mut api = Api::connect(subject).await;
    let mut exec = EngineExec::new(subject).await;
    let (mut ours, mut engine, mut fork) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..WARM_UP {
        api.run_true().await;
        exec.run_true().await;
        contenders::fork_true();
    }
    for _ in 0..BLOCKS {
        sleep(SETTLE).await;
        for _ in 0..BLOCK {
            ours.push(api.run_true().await);
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
    let calls = BLOCK * BLOCKS;
    println!("\n`bash -c true`, start to exit code, {calls} calls each      p50        p95");
    let ours = Quantiles::of("sandboxd, HTTP keep-alive", ours);
    let engine = Quantiles::of("docker exec through the engine's API", engine);
    let fork = Quantiles::of("fork+exec on the host", fork);
    println!("  docker exec / sandboxd   {:>6.1}x   (goal: at least 15)", engine.p50 / ours.p50);
    println!("  sandboxd / fork+exec     {:>6.2}x   (goal: at most 2)", ours.p50 / fork.p50);
}

async fn throughput(subject: &Subject) {
    let (mut ours, mut engine) = (Vec::new(), Vec::new());
    for _ in 0..STREAM_ROUNDS {
        ours.push(Api::connect(subject).await.stream(STREAM_BYTES).await);
        engine.push(EngineExec::new(subject).await.stream(STREAM_BYTES).await);
    }
    let rate = |times: &mut Vec<Duration>| {
        times.sort();
        STREAM_BYTES as f64 / times[times.len() / 2].as_secs_f64() / 1e6
    };
    let (ours, engine) = (rate(&mut ours), rate(&mut engine));
    println!("\n1 GiB of text lines, median of {STREAM_ROUNDS}");
    println!("  {:<44} {ours:>6.0} MB/s", "sandboxd, NDJSON over HTTP");
    println!("  {:<44} {engine:>6.0} MB/s", "docker exec, the raw stream");
    println!("  sandboxd / docker exec   {:>6.2}x   (goal: at least 1.5)", ours / engine);
    println!(
        "  peak resident: daemon {} KiB, agent {} KiB   (goal: below 65536)",
        peak_kib(subject.daemon_pid),
        peak_kib(subject.agent_pid)
    );
}

struct Quantiles {
    p50: f64,
}

impl Quantiles {
    fn of(name: &str, mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
        println!("  {name:<44} {:>7.2} ms {:>7.2} ms", at(0.5), at(0.95));
        Self { p50: at(0.5) }
    }
}
