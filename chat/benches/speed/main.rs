//! Speed of the chat app, each number beside a competitor's from the same run. No number makes the benchmark fail: it
//! prints each with its goal.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints its table and ends if it cannot continue"
)]

mod contenders;
#[expect(dead_code, reason = "the stories use all of it")]
#[path = "../../tests/stories/test_app.rs"]
mod test_app;

use std::time::{Duration, Instant};

use contenders::{Bare, Engine};
use test_app::{Chunks, TestApp};

/// Turns of one chat, which grows as a user's does.
const TURNS: usize = 25;
const ROUNDS: usize = 8;

/// Pause after the engine's turn: its shims are busy for a while after their response.
const SETTLE: Duration = Duration::from_millis(300);

#[tokio::main]
async fn main() {
    // `cargo test --benches` passes this. A benchmark has no tests.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let app = TestApp::start().await;
    let chat = format!("bench-{}", std::process::id());
    app.send(&chat, "/bash echo hi").await;
    let (_, sandbox) = app.get(&format!("/api/chats/{chat}/sandbox")).await;
    let sandbox = sandbox["sandboxId"].as_str().unwrap().parse().unwrap();
    let bare = Bare::new(&app.daemon, &sandbox);
    let engine = Engine::new(&sandbox).await;
    let (mut chunks, mut outputs, mut bares, mut engines) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        for _ in 0..TURNS {
            let (chunk, output) = turn(&app, &chat).await;
            chunks.push(chunk);
            outputs.push(output);
        }
        for _ in 0..TURNS {
            bares.push(bare.echo().await);
        }
        for _ in 0..TURNS {
            engines.push(engine.echo().await);
        }
        tokio::time::sleep(SETTLE).await;
    }
    println!("\n`/bash echo hi` in a chat, {} times each{:>17} {:>10}", TURNS * ROUNDS, "p50", "p95");
    row("sent until the tool's first chunk", chunks);
    let ours = row("sent until `hi` is there", outputs);
    row("the daemon's own client: `hi` is there", bares);
    let engine = row("docker exec in the same container: `hi` is there", engines);
    println!(
        "  goal: at most 10 ms until the first chunk; {:.1} times as fast as docker exec",
        engine / ours
    );
    app.daemon.stop().await;
}

/// Sends a message as a page does. Returns the times until the tool's first chunk and until its output.
async fn turn(app: &TestApp, chat: &str) -> (Duration, Duration) {
    let request = app.say(chat, "/bash echo hi");
    let began = Instant::now();
    let mut chunks = Chunks::new(request.send().await.unwrap());
    let (mut chunk, mut output) = (None, None);
    while let Some(piece) = chunks.next().await {
        if piece["type"] == "tool-output-available" {
            chunk.get_or_insert_with(|| began.elapsed());
            if piece["output"]["stdout"] == "hi\n" {
                output.get_or_insert_with(|| began.elapsed());
            }
        }
    }
    (chunk.unwrap(), output.unwrap())
}

/// Prints a line of times and returns their median in milliseconds.
fn row(name: &str, mut times: Vec<Duration>) -> f64 {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    println!("  {name:<50} {:>7.2} ms {:>7.2} ms", at(0.5), at(0.95));
    at(0.5)
}
