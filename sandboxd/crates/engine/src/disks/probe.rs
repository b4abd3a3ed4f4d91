//! The proof that disks work on this engine: a disk is created and the engine mounts it.

use std::collections::HashMap;

use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType, MountVolumeOptions};
use bollard::query_parameters::{ContainerArchiveInfoOptions, CreateContainerOptions, RemoveVolumeOptions};

use super::Disks;
use super::names::{probe_name, random_probe_name};
use crate::container::absent_is_done;
use crate::labels::INSTANCE;
use crate::settings::disk_driver;
use crate::{Engine, Error};
use sandboxd_model::layout::{LOCAL_DIR, VOLUME_DIR};
use sandboxd_model::{UidSlot, limits};

/// Size of the probe's disk.
const PROBE_MIB: u32 = 16;

impl Disks {
    /// Creates, attaches, mounts, releases and removes a disk. After a failure, only what the next proof removes is
    /// left.
    pub(super) async fn prove(&self) -> Result<(), Error> {
        let engine = &self.shared.engine;
        let name = probe_name(&engine.instance);
        // Left by a start that was interrupted.
        engine.remove_probe(&name).await?;
        let disk = self.make_named(random_probe_name(), PROBE_MIB).await?;
        let mounted = async {
            let attached = self.attach(&disk, UidSlot::LAST).await?;
            let mounted = engine.mount_probe(&name, &self.setup_image(), self.device(&disk)).await;
            let removed = engine.remove_probe(&name).await;
            mounted.and(attached.release().await).and(removed)
        };
        let mounted = mounted.await;
        let removed = self.remove(disk.name()).await;
        mounted.and(removed)
    }

    fn setup_image(&self) -> String {
        self.shared.setup.image.clone()
    }
}

impl Engine {
    /// Lets the engine look up a directory that only the disk has. The container is never started.
    async fn mount_probe(&self, name: &str, image: &str, device: String) -> Result<(), Error> {
        let labels = HashMap::from([(INSTANCE.to_owned(), self.instance.id().to_owned())]);
        let mount = Mount {
            typ: Some(MountType::VOLUME),
            source: Some(name.into()),
            target: Some(VOLUME_DIR.into()),
            volume_options: Some(MountVolumeOptions {
                no_copy: Some(true),
                labels: Some(labels.clone()),
                driver_config: Some(disk_driver(device)),
                ..MountVolumeOptions::default()
            }),
            ..Mount::default()
        };
        let body = ContainerCreateBody {
            image: Some(image.into()),
            entrypoint: Some(vec!["/never-started".into()]),
            network_disabled: Some(true),
            labels: Some(labels),
            host_config: Some(HostConfig {
                mounts: Some(vec![mount]),
                network_mode: Some("none".into()),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let options = CreateContainerOptions { name: Some(name.into()), ..Default::default() };
        let create = self.docker.create_container(Some(options), body);
        self.call("create disk's probe", limits::ENGINE_CALL, create).await?;
        // An image may contain a workspace, but not this directory.
        let look = ContainerArchiveInfoOptions { path: LOCAL_DIR.into() };
        let look = self.docker.get_container_archive_info(name, Some(look));
        self.call("mount disk", limits::ENGINE_CALL, look).await.map(drop)
    }

    pub(super) async fn remove_probe(&self, name: &str) -> Result<(), Error> {
        self.remove_container(name).await?;
        let remove = self.docker.remove_volume(name, None::<RemoveVolumeOptions>);
        absent_is_done(self.call("remove disk's probe", limits::ENGINE_CALL, remove).await)
    }
}
