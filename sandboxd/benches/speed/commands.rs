//! Commands: latency of a short command, and throughput of output.

use std::time::{Duration, Instant};

use futures::future::join_all;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;
use sandboxd::model::layout::container_name;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::contenders::{self, Api, EngineExec};
use crate::home::{Home, docker};
use crate::memory::{peak_kib, resident_kib};
use crate::plots::RATES;
use crate::table::{group, heading, rate, ratio, row};

const WARM_UP: usize = 20;
const BLOCK: usize = 50;
const BLOCKS: usize = 8;
const SETTLE: Duration = Duration::from_millis(300);
const CLIENTS: [usize; 4] = [1, 4, 16, 64];
const RATE_TIME: Duration = Duration::from_secs(2);
const RATE_ROUNDS: usize = 3;
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
    rates(&home, &sandbox).await;
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
    let (mut login, mut fork_login) = (Vec::new(), Vec::new());
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
            login.push(api.run_true_in_login_shell(sandbox).await);
        }
        sleep(SETTLE).await;
        for _ in 0..BLOCK {
            fork_login.push(contenders::fork_true_in_login_shell());
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
    ratio("docker exec / sandboxd", engine.p50 / ours.p50, "at least 30");
    ratio("sandboxd / fork+exec", ours.p50 / fork.p50, "at most 1");
    let login = row("sandboxd, bash -lc", login);
    let fork_login = row("fork+exec on the host, bash -lc, with its own profile", fork_login);
    ratio("sandboxd / fork+exec, bash -lc", login.p50 / fork_login.p50, "at most 1");
}

/// Commands per second of several clients at once in one sandbox.
async fn rates(home: &Home, sandbox: &SandboxId) {
    group("`bash -c true`, commands per second");
    for clients in CLIENTS {
        let (mut ours, mut fork) = (Vec::new(), Vec::new());
        for _ in 0..RATE_ROUNDS {
            sleep(SETTLE).await;
            ours.push(rate_of_api(home, sandbox, clients).await);
            sleep(SETTLE).await;
            fork.push(rate_of_fork(clients).await);
        }
        let (ours, fork) = (median(ours), median(fork));
        let goal = if clients == 16 { "  (goal: at least 2000)" } else { "" };
        rate(&format!("sandboxd, {clients} clients"), ours, "/s", goal);
        rate(&format!("fork+exec on the host, {clients} at once"), fork, "/s", "");
        RATES.add("sandboxd", clients, ours);
        RATES.add("fork+exec on the host", clients, fork);
        ratio(&format!("sandboxd / fork+exec, {clients}"), ours / fork, "at least 1.2");
    }
}

async fn rate_of_api(home: &Home, sandbox: &SandboxId, clients: usize) -> f64 {
    let ends = Instant::now() + RATE_TIME;
    let counts = (0..clients).map(|_| async {
        let mut api = Api::connect(home.port).await;
        let mut count = 0;
        while Instant::now() < ends {
            api.run_true(sandbox).await;
            count += 1;
        }
        count
    });
    let count: u32 = join_all(counts).await.into_iter().sum();
    f64::from(count) / RATE_TIME.as_secs_f64()
}

async fn rate_of_fork(clients: usize) -> f64 {
    let ends = Instant::now() + RATE_TIME;
    let counts = (0..clients).map(|_| {
        spawn_blocking(move || {
            let mut count = 0;
            while Instant::now() < ends {
                contenders::fork_true();
                count += 1;
            }
            count
        })
    });
    let count: u32 = join_all(counts).await.into_iter().map(Result::unwrap).sum();
    f64::from(count) / RATE_TIME.as_secs_f64()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

async fn throughput(home: &Home, sandbox: &SandboxId) {
    let (mut ours, mut engine) = (Vec::new(), Vec::new());
    for _ in 0..STREAM_ROUNDS {
        ours.push(Api::connect(home.port).await.stream(sandbox, STREAM_BYTES).await);
        engine.push(EngineExec::new(sandbox).await.stream(STREAM_BYTES).await);
    }
    let median_rate = |times: &mut Vec<Duration>| {
        times.sort();
        STREAM_BYTES as f64 / times[times.len() / 2].as_secs_f64() / 1e6
    };
    let (ours, engine) = (median_rate(&mut ours), median_rate(&mut engine));
    group(&format!("1 GiB of text lines, median of {STREAM_ROUNDS}"));
    rate("sandboxd, NDJSON over HTTP", ours, "MB/s", "");
    rate("docker exec, the raw stream", engine, "MB/s", "");
    ratio("sandboxd / docker exec", ours / engine, "at least 2");
}
