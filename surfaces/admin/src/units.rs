//! Human-readable times, sizes and durations.

use std::borrow::Cow;

use jiff::Timestamp;
use maud::{Markup, html};

/// Units of sizes, each 1024 of the one before.
const SIZES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Shows a time, to the second, in UTC.
pub(crate) fn time(at: Timestamp) -> Markup {
    html! { time datetime=(at) { (at.strftime("%Y-%m-%d %H:%M:%S")) " UTC" } }
}

/// Shows a time that the API sends as text.
pub(crate) fn time_of(text: &str) -> Markup {
    match text.parse() {
        Ok(at) => time(at),
        Err(_) => crate::text::cell(text),
    }
}

/// Formats a number of bytes, such as `1.5 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    let mut unit = 0;
    let mut size = count as f64;
    while size >= 1024.0 && unit + 1 < SIZES.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{} {}", decimal(size), SIZES[unit])
}

/// Formats a duration in milliseconds by its largest units, such as `2 h 5 min`.
pub(crate) fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let two = |large: u64, name: &str, small: u64, small_name: &str| match small {
        0 => format!("{large} {name}"),
        _ => format!("{large} {name} {small} {small_name}"),
    };
    match () {
        () if days > 0 => two(days, "d", hours, "h"),
        () if hours > 0 => two(hours, "h", minutes, "min"),
        () if minutes > 0 => two(minutes, "min", seconds % 60, "s"),
        () if seconds > 0 => format!("{} s", decimal(ms as f64 / 1000.0)),
        () => format!("{ms} ms"),
    }
}

/// Formats a number with groups of three digits.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a number with one decimal place, if it has one.
pub(crate) fn decimal(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// What is used or allowed of a quota, in the quota's unit.
pub(crate) fn quota(name: &str, value: u64) -> String {
    match name {
        "memoryMb" | "diskMb" => bytes(value.saturating_mul(1024 * 1024)),
        "snapshotBytes" | "baseBytes" | "valueBytes" | "egressBytesPerDay" => bytes(value),
        "commandTimeoutMs" => duration(value),
        _ => count(value),
    }
}

/// The display name of a quota. An unknown one keeps its name.
pub(crate) fn quota_name(name: &str) -> Cow<'_, str> {
    let known = match name {
        "sandboxes" => "Sandboxes",
        "sandboxesPerSubject" => "Sandboxes of a subject",
        "runningSandboxes" => "Running sandboxes",
        "guaranteedRunning" => "Guaranteed running sandboxes",
        "memoryMb" => "Memory of running sandboxes",
        "vcpus" => "Processors of running sandboxes",
        "diskMb" => "Disks",
        "snapshotBytes" => "Snapshots",
        "baseBytes" => "Bases",
        "valueBytes" => "Values",
        "commands" => "Running commands",
        "links" => "Preview links",
        "egressBytesPerDay" => "Outbound traffic per day",
        "commandTimeoutMs" => "Longest command",
        _ => return crate::text::plain(name).into(),
    };
    known.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_durations_and_numbers_are_short() {
        for (value, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (10 * 1024 * 1024, "10 MiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(bytes(value), expected);
        }
        for (value, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1500, "1.5 s"),
            (60_000, "1 min"),
            (61_000, "1 min 1 s"),
            (7_500_000, "2 h 5 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(duration(value), expected);
        }
        for (value, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(value), expected);
        }
        assert_eq!(quota("memoryMb", 2048), "2 GiB");
    }

    #[test]
    fn times_are_machine_readable() {
        let shown = time_of("2026-11-28T10:42:02.5Z").into_string();
        assert_eq!(shown, r#"<time datetime="2026-11-28T10:42:02.5Z">2026-11-28 10:42:02 UTC</time>"#);
        assert_eq!(time_of("<b>").into_string(), "<bdi>&lt;b&gt;</bdi>");
    }
}
