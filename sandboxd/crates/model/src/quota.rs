//! What a project may use.

use std::ops::RangeInclusive;
use std::time::Duration;

use sandbox_api::quota::Quotas;

use crate::field::checked;
use crate::{FieldError, NetworkMode, ProjectName, limits};

/// Something that a project uses, and of which a quota limits how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    /// Sandboxes, running or parked.
    Sandboxes,
    /// Running sandboxes.
    RunningSandboxes,
    /// Memory of the running sandboxes in MiB.
    MemoryMb,
    /// Processors of the running sandboxes.
    Vcpus,
    /// Disks of all sandboxes in MiB.
    DiskMb,
    /// Stored bytes of the snapshots.
    SnapshotBytes,
    /// Bytes of the bases that the sandboxes are over, each counted once.
    BaseBytes,
    /// Bytes of the values that are kept with the sandboxes, and of their keys.
    ValueBytes,
    /// Commands that run at the same time.
    Commands,
    /// Valid links to previews.
    Links,
    /// Bytes of outbound connections on one day.
    EgressBytesPerDay,
}

impl Quota {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Sandboxes,
        Self::RunningSandboxes,
        Self::MemoryMb,
        Self::Vcpus,
        Self::DiskMb,
        Self::SnapshotBytes,
        Self::BaseBytes,
        Self::ValueBytes,
        Self::Commands,
        Self::Links,
        Self::EgressBytesPerDay,
    ];

    /// Name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandboxes => "sandboxes",
            Self::RunningSandboxes => "runningSandboxes",
            Self::MemoryMb => "memoryMb",
            Self::Vcpus => "vcpus",
            Self::DiskMb => "diskMb",
            Self::SnapshotBytes => "snapshotBytes",
            Self::BaseBytes => "baseBytes",
            Self::ValueBytes => "valueBytes",
            Self::Commands => "commands",
            Self::Links => "links",
            Self::EgressBytesPerDay => "egressBytesPerDay",
        }
    }
}

/// How much of each [`Quota`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts([u64; Quota::ALL.len()]);

impl Amounts {
    /// `amount` of one quota, and nothing of the others.
    pub fn of(quota: Quota, amount: u64) -> Self {
        Self::default().and(quota, amount)
    }

    /// The same with `amount` of `quota`.
    #[must_use]
    pub fn and(mut self, quota: Quota, amount: u64) -> Self {
        self.0[quota as usize] = amount;
        self
    }

    /// The amount of one quota.
    pub fn get(&self, quota: Quota) -> u64 {
        self.0[quota as usize]
    }

    /// Adds to each quota.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// Takes from each quota. Returns false if one had less, which is then 0.
    pub fn take(&mut self, other: &Self) -> bool {
        let mut had_all = true;
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            had_all &= *mine >= theirs;
            *mine = mine.saturating_sub(theirs);
        }
        had_all
    }
}

/// The quotas of a project. What has none is not limited by it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectQuotas {
    limits: [Option<u64>; Quota::ALL.len()],
    /// Running sandboxes that other projects leave room for.
    pub guaranteed_running: Option<u64>,
    /// Sandboxes of one subject, running or parked.
    pub sandboxes_per_subject: Option<u64>,
    /// Longest time limit of a command.
    pub command_timeout: Option<Duration>,
    /// Images that new sandboxes may have.
    pub images: Option<Vec<String>>,
    /// Network modes that sandboxes may get.
    pub network_modes: Option<Vec<NetworkMode>>,
}

impl ProjectQuotas {
    /// The limit of a quota.
    pub fn limit(&self, quota: Quota) -> Option<u64> {
        self.limits[quota as usize]
    }

    /// Checks quotas in the form of the API. `prefix` is in front of the names of the fields.
    pub fn from_wire(wire: &Quotas, prefix: &str) -> Result<Self, FieldError> {
        let field = |name: &str| format!("{prefix}{name}");
        let number = |name: &str, value: Option<u64>, range: RangeInclusive<u64>| {
            value.map(|value| checked(&field(name), value, range)).transpose()
        };
        let mut limits = [None; Quota::ALL.len()];
        for quota in Quota::ALL {
            limits[quota as usize] = number(quota.as_str(), *wire_of(wire, quota), 0..=limits::MAX_QUOTA)?;
        }
        let timeout = number("commandTimeoutMs", wire.command_timeout_ms, limits::QUOTA_TIMEOUT_MS)?;
        let modes = |names: &Vec<String>| {
            if names.len() > NetworkMode::ALL.len() {
                let problem = format!("must be at most {}", NetworkMode::ALL.len());
                return Err(FieldError::new(field("networkModes"), problem));
            }
            names.iter().map(|name| NetworkMode::parse(name, &field("networkModes"))).collect()
        };
        Ok(Self {
            limits,
            guaranteed_running: number(
                "guaranteedRunning",
                wire.guaranteed_running,
                0..=limits::MAX_GUARANTEED_RUNNING,
            )?,
            sandboxes_per_subject: number(
                "sandboxesPerSubject",
                wire.sandboxes_per_subject,
                0..=limits::MAX_QUOTA,
            )?,
            command_timeout: timeout.map(Duration::from_millis),
            images: wire.images.as_ref().map(|images| check_images(&field("images"), images)).transpose()?,
            network_modes: wire.network_modes.as_ref().map(modes).transpose()?,
        })
    }

    /// Reads `commands=20,diskMb=4096,networkModes=none|allowlist`.
    pub fn from_pairs(text: &str) -> Result<Self, FieldError> {
        let mut wire = serde_json::Map::new();
        for pair in text.split([',', ' ', '\n']).map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            wire.insert(name.to_owned(), value_of(name, value)?);
        }
        let wire =
            serde_json::from_value(wire.into()).map_err(|_| FieldError::new("quotas", "are invalid"))?;
        Self::from_wire(&wire, "")
    }

    /// The form of the API.
    pub fn to_wire(&self) -> Quotas {
        let limit = |quota| self.limit(quota);
        Quotas {
            sandboxes: limit(Quota::Sandboxes),
            running_sandboxes: limit(Quota::RunningSandboxes),
            guaranteed_running: self.guaranteed_running,
            sandboxes_per_subject: self.sandboxes_per_subject,
            memory_mb: limit(Quota::MemoryMb),
            vcpus: limit(Quota::Vcpus),
            disk_mb: limit(Quota::DiskMb),
            snapshot_bytes: limit(Quota::SnapshotBytes),
            base_bytes: limit(Quota::BaseBytes),
            value_bytes: limit(Quota::ValueBytes),
            commands: limit(Quota::Commands),
            links: limit(Quota::Links),
            egress_bytes_per_day: limit(Quota::EgressBytesPerDay),
            command_timeout_ms: self.command_timeout.map(|timeout| timeout.as_millis() as u64),
            images: self.images.clone(),
            network_modes: self
                .network_modes
                .as_ref()
                .map(|modes| modes.iter().map(|mode| mode.as_str().to_owned()).collect()),
        }
    }

    /// These quotas, and those of `defaults` where there is none.
    #[must_use]
    pub fn or(&self, defaults: &Self) -> Self {
        let mut limits = self.limits;
        for (limit, default) in limits.iter_mut().zip(defaults.limits) {
            *limit = limit.or(default);
        }
        Self {
            limits,
            guaranteed_running: self.guaranteed_running.or(defaults.guaranteed_running),
            sandboxes_per_subject: self.sandboxes_per_subject.or(defaults.sandboxes_per_subject),
            command_timeout: self.command_timeout.or(defaults.command_timeout),
            images: self.images.clone().or_else(|| defaults.images.clone()),
            network_modes: self.network_modes.clone().or_else(|| defaults.network_modes.clone()),
        }
    }
}

/// The value of a quota as JSON: a number, or a list of which `|` separates the parts.
pub fn value_of(name: &str, value: &str) -> Result<serde_json::Value, FieldError> {
    let is_number = matches!(name, "guaranteedRunning" | "sandboxesPerSubject" | "commandTimeoutMs")
        || Quota::ALL.iter().any(|quota| quota.as_str() == name);
    match name {
        "images" | "networkModes" => Ok(value.split('|').filter(|part| !part.is_empty()).collect()),
        _ if is_number => match value.parse::<u64>() {
            Ok(number) => Ok(number.into()),
            Err(_) => Err(FieldError::new(name, "must be a number")),
        },
        _ => Err(FieldError::new(name, "is not a quota")),
    }
}

fn wire_of(wire: &Quotas, quota: Quota) -> &Option<u64> {
    match quota {
        Quota::Sandboxes => &wire.sandboxes,
        Quota::RunningSandboxes => &wire.running_sandboxes,
        Quota::MemoryMb => &wire.memory_mb,
        Quota::Vcpus => &wire.vcpus,
        Quota::DiskMb => &wire.disk_mb,
        Quota::SnapshotBytes => &wire.snapshot_bytes,
        Quota::BaseBytes => &wire.base_bytes,
        Quota::ValueBytes => &wire.value_bytes,
        Quota::Commands => &wire.commands,
        Quota::Links => &wire.links,
        Quota::EgressBytesPerDay => &wire.egress_bytes_per_day,
    }
}

fn check_images(field: &str, images: &[String]) -> Result<Vec<String>, FieldError> {
    let is_image = |image: &String| (1..=limits::MAX_QUOTA_IMAGE_BYTES).contains(&image.len());
    if images.len() > limits::MAX_QUOTA_IMAGES || !images.iter().all(is_image) {
        let problem = format!(
            "must be at most {} images of 1 to {} bytes each",
            limits::MAX_QUOTA_IMAGES,
            limits::MAX_QUOTA_IMAGE_BYTES
        );
        return Err(FieldError::new(field, problem));
    }
    Ok(images.to_vec())
}

/// What a project has used on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRecord {
    /// The project.
    pub project: ProjectName,
    /// The day (UTC), as the number of days since the Unix epoch.
    pub day: i32,
    /// How much.
    pub usage: DayUsage,
}

/// What a project has used on one day. No number ever becomes smaller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DayUsage {
    /// Milliseconds that its sandboxes ran, added up.
    pub running_ms: u64,
    /// Largest number of sandboxes that ran at the same time.
    pub peak_running: u64,
    /// Commands that were started.
    pub commands: u64,
    /// Bytes of outbound connections in both directions.
    pub egress_bytes: u64,
    /// Largest number of stored bytes of its snapshots.
    pub snapshot_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(text: &str) -> Quotas {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn quotas_survive_the_wire() {
        let given = wire(
            r#"{"sandboxes":0,"sandboxesPerSubject":2,"runningSandboxes":2,"guaranteedRunning":1,"memoryMb":3,"vcpus":4,"diskMb":5,
                "snapshotBytes":6,"baseBytes":6,"valueBytes":6,"commands":7,"links":8,"egressBytesPerDay":9,"commandTimeoutMs":1000,
                "images":["a:1"],"networkModes":["none","allowlist"]}"#,
        );
        let quotas = ProjectQuotas::from_wire(&given, "").unwrap();
        assert_eq!(quotas.to_wire(), given);
        assert_eq!(quotas.limit(Quota::Sandboxes), Some(0));
        assert_eq!(ProjectQuotas::default().to_wire(), Quotas::default());
    }

    #[test]
    fn a_bad_quota_is_named() {
        let too_many =
            format!(r#"{{"images":[{}]}}"#, vec![r#""i""#; limits::MAX_QUOTA_IMAGES + 1].join(","));
        let bad = [
            (r#"{"vcpus":9007199254740993}"#, "`quotas.vcpus` must be 0 to "),
            (r#"{"commandTimeoutMs":1}"#, "`quotas.commandTimeoutMs` must be 1000 to "),
            (r#"{"guaranteedRunning":1001}"#, "`quotas.guaranteedRunning` must be 0 to 1000"),
            (r#"{"networkModes":["nope"]}"#, "`quotas.networkModes` must be"),
            (r#"{"images":[""]}"#, "`quotas.images` must be at most"),
            (too_many.as_str(), "`quotas.images` must be at most"),
        ];
        for (text, message) in bad {
            let error = ProjectQuotas::from_wire(&wire(text), "quotas.").unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }

    #[test]
    fn quotas_are_read_from_pairs() {
        let found = ProjectQuotas::from_pairs("commands=2, images=a:1|b,networkModes=none").unwrap();
        let expected = wire(r#"{"commands":2,"images":["a:1","b"],"networkModes":["none"]}"#);
        assert_eq!(found.to_wire(), expected);
        assert_eq!(ProjectQuotas::from_pairs(""), Ok(ProjectQuotas::default()));
        for (text, field) in
            [("command=2", "command"), ("commands", "commands"), ("networkModes=x", "networkModes")]
        {
            assert_eq!(ProjectQuotas::from_pairs(text).unwrap_err().field, field);
        }
    }

    #[test]
    fn a_default_applies_where_there_is_no_quota() {
        let quotas = |text: &str| ProjectQuotas::from_wire(&wire(text), "").unwrap();
        let found = quotas(r#"{"sandboxes":1,"images":[]}"#)
            .or(&quotas(r#"{"sandboxes":9,"commands":2,"images":["a"],"sandboxesPerSubject":1}"#));
        assert_eq!(found, quotas(r#"{"sandboxes":1,"commands":2,"images":[],"sandboxesPerSubject":1}"#));
    }

    #[test]
    fn taking_more_than_there_is_leaves_nothing() {
        let mut amounts = Amounts::of(Quota::Commands, 2).and(Quota::Vcpus, u64::MAX);
        amounts.add(&Amounts::of(Quota::Vcpus, 1));
        assert_eq!(amounts.get(Quota::Vcpus), u64::MAX);
        assert!(amounts.take(&Amounts::of(Quota::Commands, 2)));
        assert!(!amounts.take(&Amounts::of(Quota::Commands, 1)));
        assert_eq!(amounts.get(Quota::Commands), 0);
    }
}
