//! Carriers: containers that are never started, through which the engine mounts a volume and writes files into it.

use std::collections::HashMap;

use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType, MountVolumeOptions};
use bollard::query_parameters::CreateContainerOptions;

use crate::labels::INSTANCE;
use crate::{Engine, Error};
use sandboxd_model::limits;

/// A mount of a volume, without the files of the image below it.
pub(crate) fn volume_mount(volume: &str, target: &str, options: MountVolumeOptions) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(volume.into()),
        target: Some(target.into()),
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..options }),
        ..Mount::default()
    }
}

impl Engine {
    /// Creates a carrier. `call` names the call in errors.
    pub(crate) async fn create_carrier(
        &self,
        call: &'static str,
        name: &str,
        image: &str,
        mount: Mount,
    ) -> Result<(), Error> {
        let body = ContainerCreateBody {
            image: Some(image.into()),
            entrypoint: Some(vec!["/never-started".into()]),
            network_disabled: Some(true),
            labels: Some(HashMap::from([(INSTANCE.into(), self.instance.id().into())])),
            host_config: Some(HostConfig {
                mounts: Some(vec![mount]),
                network_mode: Some("none".into()),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let options = CreateContainerOptions { name: Some(name.into()), ..Default::default() };
        let create = self.docker.create_container(options, body);
        self.call(call, limits::ENGINE_CALL, create).await.map(drop)
    }
}
