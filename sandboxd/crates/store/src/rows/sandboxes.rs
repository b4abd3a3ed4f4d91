//! Rows of the table `sandboxes`.

use std::time::Duration;

use sandboxd_model::{
    Checkpoints, NetworkMode, NetworkPolicy, SandboxRecord, SandboxSpec, Stage, Transport, UidSlot,
};

use super::owner::{owner, project_column, subject_column};
use super::{BadColumn, from_json, number, optional_number, row, saturated, to_json};

row! {
    /// A sandbox.
    SandboxRow {
        id: String,
        project: String,
        subject: String,
        session_key: String,
        uid: i64,
        transport: String,
        runtime: String,
        image: Option<String>,
        idle_ttl_ms: i64,
        resources: String,
        network: String,
        allow: String,
        ports: String,
        env: String,
        secret_env: String,
        metadata: String,
        checkpoints: Option<String>,
        disk: Option<String>,
        stage: String,
        created_at_ms: i64,
        last_active_ms: i64,
        parked_at_age_ms: Option<i64>,
        disk_bytes: Option<i64>,
        checkpoint_pending: i64,
        is_tentative: i64,
    }
}

impl From<&SandboxRecord> for SandboxRow {
    fn from(record: &SandboxRecord) -> Self {
        let spec = &record.spec;
        Self {
            id: record.id.to_string(),
            project: project_column(&spec.owner),
            subject: subject_column(&spec.owner),
            session_key: spec.session_key.as_str().to_owned(),
            uid: record.slot.uid().into(),
            transport: record.transport.as_str().to_owned(),
            runtime: spec.runtime.as_str().to_owned(),
            image: spec.image.clone(),
            idle_ttl_ms: saturated(spec.idle_ttl.as_millis()),
            resources: spec.resources.to_string(),
            network: spec.network.mode.as_str().to_owned(),
            allow: to_json(&spec.network.allow_texts()),
            ports: to_json(&spec.ports),
            env: to_json(&spec.env),
            secret_env: to_json(&spec.secret_env),
            metadata: to_json(&spec.metadata),
            checkpoints: spec.checkpoints.map(|checkpoints| to_json(&checkpoints.to_wire())),
            disk: record.disk.as_ref().map(ToString::to_string),
            stage: record.stage.as_str().to_owned(),
            created_at_ms: record.created_at_ms,
            last_active_ms: record.last_active_ms,
            parked_at_age_ms: record.parked_at_age_ms.map(saturated),
            disk_bytes: record.disk_bytes.map(saturated),
            checkpoint_pending: record.checkpoint_pending.into(),
            is_tentative: record.is_tentative.into(),
        }
    }
}

impl SandboxRow {
    pub(crate) fn record(self) -> Result<SandboxRecord, BadColumn> {
        let spec = SandboxSpec {
            owner: owner(&self.project, &self.subject)?,
            session_key: self.session_key.parse().map_err(|_| BadColumn("session_key"))?,
            runtime: self.runtime.parse().map_err(|_| BadColumn("runtime"))?,
            image: self.image,
            idle_ttl: Duration::from_millis(number("idle_ttl_ms", self.idle_ttl_ms)?),
            resources: self.resources.parse().map_err(|_| BadColumn("resources"))?,
            network: network_policy(&self.network, &self.allow)?,
            ports: from_json("ports", &self.ports)?,
            env: from_json("env", &self.env)?,
            secret_env: from_json("secret_env", &self.secret_env)?,
            metadata: from_json("metadata", &self.metadata)?,
            checkpoints: self.checkpoints.as_deref().map(checkpoints).transpose()?.flatten(),
        };
        Ok(SandboxRecord {
            id: self.id.parse().map_err(|_| BadColumn("id"))?,
            slot: UidSlot::of_uid(number("uid", self.uid)?).ok_or(BadColumn("uid"))?,
            transport: Transport::parse(&self.transport).ok_or(BadColumn("transport"))?,
            spec,
            disk: self.disk.map(|text| text.parse().map_err(|_| BadColumn("disk"))).transpose()?,
            stage: Stage::parse(&self.stage).ok_or(BadColumn("stage"))?,
            created_at_ms: self.created_at_ms,
            last_active_ms: self.last_active_ms,
            parked_at_age_ms: optional_number("parked_at_age_ms", self.parked_at_age_ms)?,
            disk_bytes: optional_number("disk_bytes", self.disk_bytes)?,
            checkpoint_pending: self.checkpoint_pending != 0,
            is_tentative: self.is_tentative != 0,
        })
    }
}

fn checkpoints(json: &str) -> Result<Option<Checkpoints>, BadColumn> {
    Checkpoints::new(&from_json("checkpoints", json)?).map_err(|_| BadColumn("checkpoints"))
}

fn network_policy(mode: &str, allow: &str) -> Result<NetworkPolicy, BadColumn> {
    let mode = NetworkMode::parse(mode, "network").map_err(|_| BadColumn("network"))?;
    let allow: Vec<String> = from_json("allow", allow)?;
    NetworkPolicy::from_texts(mode, &allow).ok_or(BadColumn("allow"))
}
