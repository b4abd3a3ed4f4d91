//! Notes beside disks, which say whose a sandbox is that was started before a session wanted it.

use sandbox_api::SandboxId;
use tracing::warn;

use super::{Error, Lifecycle};
use crate::engine::SandboxLabels;
use crate::model::{SandboxSpec, Transport, UidSlot, limits};

/// What the note beside a disk says.
pub(super) enum Noted {
    /// No session has the sandbox.
    Waits,
    /// The sandbox would have these labels if it had been created for its session.
    Of(Box<SandboxLabels>),
    /// There is no note, or it is of another sandbox.
    Unknown,
    /// It could not be read.
    Unread,
}

impl Lifecycle {
    /// Whether the labels of a sandbox with this specification can be a note.
    pub(super) fn fits_note(&self, spec: &SandboxSpec, transport: Transport) -> Result<bool, Error> {
        let id = SandboxId::random().map_err(|source| Error::Randomness { source })?;
        let labels = SandboxLabels { id, slot: UidSlot::LAST, transport, disk: None, spec: spec.clone() };
        Ok(labels.note_bytes(&self.instance) <= limits::MAX_NOTE_BYTES - limits::MAX_DISK_LABEL_BYTES)
    }

    /// What the note says of a container or volume that was created before a session wanted it.
    pub(super) async fn noted(&self, labels: &SandboxLabels) -> Noted {
        let Some(disk) = &labels.disk else { return Noted::Unknown };
        match self.storage.note(disk.name()).await {
            Ok(Some(note)) if note == *labels => Noted::Waits,
            Ok(Some(note)) if note.id == labels.id && !note.is_pooled() => Noted::Of(note.into()),
            Ok(_) => Noted::Unknown,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(sandbox = %labels.id, error, "could not read whose a sandbox is; it is kept");
                Noted::Unread
            }
        }
    }
}
