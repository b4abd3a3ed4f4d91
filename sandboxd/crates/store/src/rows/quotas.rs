//! Rows of the tables `quotas` and `usage`.

use sandboxd_model::{DayUsage, ProjectName, ProjectQuotas, UsageRecord};

use super::{BadColumn, from_json, number, row, saturated, to_json};

row! {
    /// The quotas of a project.
    QuotasRow {
        project: String,
        quotas: String,
    }
}

row! {
    /// What a project has used on one day.
    UsageRow {
        project: String,
        day: i64,
        running_ms: i64,
        peak_running: i64,
        commands: i64,
        egress_bytes: i64,
        snapshot_bytes: i64,
    }
}

impl UsageRow {
    /// The columns that count something.
    pub(crate) fn counts() -> &'static [&'static str] {
        &Self::COLUMNS[2..]
    }
}

impl QuotasRow {
    pub(crate) fn new(project: &ProjectName, quotas: &ProjectQuotas) -> Self {
        Self { project: project.to_string(), quotas: to_json(&quotas.to_wire()) }
    }

    pub(crate) fn record(self) -> Result<(ProjectName, ProjectQuotas), BadColumn> {
        let project = self.project.parse().map_err(|_| BadColumn("project"))?;
        let quotas = from_json("quotas", &self.quotas)?;
        Ok((project, ProjectQuotas::from_wire(&quotas, "").map_err(|_| BadColumn("quotas"))?))
    }
}

impl From<&UsageRecord> for UsageRow {
    fn from(record: &UsageRecord) -> Self {
        let DayUsage { running_ms, peak_running, commands, egress_bytes, snapshot_bytes } = record.usage;
        Self {
            project: record.project.to_string(),
            day: record.day.into(),
            running_ms: saturated(running_ms),
            peak_running: saturated(peak_running),
            commands: saturated(commands),
            egress_bytes: saturated(egress_bytes),
            snapshot_bytes: saturated(snapshot_bytes),
        }
    }
}

impl UsageRow {
    pub(crate) fn record(self) -> Result<UsageRecord, BadColumn> {
        Ok(UsageRecord {
            project: self.project.parse().map_err(|_| BadColumn("project"))?,
            day: number("day", self.day)?,
            usage: DayUsage {
                running_ms: number("running_ms", self.running_ms)?,
                peak_running: number("peak_running", self.peak_running)?,
                commands: number("commands", self.commands)?,
                egress_bytes: number("egress_bytes", self.egress_bytes)?,
                snapshot_bytes: number("snapshot_bytes", self.snapshot_bytes)?,
            },
        })
    }
}
