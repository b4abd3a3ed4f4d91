//! The result of a check, and how it is printed.

use std::io::{self, Write};

use serde::Serialize;

use crate::text;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// No problem.
    Ok,
    /// The daemon works, but something could be improved.
    Warning,
    /// The daemon does not work, or is not secure.
    Fault,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) level: Level,
    pub(super) found: String,
    /// What to do about it. Every warning and fault has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, found: found.into(), fix: None }
    }

    pub(super) fn warning(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, level: Level::Warning, found: found.into(), fix: Some(fix.into()) }
    }

    pub(super) fn fault(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, level: Level::Fault, found: found.into(), fix: Some(fix.into()) }
    }
}

/// Writes one line for each finding, and a second line with what to do.
pub(super) fn write_lines(out: &mut impl Write, found: &[Finding]) -> io::Result<()> {
    let width = found.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    for finding in found {
        let level = match finding.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Fault => "fault",
        };
        writeln!(out, "{level:7}  {:width$}  {}", finding.check, text::printable(&finding.found))?;
        if let Some(fix) = &finding.fix {
            writeln!(out, "{:7}  {:width$}  -> {}", "", "", text::printable(fix))?;
        }
    }
    let count = |level| found.iter().filter(|finding| finding.level == level).count();
    writeln!(out, "{} faults, {} warnings", count(Level::Fault), count(Level::Warning))
}

/// Writes `{"ok":bool,"checks":[{"check","level","found","fix"?}]}`.
pub(super) fn write_json(out: &mut impl Write, found: &[Finding]) -> io::Result<()> {
    let ok = found.iter().all(|finding| finding.level != Level::Fault);
    crate::write_json(out, &serde_json::json!({ "ok": ok, "checks": found }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_has_a_line_and_each_problem_a_second() {
        let found = [Finding::ok("agent", "static"), Finding::fault("run dir", "gone\u{1b}[2J", "make it")];
        let mut out = Vec::new();
        write_lines(&mut out, &found).unwrap();
        let wanted = "ok       agent    static\n\
                      fault    run dir  gone\\u{1b}[2J\n                  -> make it\n\
                      1 faults, 0 warnings\n";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }
}
