//! The quotas of a project and what it uses, for `sandboxd project`.

use std::io::{self, Write};

use anyhow::Context;
use sandbox_api::quota::{DayUsage, ProjectUsage, QuotaUsage, Quotas};
use sandboxd_model::quota::value_of;
use serde_json::Value;

use super::{table, text};

/// The quotas after these changes: `name=value`, or `name=` for none.
pub(crate) fn changed(before: &Quotas, changes: &[String]) -> anyhow::Result<Quotas> {
    let Value::Object(mut quotas) = serde_json::to_value(before)? else { return Ok(before.clone()) };
    for change in changes {
        let (name, value) =
            change.split_once('=').with_context(|| format!("`{change}` is not NAME=VALUE"))?;
        match value {
            "" => drop(quotas.remove(name)),
            _ => drop(quotas.insert(name.to_owned(), value_of(name, value)?)),
        }
    }
    Ok(serde_json::from_value(quotas.into())?)
}

/// Writes one line for each quota.
pub(crate) fn write(out: &mut impl Write, quotas: &Quotas) -> io::Result<()> {
    let Ok(Value::Object(quotas)) = serde_json::to_value(quotas) else { return Ok(()) };
    let rows: Vec<_> = quotas.iter().map(|(name, value)| [name.clone(), shown(value)]).collect();
    table::write(out, &rows)
}

/// Writes a table of the quotas, and one of the days.
pub(crate) fn write_usage(out: &mut impl Write, usage: &ProjectUsage) -> io::Result<()> {
    let header = std::iter::once(["QUOTA", "USED", "LIMIT"].map(str::to_owned));
    let rows = header.chain(usage.now.iter().map(quota_row));
    table::write(out, &rows.collect::<Vec<_>>())?;
    writeln!(out)?;
    let header = ["DAY", "SANDBOX HOURS", "PEAK", "COMMANDS", "EGRESS", "SNAPSHOTS"].map(str::to_owned);
    let rows = std::iter::once(header).chain(usage.days.iter().map(day_row));
    table::write(out, &rows.collect::<Vec<_>>())
}

fn quota_row(QuotaUsage { quota, used, limit }: &QuotaUsage) -> [String; 3] {
    let limit = limit.map_or_else(|| "-".into(), |limit| limit.to_string());
    [table::untrusted(quota), used.to_string(), limit]
}

fn day_row(usage: &DayUsage) -> [String; 6] {
    let hours = usage.running_ms as f64 / 3_600_000.0;
    [
        usage.day.to_string(),
        format!("{hours:.2}"),
        usage.peak_running.to_string(),
        usage.commands.to_string(),
        text::size(usage.egress_bytes),
        text::size(usage.snapshot_bytes),
    ]
}

fn shown(value: &Value) -> String {
    match value {
        Value::Array(parts) => parts.iter().map(shown).collect::<Vec<_>>().join("|"),
        Value::String(text) => table::untrusted(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_leave_the_other_quotas() {
        let before = Quotas { commands: Some(1), links: Some(2), ..Quotas::default() };
        let change = |text: &str| changed(&before, &[text.to_owned()]);
        assert_eq!(change("commands=").unwrap(), Quotas { links: Some(2), ..Quotas::default() });
        let modes = Some(vec!["none".into(), "open".into()]);
        assert_eq!(
            change("networkModes=none|open").unwrap(),
            Quotas { network_modes: modes, ..before.clone() }
        );
        for bad in ["commands", "command=1", "commands=x"] {
            change(bad).unwrap_err();
        }
    }
}
