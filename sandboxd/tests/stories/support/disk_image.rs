//! The image of a workspace's disk, moved away and back.

use std::path::{Path, PathBuf};

use sandbox_api::SandboxId;
use sandboxd::model::layout::volume_name;

use crate::support::harness::docker;

/// The image of a sandbox's disk, which can be moved away and back.
pub(crate) struct Image {
    place: PathBuf,
    away: PathBuf,
}

impl Image {
    pub(crate) async fn of(sandbox: &SandboxId) -> Self {
        let volume = docker().await.inspect_volume(&volume_name(sandbox)).await.unwrap();
        let place = PathBuf::from(&volume.options["device"]).with_extension("img");
        Self { away: place.with_extension("kept"), place }
    }

    /// Renamed, so that a device that uses it keeps it.
    pub(crate) fn take_away(&self) {
        std::fs::rename(&self.place, &self.away).unwrap();
    }

    pub(crate) fn put_back(&self) {
        std::fs::rename(&self.away, &self.place).unwrap();
    }

    /// The file itself.
    pub(crate) fn path(&self) -> &Path {
        &self.place
    }

    /// The link to its device while the helper has it attached.
    pub(crate) fn link(&self) -> PathBuf {
        self.place.with_extension("dev")
    }

    /// A file in the directory of all images.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.place.with_file_name(name)
    }

    pub(crate) fn is_detached(&self) -> bool {
        self.away.exists() && !self.place.exists()
    }
}
