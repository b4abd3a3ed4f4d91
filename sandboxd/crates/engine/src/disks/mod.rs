//! Disks: file systems of a fixed size for the workspaces, which make their quota hard.
//!
//! A disk is an ext4 image in a file of one engine volume. A helper container creates and attaches disks, and the
//! engine mounts them as the sandboxes' volumes. So the daemon needs only the engine's socket. The number of a loop
//! device identifies nothing: it is another disk's as soon as the device is released. So a device is only ever
//! named through a link. The link exists only while the helper holds the device, and [`Attached::release`] reports
//! whether the helper held it all the time.

mod attached;
mod bases;
mod connection;
mod helper;
mod names;
mod notes;
mod probe;
mod ready;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::models::VolumeCreateRequest;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

pub use attached::Attached;
pub use bases::BaseUse;
pub use ready::DiskPool;

use self::connection::{Answer, HelperConnection};
use self::helper::DisksSetup;
use self::names::{PROBE_PREFIX, disks_name, probe_name, random_name};
use super::container::absent_is_done;
use super::labels::INSTANCE;
use super::{DiskFault, Engine, Error};
use sandboxd_model::{Disk, UidSlot, limits};

/// Label of the volume of disks.
const LABEL: &str = "sandboxd.disks";

/// Interval between checks whether a disk was released.
const POLL: Duration = Duration::from_millis(20);

/// A disk in the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskUse {
    /// Its name.
    pub name: String,
    /// Space that its image takes in the pool, in bytes.
    pub allocated_bytes: u64,
    /// Whether a device is attached to it, mounted or not.
    pub attached: bool,
    /// Whether it was ever mounted, so that it may contain files of a sandbox.
    pub used: bool,
}

/// Space in the file system of the disks' images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Free space in bytes.
    pub free_bytes: u64,
    /// Total space in bytes.
    pub total_bytes: u64,
}

/// What a test of the disks found on an engine where they work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisksProof {
    /// As [`Disks::sees_devices`].
    pub sees_devices: bool,
}

/// The disks of this installation, cheap to clone.
#[derive(Debug, Clone)]
pub struct Disks {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    setup: DisksSetup,
    mountpoint: String,
    /// Replaced with an empty cell when the connection is broken. The next request then starts a helper.
    helper: Mutex<Arc<OnceCell<Arc<HelperConnection>>>>,
    closed: AtomicBool,
    /// Whether the helper has listed an attached disk as attached.
    sees_devices: AtomicBool,
}

impl Engine {
    /// Starts the helper and tests that disks work on this engine: it creates a disk, attaches it, lets the engine
    /// mount it, and removes it. The error says which step failed.
    pub async fn open_disks(&self, image: &str, agent_volume: &str) -> Result<Disks, Error> {
        let disks = self.untested_disks(image, agent_volume).await?;
        let proved = async {
            self.remove_base_carrier().await?;
            disks.prove().await
        };
        match proved.await {
            Ok(()) => Ok(disks),
            Err(error) => {
                disks.close().await;
                Err(error)
            }
        }
    }

    /// Starts the helper of disks that an earlier test has found to work on this engine.
    pub async fn open_proven_disks(
        &self,
        image: &str,
        agent_volume: &str,
        proof: DisksProof,
    ) -> Result<Disks, Error> {
        let disks = self.untested_disks(image, agent_volume).await?;
        let started = async {
            self.remove_base_carrier().await?;
            // Left by a test that was interrupted.
            self.remove_probe(&probe_name(&self.instance)).await?;
            disks.helper().await
        };
        match started.await {
            Ok(_) => {
                disks.shared.sees_devices.store(proof.sees_devices, Ordering::Relaxed);
                Ok(disks)
            }
            Err(error) => {
                disks.close().await;
                Err(error)
            }
        }
    }

    async fn untested_disks(&self, image: &str, agent_volume: &str) -> Result<Disks, Error> {
        let volume = VolumeCreateRequest {
            name: Some(disks_name(&self.instance)),
            labels: Some([(INSTANCE.into(), self.instance.id().into()), (LABEL.into(), "1".into())].into()),
            ..VolumeCreateRequest::default()
        };
        let create = self.docker.create_volume(volume);
        let volume = self.call("create disks' volume", limits::ENGINE_CALL, create).await?;
        let setup = DisksSetup { image: image.into(), agent_volume: agent_volume.into() };
        let shared = Shared {
            engine: self.clone(),
            setup,
            mountpoint: volume.mountpoint,
            helper: Mutex::default(),
            closed: AtomicBool::new(false),
            sees_devices: AtomicBool::new(false),
        };
        Ok(Disks { shared: Arc::new(shared) })
    }
}

impl Engine {
    /// Tests whether disks work on this engine. Leaves nothing except the agent's volume, which all daemons share.
    pub async fn try_disks(&self, image: &str, agent_program: &Path) -> Result<(), Error> {
        let tried = async {
            let agent_volume = self.ensure_agent_volume(agent_program, None, image).await?;
            self.open_disks(image, &agent_volume.name).await?.close().await;
            Ok(())
        };
        let tried = tried.await;
        tried.and(self.remove_trial().await)
    }

    /// Removes what [`Self::try_disks`] created, also after an interruption. Only for an instance that has nothing
    /// else.
    pub async fn remove_trial(&self) -> Result<(), Error> {
        let name = disks_name(&self.instance);
        let carriers = self.remove_carriers().await;
        let probe = self.remove_probe(&probe_name(&self.instance)).await;
        let helper = self.end_helper(&name).await;
        let remove = self.docker.remove_volume(&name);
        let volume = absent_is_done(self.call("remove disks' volume", limits::ENGINE_CALL, remove).await);
        carriers.and(probe).and(helper).and(volume)
    }
}

impl Disks {
    /// Creates a disk of `mib` MiB. If the caller gives up, the disk is in [`Disks::list`] without an owner.
    pub async fn make(&self, mib: u32) -> Result<Disk, Error> {
        self.make_named(random_name(), mib).await
    }

    async fn make_named(&self, name: String, mib: u32) -> Result<Disk, Error> {
        let call = "make disk";
        let answer = self.ask(call, limits::DISK_MAKE, &name, &format!("make {name} {mib}")).await?;
        Disk::new(&name, &answer.words).map_err(|_| not_understood(call, &name))
    }

    /// Attaches a device to the disk, so that the engine can mount it. Sets the owner of the directories if the
    /// disk was never mounted.
    pub async fn attach(&self, disk: &Disk, owner: UidSlot) -> Result<Attached, Error> {
        let call = "attach disk";
        let name = disk.name();
        let helper = self.helper().await?;
        // First, so that a caller that gives up meanwhile leaves nothing attached.
        let attached = Attached::by(Arc::clone(&helper), name);
        let words = format!("attach {name} {} {}", disk.uuid(), owner.uid());
        match helper.ask(call, limits::DISK_ATTACH, &words).await? {
            Ok(_) => Ok(attached),
            Err(source) => {
                attached.forget();
                Err(Error::Disk { call, name: name.to_owned(), source })
            }
        }
    }

    /// Deletes the disk. Idempotent: succeeds if there is none. Waits for a disk that a sandbox has just released.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        if !Disk::is_name(name) {
            // No disk has such a name.
            return Ok(());
        }
        let deadline = Instant::now() + limits::DISK_RELEASE;
        let words = format!("remove {name}");
        loop {
            match self.ask("remove disk", limits::DISK_CALL, name, &words).await {
                // The kernel removes a mount a moment after its last process.
                Err(Error::Disk { source: DiskFault::Busy, .. }) if Instant::now() < deadline => {
                    sleep(POLL).await;
                }
                other => return other.map(drop),
            }
        }
    }

    /// All disks, whatever their owner.
    pub async fn list(&self) -> Result<Vec<DiskUse>, Error> {
        let call = "list disks";
        let answer = self.ask(call, limits::DISK_CALL, "", "list").await?;
        let uses = answer.lines.iter().map(|line| parse_use(line).ok_or_else(|| not_understood(call, "")));
        uses.collect()
    }

    /// What the test of these disks found.
    pub fn proof(&self) -> DisksProof {
        DisksProof { sees_devices: self.sees_devices() }
    }

    /// Whether a disk that [`Self::list`] reports as not attached is certainly mounted nowhere. It was tested with a disk
    /// that was attached: a machine may not show its devices.
    pub fn sees_devices(&self) -> bool {
        self.shared.sees_devices.load(Ordering::Relaxed)
    }

    /// Space into which the disks can grow.
    pub async fn space(&self) -> Result<Space, Error> {
        let call = "ask for space";
        let answer = self.ask(call, limits::DISK_CALL, "", "space").await?;
        let numbers = answer.words.split_once(' ').and_then(|(free, total)| {
            Some(Space { free_bytes: free.parse().ok()?, total_bytes: total.parse().ok()? })
        });
        numbers.ok_or_else(|| not_understood(call, ""))
    }

    /// The path on the engine's machine of an attached disk: the `device` of its volume.
    pub fn device(&self, disk: &Disk) -> String {
        format!("{}/{}.dev", self.shared.mountpoint, disk.name())
    }

    /// Ends the helper and waits until it is gone. Further requests fail. Mounted disks stay.
    pub async fn close(&self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        let engine = &self.shared.engine;
        if let Err(error) = engine.end_helper(&disks_name(&engine.instance)).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the disks' helper was not seen to end");
        }
    }

    async fn ask(
        &self,
        call: &'static str,
        deadline: Duration,
        name: &str,
        words: &str,
    ) -> Result<Answer, Error> {
        let answer = self.helper().await?.ask(call, deadline, words).await?;
        answer.map_err(|source| Error::Disk { call, name: name.to_owned(), source })
    }

    /// The helper. Starts it if there is none.
    async fn helper(&self) -> Result<Arc<HelperConnection>, Error> {
        let shared = &self.shared;
        if shared.closed.load(Ordering::Relaxed) {
            let source = DiskFault::HelperUnavailable;
            return Err(Error::Disk { call: "start helper", name: String::new(), source });
        }
        let cell = {
            let mut cell = shared.helper.lock().unwrap_or_else(PoisonError::into_inner);
            if cell.get().is_some_and(|helper| helper.is_broken()) {
                *cell = Arc::default();
            }
            Arc::clone(&cell)
        };
        cell.get_or_try_init(|| shared.engine.start_helper(&shared.setup)).await.cloned()
    }
}

fn parse_use(line: &str) -> Option<DiskUse> {
    let words: Vec<&str> = line.split(' ').collect();
    let (name, bytes, attached, used) = match words[..] {
        ["disk", name, bytes, attached, used] => (name, bytes, attached, used),
        // An older agent does not report whether the disk was used; it may contain files.
        ["disk", name, bytes, attached] => (name, bytes, attached, "true"),
        _ => return None,
    };
    Disk::is_name(name).then_some(())?;
    Some(DiskUse {
        name: name.to_owned(),
        allocated_bytes: bytes.parse().ok()?,
        attached: attached.parse().ok()?,
        // The probe's disk was mounted and contains no files of a sandbox.
        used: used.parse::<bool>().ok()? && !name.starts_with(PROBE_PREFIX),
    })
}

fn not_understood(call: &'static str, name: &str) -> Error {
    Error::Disk { call, name: name.to_owned(), source: DiskFault::HelperUnavailable }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_parsed_or_rejected() {
        let read = DiskUse { name: "a".into(), allocated_bytes: 5, attached: true, used: true };
        assert_eq!(parse_use("disk a 5 true true"), Some(read));
        assert!(parse_use("disk a 5 true").is_some_and(|disk| disk.used));
        assert!(parse_use("disk prb_a 5 true true").is_some_and(|probe| !probe.used));
        for line in ["", "disk a 5", "disk a x true true", "disk ../a 5 true true", "disk a 5 true maybe"] {
            assert_eq!(parse_use(line), None, "{line}");
        }
    }
}
