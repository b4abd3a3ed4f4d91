//! Printed numbers.

use std::time::Duration;

/// The median and the 95th percentile, in milliseconds.
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
}

impl Quantiles {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
        Self { p50: at(0.5), p95: at(0.95) }
    }
}

pub(crate) fn heading(text: &str) {
    println!("\n{text:<57} {:>7}    {:>7}", "p50", "p95");
}

/// Prints a line of times, and returns them for a ratio.
pub(crate) fn row(name: &str, times: Vec<Duration>) -> Quantiles {
    let times = Quantiles::of(times);
    println!("  {name:<52} {:>7.2} ms {:>7.2} ms", times.p50, times.p95);
    times
}

pub(crate) fn ratio(name: &str, ratio: f64, goal: &str) {
    println!("  {name:<52} {ratio:>7.2} x    (goal: {goal})");
}

pub(crate) fn difference(name: &str, ms: f64, goal: &str) {
    println!("  {name:<52} {ms:>7.2} ms   (goal: {goal})");
}

pub(crate) fn size(name: &str, kib: f64, goal: &str) {
    println!("  {name:<52} {kib:>7.0} KiB  {goal}");
}
