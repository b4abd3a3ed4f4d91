//! Kills the daemon repeatedly, at every seam and at random times under traffic, and looks for leftovers. Several
//! daemons run in parallel, each with its own installation. `TORTURE_SEED` repeats a run (as far as timing allows).
//! `TORTURE_KILLS` sets the total number of the kills under traffic, or `TORTURE_SECONDS` their duration.
//! `TORTURE_WORLDS` sets the number of daemons. `TORTURE_SEAMS=0` skips the seams, which are the same for every seed.

#![expect(clippy::unwrap_used, reason = "a torture that cannot continue has found something")]
#![expect(clippy::print_stdout, reason = "its report is its output")]

mod chance;
mod client;
mod copies;
mod fetches;
mod inventory;
mod ledger;
mod seams;
mod snapshots;
mod traffic;
mod tree;
mod world;

use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use chance::Chance;
use test_daemon::Home;
use world::World;

const KILLS: usize = 220;
const WORLDS: usize = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let seed = setting("TORTURE_SEED", SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() as usize);
    let worlds = setting("TORTURE_WORLDS", WORLDS);
    let cases = if setting("TORTURE_SEAMS", 1) == 0 { Vec::new() } else { seams::cases() };
    // Each daemon is killed under traffic at least once.
    let (end, kills) = match setting("TORTURE_SECONDS", 0) {
        0 => {
            let kills = setting("TORTURE_KILLS", KILLS);
            (End::Kills(AtomicUsize::new(kills.saturating_sub(cases.len()))), kills)
        }
        seconds => (End::After(Duration::from_secs(seconds as u64)), cases.len() + worlds),
    };
    println!(
        "torture: TORTURE_SEED={seed}, {} seams, then {end}, {worlds} daemons side by side",
        cases.len()
    );
    let began = Instant::now();
    let end = Arc::new(end);
    let tortures = (0..worlds).map(|number| {
        let cases: Vec<_> = cases.iter().skip(number).step_by(worlds).cloned().collect();
        let end = Arc::clone(&end);
        let chance = Chance::new(seed as u64 * 1000 + number as u64);
        tokio::spawn(async move { torture(number, cases, &end, chance).await })
    });
    // Removed at the end, because the engine waits for a removed plugin whenever it lists its volumes.
    let mut homes = Vec::new();
    let mut restarts = Vec::new();
    let (mut killed, mut at_seams, mut found, mut did) = (0, 0, Vec::new(), String::new());
    for (number, torture) in tortures.collect::<Vec<_>>().into_iter().enumerate() {
        match torture.await {
            Ok(reported) => {
                killed += reported.kills;
                at_seams += reported.at_seams;
                restarts.extend(reported.restarts);
                found.extend(reported.found);
                did.push_str(&reported.did);
                homes.push(reported.home);
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

/// The results of one daemon.
struct Report {
    kills: usize,
    at_seams: usize,
    restarts: Vec<Duration>,
    found: Vec<String>,
    did: String,
    home: Home,
}

/// When the kills under traffic end.
enum End {
    /// After this many more, of all daemons together.
    Kills(AtomicUsize),
    /// After this time.
    After(Duration),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kills(left) => write!(f, "{} kills under traffic", left.load(Ordering::SeqCst)),
            Self::After(length) => write!(f, "kills under traffic for {} s", length.as_secs()),
        }
    }
}

async fn torture(number: usize, cases: Vec<String>, end: &End, mut chance: Chance) -> Report {
    let mut world = World::new(number);
    world.start().await;
    seams::go_through(&mut world, &cases).await;
    // From its next start on.
    world.pool = number % 2;
    let began = Instant::now();
    let go_on = || match end {
        End::Kills(left) => {
            left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
        }
        End::After(length) => began.elapsed() < *length,
    };
    let did = traffic::under(&mut world, &mut chance, go_on).await;
    world.end().await;
    let World { kills, at_seams, restarts, found, home, .. } = world;
    Report { kills, at_seams, restarts, found, did, home }
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
