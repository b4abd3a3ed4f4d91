//! Mixed load on one daemon for a given time, with samples of the daemon's resources. Fails if a resource grows.
//! `SOAK_SECONDS` sets the total time, and `SOAK_WARM_UP_SECONDS` the time before samples are compared. `SOAK_RATE`
//! sets the actions per second, and `SOAK_SEED` repeats the same actions. `SANDBOXD_TEST_PROGRAM` selects a program
//! other than the one that cargo built.

#![expect(clippy::unwrap_used, reason = "a soak that cannot continue has found something")]
#![expect(clippy::print_stdout, reason = "its report is its output")]

#[path = "../torture/chance.rs"]
mod chance;
mod load;
mod sample;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use chance::Chance;
use load::Load;
use sample::{Sample, Verdict};
use test_daemon::{DaemonProcess, Home, free_port};
use tokio::time::{MissedTickBehavior, interval, timeout};

const SECONDS: u64 = 600;
const RATE: u64 = 8;

/// Sessions, and how many of them may run at once: fewer, so that they park each other.
const SESSIONS: u64 = 5;
const RUNNING_AT_ONCE: &str = "3";

/// Maximum number of samples over the whole time.
const SAMPLES: u64 = 240;

/// Time limit for actions in progress at the end.
const LAST_ACTS: Duration = Duration::from_secs(90);

#[tokio::main]
async fn main() -> ExitCode {
    let seconds = setting("SOAK_SECONDS", SECONDS);
    let warm_up = setting("SOAK_WARM_UP_SECONDS", seconds / 4);
    let rate = setting("SOAK_RATE", RATE).max(1);
    let seed = setting("SOAK_SEED", SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs());
    println!("soak: {seconds} s, {warm_up} s of them warm-up, {rate} acts a second, SOAK_SEED={seed}");
    let home = Home::new().set("SANDBOXD_MAX_CONCURRENT", RUNNING_AT_ONCE);
    let daemon = DaemonProcess::start(&home, free_port()).await;
    let pid = daemon.child.id().unwrap();

    let continues = Arc::new(AtomicBool::new(true));
    let mut chance = Chance::new(seed);
    let loads: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let pause = Duration::from_millis(1000 * SESSIONS / rate);
            let load = Load::new(daemon.client.clone(), number, chance.fork());
            tokio::spawn(load.run(pause, Arc::clone(&continues)))
        })
        .collect();
    let samples = sample_for(Duration::from_secs(seconds), pid, &home).await;
    continues.store(false, Ordering::SeqCst);
    let mut broken = Vec::new();
    for load in loads {
        match timeout(LAST_ACTS, load).await {
            Ok(Ok(load)) => {
                println!("{}", load.report());
                broken.extend(load.broken);
            }
            Ok(Err(panic)) => broken.push(format!("a client panicked: {panic}")),
            Err(_) => broken.push(format!("a client did not end within {LAST_ACTS:?}")),
        }
    }
    daemon.kill().await;
    let verdict = Verdict::of(&samples, Duration::from_secs(warm_up));
    print!("{verdict}");
    broken.iter().for_each(|what| println!("BROKEN {what}"));
    if verdict.is_flat() && broken.is_empty() {
        println!("soak: passed");
        return ExitCode::SUCCESS;
    }
    println!("soak: FAILED");
    ExitCode::FAILURE
}

async fn sample_for(time: Duration, pid: u32, home: &Home) -> Vec<Sample> {
    let began = Instant::now();
    let every = Duration::from_secs((time.as_secs() / SAMPLES).max(2));
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut samples = Vec::new();
    while began.elapsed() < time {
        ticks.tick().await;
        let Some(sample) = Sample::take(began.elapsed(), pid, home.path()) else {
            println!("the daemon has ended");
            break;
        };
        println!("{sample}");
        samples.push(sample);
    }
    samples
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().unwrap())
}
