//! How fast the chat is, each number beside a rival's in the same run. Nothing here fails on a number: it prints them with the goal
//! beside.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints its table and ends where it cannot go on"
)]

mod contenders;
#[expect(dead_code, reason = "the stories use all of it")]
#[path = "../../tests/stories/place.rs"]
mod place;

use std::time::{Duration, Instant};

use contenders::{Bare, Engine};
use place::{Place, Told};

/// Turns of one chat, which grows meanwhile as a person's does.
const TURNS: usize = 25;
const ROUNDS: usize = 8;

/// After the engine's turn: its shims are busy for a while after their answer.
const SETTLE: Duration = Duration::from_millis(300);

#[tokio::main]
async fn main() {
    // `cargo test --benches` passes this; there is nothing to test in a bench.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let place = Place::start().await;
    let chat = format!("bench-{}", std::process::id());
    place.said(&chat, "/bash echo hi").await;
    let (_, sandbox) = place.get(&format!("/api/chats/{chat}/sandbox")).await;
    let sandbox = sandbox["sandboxId"].as_str().unwrap().parse().unwrap();
    let bare = Bare::new(&place.daemon, &sandbox);
    let engine = Engine::new(&sandbox).await;
    let (mut chunks, mut outputs, mut bares, mut engines) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        for _ in 0..TURNS {
            let (chunk, output) = turn(&place, &chat).await;
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
    place.daemon.stop().await;
}

/// Sends it as a page does; how long until the tool's first chunk, and until its output.
async fn turn(place: &Place, chat: &str) -> (Duration, Duration) {
    let request = place.say(chat, "/bash echo hi");
    let began = Instant::now();
    let mut told = Told::new(request.send().await.unwrap());
    let (mut chunk, mut output) = (None, None);
    while let Some(piece) = told.next().await {
        if piece["type"] == "tool-output-available" {
            chunk.get_or_insert_with(|| began.elapsed());
            if piece["output"]["stdout"] == "hi\n" {
                output.get_or_insert_with(|| began.elapsed());
            }
        }
    }
    (chunk.unwrap(), output.unwrap())
}

/// Prints a line of times; their median in milliseconds.
fn row(name: &str, mut times: Vec<Duration>) -> f64 {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    println!("  {name:<50} {:>7.2} ms {:>7.2} ms", at(0.5), at(0.95));
    at(0.5)
}
