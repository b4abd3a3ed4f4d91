//! Plots of how numbers grow, as SVG.

use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use plotters::prelude::*;

/// Pixels.
const SIZE: (u32, u32) = (720, 400);

const COLORS: [RGBColor; 3] = [RGBColor(0, 92, 197), RGBColor(209, 100, 0), RGBColor(110, 110, 110)];

/// Commands per second of one sandbox.
pub(crate) const RATES: Plot = Plot {
    file: "clients.svg",
    title: "`bash -c true` in one sandbox",
    across: "clients at once",
    up: "commands per second",
};

/// The time of a command.
pub(crate) const TIMES: Plot = Plot {
    file: "sandboxes.svg",
    title: "`bash -c true`, median",
    across: "running sandboxes",
    up: "milliseconds",
};

static POINTS: Mutex<Vec<Point>> = Mutex::new(Vec::new());

/// A plot with logarithmic axes.
#[derive(Clone, Copy)]
pub(crate) struct Plot {
    file: &'static str,
    title: &'static str,
    across: &'static str,
    up: &'static str,
}

#[derive(Clone, Copy)]
struct Point {
    plot: &'static str,
    line: &'static str,
    at: (f64, f64),
}

impl Plot {
    /// Adds a point to one of its lines.
    pub(crate) fn add(&self, line: &'static str, across: usize, up: f64) {
        let point = Point { plot: self.file, line, at: (across as f64, up) };
        POINTS.lock().unwrap_or_else(PoisonError::into_inner).push(point);
    }

    fn draw(&self, dir: &Path, points: &[Point]) -> Result<(), Box<dyn std::error::Error>> {
        let path = dir.join(self.file);
        let root = SVGBackend::new(&path, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (across, up) =
            (range(points.iter().map(|point| point.at.0)), range(points.iter().map(|point| point.at.1)));
        let mut measured: Vec<f64> = points.iter().map(|point| point.at.0).collect();
        measured.dedup();
        // Lines that stay flat would look steep on an axis of their own size.
        let up = up.start / 2.0..up.end * 2.0;
        let mut chart = ChartBuilder::on(&root)
            .caption(self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(across.log_scale().with_key_points(measured), up.log_scale())?;
        let (whole, mut mesh) = (|value: &f64| format!("{value:.0}"), chart.configure_mesh());
        mesh.x_desc(self.across).y_desc(self.up).light_line_style(WHITE);
        mesh.x_label_formatter(&whole).y_label_formatter(&whole).draw()?;
        for (line, color) in lines(points).into_iter().zip(COLORS.iter().cycle()) {
            let at: Vec<_> = points.iter().filter(|point| point.line == line).map(|point| point.at).collect();
            chart
                .draw_series(LineSeries::new(at.clone(), color.stroke_width(2)))?
                .label(line)
                .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
            chart.draw_series(at.into_iter().map(|at| Circle::new(at, 4, color.filled())))?;
        }
        let mut legend = chart.configure_series_labels();
        legend
            .position(SeriesLabelPosition::LowerMiddle)
            .background_style(WHITE)
            .border_style(BLACK)
            .draw()?;
        root.present()?;
        Ok(())
    }
}

/// Draws the plots that have points into a directory.
pub(crate) fn draw(dir: &Path) {
    let points = POINTS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for plot in [RATES, TIMES] {
        let points: Vec<_> = points.iter().filter(|point| point.plot == plot.file).copied().collect();
        if !points.is_empty() {
            std::fs::create_dir_all(dir).unwrap();
            plot.draw(dir, &points).unwrap();
        }
    }
}

/// The names of the lines, in their first order.
fn lines(points: &[Point]) -> Vec<&'static str> {
    let mut lines = Vec::new();
    for point in points {
        if !lines.contains(&point.line) {
            lines.push(point.line);
        }
    }
    lines
}

fn range(values: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let largest = values.clone().fold(f64::MIN, f64::max);
    values.fold(f64::MAX, f64::min)..largest
}
