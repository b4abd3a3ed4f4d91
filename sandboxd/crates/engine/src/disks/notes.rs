//! Notes of disks: whose the disk of a sandbox is that was started before a session wanted it.
//!
//! A note is a set of signed labels: those of the container, without a session key, until a session gets the sandbox, and
//! from then on those that the container would have if it had been created for the session.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::Disks;
use crate::{DiskFault, Error, SandboxLabels};
use sandboxd_model::{Disk, limits};

impl Disks {
    /// Replaces the note of the disk with these labels. It survives a power cut from then on. Fails if the labels are larger
    /// than [`limits::MAX_NOTE_BYTES`].
    pub async fn set_note(&self, disk: &Disk, labels: &SandboxLabels) -> Result<(), Error> {
        let (call, name) = ("write note", disk.name());
        let text = labels.to_note(&self.shared.engine.instance);
        if text.len() > limits::MAX_NOTE_BYTES {
            let source = DiskFault::Failed("the labels are too large for a note".into());
            return Err(Error::Disk { call, name: name.to_owned(), source });
        }
        let words = format!("note {name} {}", BASE64.encode(text));
        self.ask(call, limits::DISK_CALL, name, &words).await.map(drop)
    }

    /// The labels in the note of the disk with this name. `None` if it has no note, or if the note is not signed by this
    /// instance for this disk.
    pub async fn note(&self, name: &str) -> Result<Option<SandboxLabels>, Error> {
        let call = "read note";
        let parts = match self.ask(call, limits::DISK_CALL, name, &format!("noted {name}")).await {
            Err(Error::Disk { source: DiskFault::Absent, .. }) => return Ok(None),
            other => other?.lines,
        };
        let word: String = parts.iter().filter_map(|line| line.strip_prefix("part ")).collect();
        let map = BASE64.decode(word).ok().and_then(|text| {
            let map: HashMap<String, String> = serde_json::from_slice(&text).ok()?;
            SandboxLabels::from_map(&map, &self.shared.engine.instance)
        });
        Ok(map.filter(|labels| labels.disk.as_ref().is_some_and(|disk| disk.name() == name)))
    }
}
