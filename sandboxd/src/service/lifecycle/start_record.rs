//! What a start has found out by trying, kept for the next start.
//!
//! A start fills the agent's volume, mounts a disk and starts a sandbox, to see whether they work here. That takes most of its
//! time, and the next start would find the same. So the findings are kept in a file of the run dir, whose name is a digest of
//! everything that they depend on. A sandbox that does not start removes the file, so that the next start tries again.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tracing::debug;

use crate::engine::{AgentVolume, DisksProof, Facts, Host};
use crate::model::{Transport, limits};
use crate::service::Setup;

/// Directory of the records, in the instance's directory of the run dir, which no other user can enter.
const RECORDS_DIR: &str = "start-records";

/// The program of this process.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Changes with each boot of this machine (proc_sys_kernel(5)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The record of what this start depends on. Without one, each start tries everything.
#[derive(Debug)]
pub(super) struct StartRecord {
    dir: PathBuf,
    /// Its name in the directory. Set once it is known what the start depends on.
    name: OnceLock<String>,
}

/// The findings of a start in which everything worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Findings {
    /// The volume, which was complete.
    pub(super) agent_volume: AgentVolume,
    /// How agents were reached.
    pub(super) transport: Transport,
    /// What was found about the disks. `None` if the operator wants none.
    pub(super) disks: Option<DisksProof>,
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    volume: String,
    volume_created_at: String,
    transport: String,
    disks_are_seen: Option<bool>,
}

impl StartRecord {
    pub(super) fn new(setup: &Setup) -> Self {
        Self { dir: setup.run_dir.join(RECORDS_DIR), name: OnceLock::new() }
    }

    /// Names the record by what the findings of this start depend on: the engine and its machine, the image, this program,
    /// the agent, and settings. If some of it is unknown, the record has no name, and nothing is read or kept.
    pub(super) fn name(&self, setup: &Setup, facts: &Facts, host: &Host, image_id: &str) {
        let name = || -> io::Result<String> {
            let facts = Facts { clock_ahead: None, warnings: Vec::new(), ..facts.clone() };
            let ca_bundle = setup.egress.ca_bundle.as_ref().map(|bundle| Sha256::digest(bundle.pem()));
            let parts = format!(
                "{facts:?} {host:?} {} {image_id} {:?} {:?} {ca_bundle:?} {} {} {}",
                setup.image,
                setup.transport,
                setup.disk_quota,
                identity(Path::new(OWN_PROGRAM))?,
                identity(&setup.agent_program)?,
                fs::read_to_string(BOOT_ID)?,
            );
            Ok(Sha256::digest(parts).iter().map(|byte| format!("{byte:02x}")).collect())
        };
        match name() {
            Ok(name) => drop(self.name.set(name)),
            Err(error) => debug!(%error, "what this start finds is not kept"),
        }
    }

    /// The findings of the last start that depended on the same.
    pub(super) fn read(&self) -> Option<Findings> {
        let path = self.path()?;
        let age = fs::metadata(&path).ok()?.modified().ok()?.elapsed().ok()?;
        if age > limits::START_RECORD_AGE {
            return None;
        }
        let stored: Stored = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        Some(Findings {
            agent_volume: AgentVolume { name: stored.volume, created_at: stored.volume_created_at },
            transport: Transport::parse(&stored.transport)?,
            disks: stored.disks_are_seen.map(|sees_devices| DisksProof { sees_devices }),
        })
    }

    /// Keeps the findings for the next start, and removes records that are too old. An error only makes that start slower.
    pub(super) fn write(&self, findings: &Findings) {
        let Some(path) = self.path() else { return };
        let stored = Stored {
            volume: findings.agent_volume.name.clone(),
            volume_created_at: findings.agent_volume.created_at.clone(),
            transport: findings.transport.as_str().to_owned(),
            disks_are_seen: findings.disks.map(|proof| proof.sees_devices),
        };
        let written = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
            remove_old(&self.dir)?;
            let new = path.with_extension(std::process::id().to_string());
            serde_json::to_writer(File::create(&new)?, &stored)?;
            fs::rename(new, path)
        };
        if let Err(error) = written() {
            debug!(%error, "what this start has found could not be kept");
        }
    }

    /// Removes the record, because what it says may not be true any more.
    pub(super) fn remove(&self) {
        if let Some(path) = self.path() {
            // If it cannot be removed, it is too old at some time.
            let _ = fs::remove_file(path);
        }
    }

    fn path(&self) -> Option<PathBuf> {
        self.name.get().map(|name| self.dir.join(name))
    }
}

/// Changes whenever the file is replaced or written.
fn identity(path: &Path) -> io::Result<String> {
    let file = fs::metadata(path)?;
    Ok(format!("{}:{}:{}:{}.{}", file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}

fn remove_old(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)?.flatten() {
        let age =
            entry.metadata().and_then(|found| found.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > limits::START_RECORD_AGE) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(dir: &Path, name: &str) -> StartRecord {
        StartRecord { dir: dir.join(RECORDS_DIR), name: OnceLock::from(name.to_owned()) }
    }

    fn findings() -> Findings {
        Findings {
            agent_volume: AgentVolume { name: "v".into(), created_at: "2026-01-01T00:00:00Z".into() },
            transport: Transport::Socket,
            disks: Some(DisksProof { sees_devices: true }),
        }
    }

    #[test]
    fn findings_are_read_until_they_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (record, other) = (record(dir.path(), "a"), record(dir.path(), "b"));
        assert_eq!(record.read(), None);
        record.write(&findings());
        assert_eq!(record.read(), Some(findings()));
        assert_eq!(other.read(), None);
        record.remove();
        assert_eq!(record.read(), None);
    }

    #[test]
    fn a_record_that_is_cut_off_or_too_old_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let record = record(dir.path(), "a");
        record.write(&findings());
        let path = record.path().unwrap();
        let old = std::time::SystemTime::now() - limits::START_RECORD_AGE - std::time::Duration::from_secs(1);
        File::open(&path).unwrap().set_modified(old).unwrap();
        assert_eq!(record.read(), None);
        record.write(&findings());
        assert_eq!(record.read(), Some(findings()));
        fs::write(&path, &fs::read(&path).unwrap()[..20]).unwrap();
        assert_eq!(record.read(), None);
    }
}
