//! Printed numbers.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::report::{Number, note};

/// The heading that was printed last.
static GROUP: Mutex<String> = Mutex::new(String::new());

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
    begin(text);
    println!("\n{text:<57} {:>7}    {:>7}", "p50", "p95");
}

/// A heading of numbers that are not times.
pub(crate) fn group(text: &str) {
    begin(text);
    println!("\n{text}");
}

fn begin(text: &str) {
    text.clone_into(&mut GROUP.lock().unwrap_or_else(PoisonError::into_inner));
}

pub(crate) fn rate(name: &str, value: f64, unit: &str, goal: &str) {
    keep(name, Number::Rate { value, unit: unit.into() });
    println!("  {name:<52} {value:>7.0} {unit} {goal}");
}

/// Prints a line of times, and returns them for a ratio.
pub(crate) fn row(name: &str, times: Vec<Duration>) -> Quantiles {
    let count = times.len();
    let times = Quantiles::of(times);
    keep(name, Number::Times { p50_ms: times.p50, p95_ms: times.p95, count });
    println!("  {name:<52} {:>7.2} ms {:>7.2} ms", times.p50, times.p95);
    times
}

pub(crate) fn ratio(name: &str, ratio: f64, goal: &str) {
    keep(name, Number::Ratio { value: ratio, goal: goal.into() });
    println!("  {name:<52} {ratio:>7.2} x    (goal: {goal})");
}

pub(crate) fn difference(name: &str, ms: f64, goal: &str) {
    keep(name, Number::Difference { ms, goal: goal.into() });
    println!("  {name:<52} {ms:>7.2} ms   (goal: {goal})");
}

pub(crate) fn size(name: &str, kib: f64, goal: &str) {
    keep(name, Number::Size { kib });
    println!("  {name:<52} {kib:>7.0} KiB  {goal}");
}

pub(crate) fn share(name: &str, percent: f64, goal: &str) {
    keep(name, Number::Share { percent });
    println!("  {name:<52} {percent:>7.2} %    {goal}");
}

/// Says what was not measured.
pub(crate) fn remark(text: &str) {
    println!("  {text}");
}

fn keep(name: &str, number: Number) {
    note(&GROUP.lock().unwrap_or_else(PoisonError::into_inner), name, number);
}
