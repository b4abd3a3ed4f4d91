//! The one row of the table `daemon`, and the rows of the table `orphans`.

use sandboxd_model::{Orphan, OrphanKind};

use super::{BadColumn, number, row, saturated};
use crate::{AuditHead, Identity};

row! {
    /// Which instance and engine the rows of the database belong to.
    IdentityRow {
        instance: Option<String>,
        engine: Option<String>,
        marker: Option<String>,
        epoch: Option<String>,
        epoch_number: i64,
    }
}

row! {
    /// The last line of the audit record. Without a MAC, none is known.
    AuditHeadRow {
        audit_seq: i64,
        audit_mac: Option<String>,
    }
}

row! {
    /// Something on the engine that belongs to no sandbox.
    OrphanRow {
        kind: String,
        name: String,
        seen_at_age_ms: i64,
        seen_at_ms: i64,
    }
}

impl From<&Identity> for IdentityRow {
    fn from(identity: &Identity) -> Self {
        let Identity { instance, engine, marker, epoch, epoch_number } = identity.clone();
        Self { instance, engine, marker, epoch, epoch_number: saturated(epoch_number) }
    }
}

impl IdentityRow {
    pub(crate) fn identity(self) -> Result<Identity, BadColumn> {
        let Self { instance, engine, marker, epoch, epoch_number } = self;
        let epoch_number = number("epoch_number", epoch_number)?;
        Ok(Identity { instance, engine, marker, epoch, epoch_number })
    }
}

impl From<&AuditHead> for AuditHeadRow {
    fn from(head: &AuditHead) -> Self {
        Self { audit_seq: saturated(head.seq), audit_mac: Some(head.mac.clone()) }
    }
}

impl AuditHeadRow {
    pub(crate) fn head(self) -> Result<Option<AuditHead>, BadColumn> {
        let seq = number("audit_seq", self.audit_seq)?;
        Ok(self.audit_mac.map(|mac| AuditHead { seq, mac }))
    }
}

impl From<&Orphan> for OrphanRow {
    fn from(orphan: &Orphan) -> Self {
        Self {
            kind: orphan.kind.as_str().to_owned(),
            name: orphan.name.clone(),
            seen_at_age_ms: saturated(orphan.seen_at_age_ms),
            seen_at_ms: orphan.seen_at_ms,
        }
    }
}

impl OrphanRow {
    pub(crate) fn orphan(self) -> Result<Orphan, BadColumn> {
        Ok(Orphan {
            kind: OrphanKind::parse(&self.kind).ok_or(BadColumn("kind"))?,
            name: self.name,
            seen_at_age_ms: number("seen_at_age_ms", self.seen_at_age_ms)?,
            seen_at_ms: self.seen_at_ms,
        })
    }
}
