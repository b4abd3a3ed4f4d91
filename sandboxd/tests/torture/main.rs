//! Kills the daemon again and again, at every seam and at random times under traffic, and counts what is left.
//!
//! Several daemons are tortured side by side, each with an installation of its own. Settings:
//! `TORTURE_SEED` for the same run once more (as far as a machine does the same thing twice),
//! `TORTURE_KILLS` in all, `TORTURE_WORLDS` side by side.

#![expect(clippy::unwrap_used, reason = "a torture that cannot go on has found something")]
#![expect(clippy::print_stdout, reason = "its report is for people")]

mod chance;
mod client;
mod inventory;
mod ledger;
mod seams;
mod traffic;
mod world;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use chance::Chance;
use world::World;

const KILLS: usize = 220;
const WORLDS: usize = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let seed = setting("TORTURE_SEED", SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() as usize);
    let (kills, worlds) = (setting("TORTURE_KILLS", KILLS), setting("TORTURE_WORLDS", WORLDS));
    println!("torture: TORTURE_SEED={seed}, {kills} kills, {worlds} daemons side by side");
    let began = Instant::now();
    let cases = seams::cases();
    let left = Arc::new(AtomicUsize::new(kills.saturating_sub(cases.len())));
    let tortures = (0..worlds).map(|number| {
        let cases: Vec<_> = cases.iter().skip(number).step_by(worlds).cloned().collect();
        let left = Arc::clone(&left);
        let chance = Chance::new(seed as u64 * 1000 + number as u64);
        tokio::spawn(async move { torture(number, cases, left, chance).await })
    });
    let mut restarts = Vec::new();
    let (mut killed, mut at_seams, mut found, mut did) = (0, 0, Vec::new(), String::new());
    for (number, torture) in tortures.collect::<Vec<_>>().into_iter().enumerate() {
        match torture.await {
            Ok(told) => {
                killed += told.kills;
                at_seams += told.at_seams;
                restarts.extend(told.restarts);
                found.extend(told.found);
                did.push_str(&told.did);
            }
            Err(panic) => found.push(format!("daemon {number}: the torture broke off: {panic}")),
        }
    }
    report(began.elapsed(), killed, at_seams, restarts, &did);
    for line in &found {
        println!("FOUND {line}");
    }
    println!("{} found; seed {seed}", found.len());
    if found.is_empty() && killed >= kills { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the torture of one daemon told.
#[derive(Default)]
struct Told {
    kills: usize,
    at_seams: usize,
    restarts: Vec<Duration>,
    found: Vec<String>,
    did: String,
}

async fn torture(number: usize, cases: Vec<String>, left: Arc<AtomicUsize>, mut chance: Chance) -> Told {
    let mut world = World::new(number);
    world.start().await;
    seams::go_through(&mut world, &cases).await;
    let take = |left: &AtomicUsize| {
        left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    };
    let did = traffic::under(&mut world, &mut chance, || take(&left)).await;
    world.end().await;
    Told { kills: world.kills, at_seams: world.at_seams, restarts: world.restarts, found: world.found, did }
}

fn report(took: Duration, kills: usize, at_seams: usize, mut restarts: Vec<Duration>, did: &str) {
    restarts.sort();
    let at = |part: f64| restarts.get((restarts.len() as f64 * part) as usize).copied().unwrap_or_default();
    let longest = restarts.last().copied().unwrap_or_default();
    println!("{did}{kills} kills in {:.0} s, {at_seams} of them at a seam", took.as_secs_f64());
    println!(
        "ready again after {:.2} s (p50), {:.2} s (p95), {:.2} s (longest)",
        at(0.5).as_secs_f64(),
        at(0.95).as_secs_f64(),
        longest.as_secs_f64()
    );
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().map_or(default, |value| value.parse().unwrap())
}
