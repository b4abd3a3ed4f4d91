//! `true`, called as a tool, beside the same command through the bare client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bash_tools::provider::{Docker, DockerOptions, NetworkMode, NetworkPolicy};
use bash_tools::session::{ChatKey, SessionLimits, Sessions};
use bash_tools::tools::{BashInput, FLUSH_PAUSE, OutputLimits, ToolLimits, Toolkit};
use futures::StreamExt;
use test_daemon::{Daemon, outcome, script};
use tokio_util::sync::CancellationToken;

const CALLS: usize = 50;
const ROUNDS: usize = 8;

pub(crate) async fn measure() {
    println!("\n`true` in a sandbox, {} calls each", CALLS * ROUNDS);
    let daemon = Daemon::start().await;
    let options = DockerOptions {
        runtime: "node24".into(),
        idle_ttl: Duration::from_secs(600),
        vcpus: 2,
        memory_mb: 512,
        network: NetworkPolicy::new(NetworkMode::None, [""; 0]),
        ports: vec![3000],
        checkpoints: None,
    };
    let provider = Arc::new(Docker::new(daemon.client.clone(), options));
    let sessions =
        Sessions::new(provider, None, SessionLimits { max_open: 2, idle_ttl: Duration::from_secs(600) });
    let key = ChatKey::chat("bench").unwrap();
    let limits = ToolLimits {
        timeout: Duration::from_secs(30),
        output: OutputLimits { max_stdout_chars: 12_000, max_stderr_chars: 12_000 },
        ports: vec![3000],
        pause: FLUSH_PAUSE,
    };
    let tools = Toolkit::new(sessions.clone(), key.clone(), limits);
    let sandbox = sessions.lease(&key).await.unwrap().sandbox().as_str().parse().unwrap();
    let (mut called, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for _ in 0..CALLS {
            let began = Instant::now();
            let input = BashInput { command: "true".into(), ..BashInput::default() };
            let last = tools.bash(input, CancellationToken::new()).collect::<Vec<_>>().await.pop();
            assert_eq!(last.unwrap().unwrap().exit_code, 0);
            called.push(began.elapsed());
        }
        for _ in 0..CALLS {
            let began = Instant::now();
            let records = daemon.client.run(&sandbox, &script("true")).await.unwrap();
            assert_eq!(outcome(records).await.exit_code, 0);
            bare.push(began.elapsed());
        }
    }
    let (called, bare) = (median(called), median(bare));
    println!(
        "  as a tool p50 {called:.2} ms, by the bare client {bare:.2} ms: {:.2} ms more    (goal: at most 1 ms)",
        called - bare
    );
    sessions.delete(&key).await.unwrap();
    daemon.stop().await;
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}
