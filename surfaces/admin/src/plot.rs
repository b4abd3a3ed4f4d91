//! Plots of what was used on each day, as SVG that the server renders, with a table of the same numbers.
//!
//! The policy of the pages permits no inline style, so everything is attributes and classes.

use jiff::ToSpan;
use jiff::civil::Date;
use maud::{Markup, html};

use crate::units;

/// Size of the drawing and of its margins.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 26.0;

/// Number of lines above the axis.
const TICKS: u32 = 4;

/// Days between two labels of the axis.
const LABEL_EVERY: usize = 7;

/// What the numbers of a plot count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Count,
    Bytes,
    Milliseconds,
}

/// The numbers of consecutive days, the oldest first.
#[derive(Debug)]
pub(crate) struct Plot<'a> {
    /// Unique on the page.
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    pub(crate) unit: Unit,
    pub(crate) days: Vec<(Date, u64)>,
}

/// The last days until today, with zero where there is no number.
pub(crate) fn fill(known: &[(Date, u64)], today: Date, days: usize) -> Vec<(Date, u64)> {
    let value_of = |day| known.iter().find(|(known, _)| *known == day).map_or(0, |(_, value)| *value);
    let day = |back: usize| today.checked_sub(i32::try_from(back).unwrap_or(i32::MAX).days()).ok();
    (0..days).rev().filter_map(day).map(|day| (day, value_of(day))).collect()
}

/// The unit of the axis: its name, and how many of the plot's numbers are one of it.
fn axis_unit(unit: Unit, largest: u64) -> (&'static str, f64) {
    match unit {
        Unit::Count => ("", 1.0),
        Unit::Milliseconds => match largest {
            0..2000 => ("ms", 1.0),
            2000..120_000 => ("s", 1000.0),
            120_000..7_200_000 => ("min", 60_000.0),
            _ => ("h", 3_600_000.0),
        },
        Unit::Bytes => match largest {
            0..2048 => ("B", 1.0),
            2048..2_097_152 => ("KiB", 1024.0),
            2_097_152..2_147_483_648 => ("MiB", 1_048_576.0),
            _ => ("GiB", 1_073_741_824.0),
        },
    }
}

/// The distance of two lines: 1, 2 or 5 times a power of ten, at least 1.
fn step(largest: f64) -> f64 {
    let rough = (largest / f64::from(TICKS)).max(1.0);
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

impl Plot<'_> {
    pub(crate) fn show(&self) -> Markup {
        let sum: u64 = self.days.iter().fold(0, |sum, (_, value)| sum.saturating_add(*value));
        html! {
            figure.plot {
                figcaption { (self.title) }
                @if sum == 0 { p.muted { "Nothing in the last " (self.days.len()) " days." } }
                @else { (self.drawing()) (self.table()) }
            }
        }
    }

    /// Formats a number with its unit.
    fn format(&self, value: u64) -> String {
        match self.unit {
            Unit::Count => units::count(value),
            Unit::Bytes => units::bytes(value),
            Unit::Milliseconds => units::duration(value),
        }
    }

    fn describe(&self) -> String {
        let largest = self.days.iter().max_by_key(|(_, value)| *value);
        let span = self.days.first().zip(self.days.last());
        match (largest, span) {
            (Some((day, value)), Some(((first, _), (last, _)))) => {
                format!(
                    "One bar for each day from {first} to {last} (UTC). Largest: {} on {day}.",
                    self.format(*value)
                )
            }
            _ => String::new(),
        }
    }

    fn drawing(&self) -> Markup {
        let largest = self.days.iter().map(|(_, value)| *value).max().unwrap_or_default();
        let (unit, size) = axis_unit(self.unit, largest);
        let step = step(largest as f64 / size);
        let lines = ((largest as f64 / size) / step).ceil().max(1.0);
        let top = lines * step;
        let (height, base) = (HEIGHT - TOP - BOTTOM, HEIGHT - BOTTOM);
        let y = |value: f64| base - height * value / top;
        let slot = (WIDTH - LEFT) / self.days.len().max(1) as f64;
        let x = |index: usize| LEFT + slot * index as f64;
        let (title, description) = (format!("{}-title", self.id), format!("{}-desc", self.id));
        html! {
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-labelledby=(format!("{title} {description}")) {
                title id=(title) { (self.title) }
                desc id=(description) { (self.describe()) }
                @if !unit.is_empty() { text.tick x=(LEFT - 8.0) y="10" text-anchor="end" { (unit) } }
                @for line in 0..=lines as u32 {
                    @let value = f64::from(line) * step;
                    line.grid x1=(LEFT) x2=(WIDTH) y1=(number(y(value))) y2=(number(y(value))) {}
                    text.tick x=(LEFT - 8.0) y=(number(y(value) + 4.0)) text-anchor="end" { (units::decimal(value)) }
                }
                @for (index, (day, value)) in self.days.iter().enumerate() {
                    @let from = y(*value as f64 / size);
                    rect.bar x=(number(x(index) + slot * 0.15)) y=(number(from)) width=(number(slot * 0.7))
                        height=(number(base - from)) rx="1.5" {
                        title { (day) ": " (self.format(*value)) }
                    }
                    // Counted from today, which so always has one.
                    @if (self.days.len() - 1 - index).is_multiple_of(LABEL_EVERY) {
                        text.tick x=(number(x(index) + slot / 2.0)) y=(HEIGHT - 8.0) text-anchor=(anchor(index, self.days.len())) {
                            (day.strftime("%b %-d"))
                        }
                    }
                }
            }
        }
    }

    fn table(&self) -> Markup {
        html! {
            details {
                summary { "Numbers" }
                table {
                    caption.hidden { (self.title) " per day" }
                    thead { tr { th scope="col" { "Day (UTC)" } th.number scope="col" { (self.title) } } }
                    tbody {
                        @for (day, value) in self.days.iter().rev().filter(|(_, value)| *value > 0) {
                            tr { td { (day) } td.number { (self.format(*value)) } }
                        }
                    }
                }
            }
        }
    }
}

/// The last label would not fit if it were centred.
fn anchor(index: usize, len: usize) -> &'static str {
    if index + 2 >= len { "end" } else { "middle" }
}

/// A coordinate with enough digits for a screen.
fn number(value: f64) -> String {
    units::decimal(value)
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn days_without_use_are_zero() {
        let known = [(date(2026, 11, 28), 7), (date(2026, 11, 26), 5), (date(2026, 1, 1), 9)];
        let filled = fill(&known, date(2026, 11, 28), 3);
        let expected = [(26, 5), (27, 0), (28, 7)].map(|(day, value)| (date(2026, 11, day), value));
        assert_eq!(filled, expected);
    }

    #[test]
    fn lines_are_at_round_numbers() {
        for (largest, expected) in
            [(0.0, 1.0), (3.0, 1.0), (5.0, 2.0), (17.0, 5.0), (21.0, 10.0), (4000.0, 1000.0)]
        {
            assert_eq!(step(largest), expected, "{largest}");
        }
        assert_eq!(axis_unit(Unit::Bytes, 5 * 1024 * 1024), ("MiB", 1_048_576.0));
        assert_eq!(axis_unit(Unit::Milliseconds, 600_000), ("min", 60_000.0));
    }

    #[test]
    fn bars_are_as_high_as_their_numbers() {
        let days = vec![(date(2026, 11, 26), 0), (date(2026, 11, 27), 2), (date(2026, 11, 28), 4)];
        let plot = Plot { id: "c", title: "Commands", unit: Unit::Count, days };
        let shown = plot.show().into_string();
        let heights: Vec<f64> = shown
            .split("<rect")
            .skip(1)
            .map(|bar| bar.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(heights, [0.0, 75.0, 150.0]);
        for part in
            ["<title>2026-11-27: 2</title>", "Largest: 4 on 2026-11-28", "Nov 28", "<td>2026-11-27</td>"]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("style="), "the policy forbids it");
    }

    #[test]
    fn a_plot_without_use_says_so() {
        let days = fill(&[], date(2026, 11, 28), 30);
        let plot = Plot { id: "c", title: "Commands", unit: Unit::Count, days };
        assert!(plot.show().into_string().contains("Nothing in the last 30 days."));
    }

    #[test]
    fn the_largest_numbers_can_be_drawn() {
        for unit in [Unit::Count, Unit::Bytes, Unit::Milliseconds] {
            let days = vec![(date(2026, 11, 28), u64::MAX), (date(2026, 11, 29), u64::MAX)];
            let shown = Plot { id: "c", title: "t", unit, days }.show().into_string();
            assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
            assert!(shown.matches("class=\"grid\"").count() < 10, "{unit:?}");
        }
    }
}
