//! Tests whether disks work on this engine: creates a disk and lets the engine mount it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use bollard::models::{MountVolumeOptions, MountVolumeOptionsDriverConfig};
use bollard::query_parameters::ContainerArchiveInfoOptions;

use super::Disks;
use super::names::{probe_name, random_probe_name};
use crate::carrier::volume_mount;
use crate::container::absent_is_done;
use crate::labels::INSTANCE;
use crate::settings::{base_driver, disk_driver};
use crate::{Engine, Error};
use sandboxd_model::layout::{LOCAL_DIR, VOLUME_DIR};
use sandboxd_model::{Disk, Lower, UidSlot, limits};

/// Size of the probe's disk.
const PROBE_MIB: u32 = 16;

impl Disks {
    /// Creates, attaches, mounts, releases and removes a disk. After a failure, only what the next proof removes is
    /// left.
    pub(super) async fn prove(&self) -> Result<(), Error> {
        self.prove_mount(|disk| disk_driver(self.device(disk))).await
    }

    /// Like [`Self::prove`], with a disk over a base that exists.
    pub async fn prove_base(&self, lower: &Lower) -> Result<(), Error> {
        self.prove_mount(|disk| base_driver(disk, lower, UidSlot::LAST)).await
    }

    async fn prove_mount(
        &self,
        driver: impl FnOnce(&Disk) -> MountVolumeOptionsDriverConfig,
    ) -> Result<(), Error> {
        let engine = &self.shared.engine;
        let name = probe_name(&engine.instance);
        // Left by a start that was interrupted.
        engine.remove_probe(&name).await?;
        let disk = self.make_named(random_probe_name(), PROBE_MIB).await?;
        let mounted = async {
            let attached = self.attach(&disk, UidSlot::LAST).await?;
            let is_seen = self.list().await?.iter().any(|found| found.name == disk.name() && found.attached);
            self.shared.sees_devices.store(is_seen, Ordering::Relaxed);
            let mounted = engine.mount_probe(&name, &self.shared.setup.image, driver(&disk)).await;
            let removed = engine.remove_probe(&name).await;
            mounted.and(attached.release().await).and(removed)
        };
        let mounted = mounted.await;
        let removed = self.remove(disk.name()).await;
        mounted.and(removed)
    }
}

impl Engine {
    /// Lets the engine look up a directory that only the disk has. The container is never started.
    async fn mount_probe(
        &self,
        name: &str,
        image: &str,
        driver: MountVolumeOptionsDriverConfig,
    ) -> Result<(), Error> {
        let labels = HashMap::from([(INSTANCE.to_owned(), self.instance.id().to_owned())]);
        let options = MountVolumeOptions {
            labels: Some(labels),
            driver_config: Some(driver),
            ..MountVolumeOptions::default()
        };
        let mount = volume_mount(name, VOLUME_DIR, options);
        self.create_carrier("create disk's probe", name, image, mount).await?;
        // An image may contain a workspace, but not this directory.
        let look = ContainerArchiveInfoOptions { path: LOCAL_DIR.into() };
        let look = self.docker.get_container_archive_info(name, look);
        self.call("mount disk", limits::ENGINE_CALL, look).await.map(drop)
    }

    pub(super) async fn remove_probe(&self, name: &str) -> Result<(), Error> {
        self.remove_container(name).await?;
        let remove = self.docker.remove_volume(name);
        absent_is_done(self.call("remove disk's probe", limits::ENGINE_CALL, remove).await)
    }
}
