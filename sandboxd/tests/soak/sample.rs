//! Samples of a daemon's resources, and whether they grow.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A measure: its name, its unit, its permitted growth, and its value in a sample. The growth is between the first and
/// the last part of the compared time.
type Measure = (&'static str, &'static str, u64, fn(&Sample) -> u64);

const MEASURES: [Measure; 5] = [
    ("resident memory", "KiB", 16 * 1024, |sample| sample.resident_kib),
    ("descriptors", "", 32, |sample| sample.descriptors),
    ("threads", "", 16, |sample| sample.threads),
    // History is trimmed once an hour.
    ("state dir", "KiB", 48 * 1024, |sample| sample.state_kib),
    ("entries of the run dir", "", 8, |sample| sample.run_entries),
];

/// The fraction of the compared time that is its first and its last part.
const PART: usize = 4;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    at: Duration,
    resident_kib: u64,
    descriptors: u64,
    threads: u64,
    state_kib: u64,
    run_entries: u64,
}

impl Sample {
    /// A sample of a process and its home, or `None` if the process has ended.
    pub(crate) fn take(at: Duration, pid: u32, home: &Path) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
        Some(Self {
            at,
            resident_kib: number("VmRSS:")?,
            descriptors,
            threads: number("Threads:")?,
            state_kib: bytes_of(&home.join("state")) / 1024,
            run_entries: fs::read_dir(home.join("run")).map_or(0, |entries| entries.count() as u64),
        })
    }
}

fn bytes_of(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|found| found.is_file())
        .map(|found| found.len())
        .sum()
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, resident_kib, descriptors, threads, state_kib, run_entries } = self;
        let at = at.as_secs();
        write!(
            f,
            "sample t={at}s rss={resident_kib}KiB fds={descriptors} threads={threads} state={state_kib}KiB run={run_entries}"
        )
    }
}

/// The medians of a measure at the beginning and the end of the compared time.
struct Growth {
    name: &'static str,
    unit: &'static str,
    bound: u64,
    first: u64,
    last: u64,
}

impl Growth {
    fn is_flat(&self) -> bool {
        self.last <= self.first + self.bound
    }
}

/// Whether a daemon has grown.
pub(crate) struct Verdict(Vec<Growth>);

impl Verdict {
    /// Compares the samples after the warm-up.
    pub(crate) fn of(samples: &[Sample], warm_up: Duration) -> Self {
        let compared: Vec<_> = samples.iter().filter(|sample| sample.at >= warm_up).collect();
        let part = compared.len() / PART;
        if part == 0 {
            return Self(Vec::new());
        }
        let growth = |(name, unit, bound, measure): Measure| {
            let median = |samples: &[&Sample]| {
                let mut values: Vec<u64> = samples.iter().map(|sample| measure(sample)).collect();
                values.sort_unstable();
                values[values.len() / 2]
            };
            let (first, last) = (median(&compared[..part]), median(&compared[compared.len() - part..]));
            Growth { name, unit, bound, first, last }
        };
        Self(MEASURES.into_iter().map(growth).collect())
    }

    /// Whether no measure has grown beyond its bound. Too few samples prove nothing.
    pub(crate) fn is_flat(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(Growth::is_flat)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            writeln!(f, "too few samples after the warm-up")?;
        }
        for growth in &self.0 {
            let Growth { name, unit, bound, first, last } = growth;
            let verdict = if growth.is_flat() { "flat" } else { "GREW" };
            writeln!(
                f,
                "{verdict} {name}: {first} {unit} became {last} {unit}; {bound} {unit} more are allowed"
            )?;
        }
        Ok(())
    }
}
