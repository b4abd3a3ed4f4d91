//! What a project uses on each day, until it is written to the store.
//!
//! The wall clock may jump. A day that comes again continues from its numbers as long as they are in memory; after that, it
//! begins again, and the store keeps the larger numbers.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::egress::Budget;
use crate::model::DayUsage;

/// The time by both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    /// Measures durations.
    pub(super) instant: Instant,
    /// Days since the Unix epoch, in UTC.
    pub(super) day: i32,
}

/// Today and days that are not written completely.
#[derive(Debug, Default)]
pub(super) struct Days {
    /// The last day, and until when it is counted.
    current: Option<(i32, Instant)>,
    counted: BTreeMap<i32, DayUsage>,
    written: BTreeMap<i32, DayUsage>,
}

impl Days {
    /// Continues a day from the store.
    pub(super) fn restore(&mut self, day: i32, usage: DayUsage, egress: &Budget, today: i32) {
        self.counted.insert(day, usage);
        self.written.insert(day, usage);
        if day == today {
            egress.add(usage.egress_bytes);
        }
    }

    /// Counts until `now`. `running` is the number of sandboxes that ran since the last call.
    pub(super) fn advance(&mut self, now: Now, running: u64, snapshot_bytes: u64, egress: &Budget) {
        let Now { instant, day } = now;
        let (last, since) = self.current.unwrap_or((day, instant));
        self.current = Some((day, instant));
        if last != day {
            let tomorrow = self.counted.get(&day).map_or(0, |usage| usage.egress_bytes);
            let spent = egress.restart(tomorrow);
            self.of(last).egress_bytes = spent;
        }
        let (is_idle, spent) = (running == 0 && snapshot_bytes == 0, egress.used());
        if is_idle && spent == 0 && !self.counted.contains_key(&day) {
            return;
        }
        let usage = self.of(day);
        let ran_ms = instant.saturating_duration_since(since).as_millis() as u64;
        usage.running_ms = usage.running_ms.saturating_add(ran_ms.saturating_mul(running));
        usage.peak_running = usage.peak_running.max(running);
        usage.snapshot_bytes = usage.snapshot_bytes.max(snapshot_bytes);
        usage.egress_bytes = usage.egress_bytes.max(spent);
    }

    /// Counts a command that was started.
    pub(super) fn count_command(&mut self, day: i32) {
        self.of(day).commands += 1;
    }

    /// The days that the store does not have like this.
    pub(super) fn unwritten(&self) -> Vec<(i32, DayUsage)> {
        let is_new = |(day, usage): &(&i32, &DayUsage)| self.written.get(day) != Some(usage);
        self.counted.iter().filter(is_new).map(|(day, usage)| (*day, *usage)).collect()
    }

    /// Notes that the store has a day. Days before `today` that did not change since are not needed any more.
    pub(super) fn note_written(&mut self, day: i32, usage: DayUsage, today: i32) {
        self.written.insert(day, usage);
        let is_done = |at: &i32| *at < today - 1 && self.counted.get(at) == self.written.get(at);
        let done: Vec<i32> = self.counted.keys().copied().filter(is_done).collect();
        for day in done {
            self.counted.remove(&day);
            self.written.remove(&day);
        }
    }

    /// The days in memory.
    pub(super) fn in_memory(&self) -> &BTreeMap<i32, DayUsage> {
        &self.counted
    }

    fn of(&mut self, day: i32) -> &mut DayUsage {
        self.counted.entry(day).or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(start: Instant, seconds: u64, day: i32) -> Now {
        Now { instant: start + Duration::from_secs(seconds), day }
    }

    #[test]
    fn time_is_counted_for_each_running_sandbox_and_bytes_on_their_day() {
        let (mut days, egress, start) = (Days::default(), Budget::new(Some(10)), Instant::now());
        days.advance(at(start, 0, 7), 0, 0, &egress);
        assert!(days.in_memory().is_empty(), "a project that uses nothing has no days");
        egress.add(10);
        days.advance(at(start, 10, 7), 3, 5, &egress);
        assert!(egress.is_spent());
        days.advance(at(start, 20, 8), 1, 4, &egress);
        assert!(!egress.is_spent(), "each day has its own bytes");
        let first = DayUsage {
            running_ms: 30_000,
            peak_running: 3,
            commands: 0,
            egress_bytes: 10,
            snapshot_bytes: 5,
        };
        assert_eq!(days.in_memory()[&7], first);
        assert_eq!((days.in_memory()[&8].running_ms, days.in_memory()[&8].egress_bytes), (10_000, 0));
    }

    #[test]
    fn a_clock_that_jumps_back_gives_no_bytes_again() {
        let (mut days, egress, start) = (Days::default(), Budget::new(Some(10)), Instant::now());
        egress.add(10);
        for day in [7, 8, 7] {
            days.advance(at(start, 0, day), 1, 0, &egress);
        }
        assert!(egress.is_spent());
    }

    #[test]
    fn what_is_written_is_not_written_again() {
        let (mut days, egress) = (Days::default(), Budget::new(None));
        days.count_command(7);
        let unwritten = days.unwritten();
        assert_eq!(unwritten.len(), 1);
        days.count_command(7);
        days.note_written(7, unwritten[0].1, 9);
        assert_eq!(days.unwritten()[0].1.commands, 2, "it changed meanwhile");
        days.note_written(7, days.unwritten()[0].1, 9);
        assert!(days.unwritten().is_empty() && days.in_memory().is_empty());
        days.restore(9, DayUsage { egress_bytes: 3, ..DayUsage::default() }, &egress, 9);
        assert!(days.unwritten().is_empty());
        assert_eq!(egress.used(), 3);
    }
}
