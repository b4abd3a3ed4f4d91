//! The numbers of a run as JSON and Markdown, and their comparison with earlier ones of the same machine.
//!
//! `CHECK=1` fails if a ratio is worse than the kept one, and `KEEP=1` keeps those of this run. Only ratios are compared: both of
//! their numbers are of one run, so what slows the machine down slows down both.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::home::docker;
use crate::plots;

/// How much worse a ratio may be: 15 %.
const TOLERANCE: f64 = 1.15;

static RESULTS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// One number, below the heading that was printed last.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    group: String,
    name: String,
    #[serde(flatten)]
    number: Number,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub(crate) enum Number {
    Times { p50_ms: f64, p95_ms: f64, count: usize },
    Ratio { value: f64, goal: String },
    Difference { ms: f64, goal: String },
    Rate { value: f64, unit: String },
    Size { kib: f64 },
    Share { percent: f64 },
}

/// What the numbers depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Machine {
    processor: String,
    processors: usize,
    memory_gib: u64,
    kernel: String,
    engine: String,
}

impl Machine {
    async fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kib: u64 = memory.split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or_default();
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name"),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: kib.div_ceil(1024 * 1024),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            engine: docker().await.version().await.unwrap().version.unwrap_or_default(),
        }
    }
}

/// Ratios of an earlier run, by group and name.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    machine: Machine,
    ratios: BTreeMap<String, f64>,
}

pub(crate) fn note(group: &str, name: &str, number: Number) {
    let entry = Entry { group: group.trim().into(), name: name.trim().into(), number };
    RESULTS.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
}

/// Writes the numbers of this run, and compares or keeps its ratios. Returns whether none is worse.
pub(crate) async fn finish() -> bool {
    let machine = Machine::this().await;
    let entries = RESULTS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let dir = Path::new(env!("CARGO_BIN_EXE_sandboxd")).ancestors().nth(2).unwrap().join("bench");
    std::fs::create_dir_all(&dir).unwrap();
    let json = serde_json::json!({ "machine": machine, "numbers": entries });
    std::fs::write(dir.join("speed.json"), serde_json::to_string_pretty(&json).unwrap()).unwrap();
    std::fs::write(dir.join("speed.md"), markdown(&machine, &entries)).unwrap();
    plots::draw(&dir);
    println!("\nwritten: {0}/speed.json and {0}/speed.md", dir.display());
    let is_set = |name: &str| std::env::var(name).is_ok_and(|value| value == "1");
    if is_set("KEEP") {
        plots::draw(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/speed"));
        keep(machine.clone(), &entries);
    }
    !is_set("CHECK") || check(&machine, &entries)
}

fn markdown(machine: &Machine, entries: &[Entry]) -> String {
    let Machine { processor, processors, memory_gib, kernel, engine } = machine;
    let mut text =
        format!("{processors} × {processor}, {memory_gib} GiB, kernel {kernel}, engine {engine}\n");
    let mut group = "";
    for entry in entries {
        if entry.group != group {
            group = &entry.group;
            let _ = write!(text, "\n| {group} | p50 | p95 |\n|---|---|---|\n");
        }
        let (first, second) = match &entry.number {
            Number::Times { p50_ms, p95_ms, .. } => (format!("{p50_ms:.2} ms"), format!("{p95_ms:.2} ms")),
            Number::Ratio { value, goal } => (format!("{value:.2} x"), format!("goal: {goal}")),
            Number::Difference { ms, goal } => (format!("{ms:.2} ms"), format!("goal: {goal}")),
            Number::Rate { value, unit } => (format!("{value:.0} {unit}"), String::new()),
            Number::Size { kib } => (format!("{kib:.0} KiB"), String::new()),
            Number::Share { percent } => (format!("{percent:.2} %"), String::new()),
        };
        let _ = writeln!(text, "| {} | {first} | {second} |", entry.name);
    }
    text
}

fn file_of_kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/speed/ratios.json")
}

/// The ratios with a goal, each with whether a lower one is better.
fn ratios(entries: &[Entry]) -> impl Iterator<Item = (String, f64, bool)> {
    entries.iter().filter_map(|entry| {
        let Number::Ratio { value, goal } = &entry.number else { return None };
        let is_lower_better = match goal.split(' ').take(2).collect::<Vec<_>>()[..] {
            ["at", "most"] => true,
            ["at", "least"] => false,
            _ => return None,
        };
        Some((format!("{}: {}", entry.group, entry.name), *value, is_lower_better))
    })
}

/// Keeps the ratios of this run. Those of parts that did not run stay, if they are of the same machine.
fn keep(machine: Machine, entries: &[Entry]) {
    let earlier = read_kept().filter(|kept| kept.machine == machine);
    let mut kept = earlier.map(|kept| kept.ratios).unwrap_or_default();
    kept.extend(ratios(entries).map(|(name, value, _)| (name, (value * 1000.0).round() / 1000.0)));
    let text = serde_json::to_string_pretty(&Kept { machine, ratios: kept }).unwrap();
    std::fs::write(file_of_kept(), text + "\n").unwrap();
}

fn read_kept() -> Option<Kept> {
    serde_json::from_slice(&std::fs::read(file_of_kept()).ok()?).ok()
}

fn check(machine: &Machine, entries: &[Entry]) -> bool {
    let Some(kept) = read_kept().filter(|kept| kept.machine == *machine) else {
        println!("no ratios of this machine are kept: run with KEEP=1 first");
        return false;
    };
    let worse = ratios(entries).filter(|(name, value, is_lower_better)| {
        let before = kept.ratios.get(name).copied().unwrap_or(*value);
        let is_worse =
            if *is_lower_better { *value > before * TOLERANCE } else { *value * TOLERANCE < before };
        if is_worse {
            println!("worse than before: {name}: {value:.2} x, was {before:.2} x");
        }
        is_worse
    });
    let worse = worse.count();
    println!("{worse} ratios are more than 15 % worse than before");
    worse == 0
}
