//! Bases: read-only images in the volume of disks. The engine writes them, and the disks' helper completes them.

use std::io;
use std::path::Path;

use bollard::models::MountVolumeOptions;
use bollard::query_parameters::UploadToContainerOptions;
use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use super::names::{base_carrier_name, disks_name};
use super::{Disks, not_understood};
use crate::carrier::volume_mount;
use crate::{Engine, Error, tar};
use sandboxd_model::{Lower, limits};

/// Mount point of the disks' volume in the carrier.
const DISKS_DIR: &str = "/disks";

/// Size of the reads of an image.
const READ_BYTES: usize = 256 * 1024;

/// A base on the engine's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUse {
    /// Its name.
    pub name: String,
    /// Space that its image takes, in bytes.
    pub allocated_bytes: u64,
    /// When it was made, in seconds since 1970.
    pub made_s: i64,
}

impl Engine {
    /// Removes what an interrupted upload left.
    pub(super) async fn remove_base_carrier(&self) -> Result<(), Error> {
        self.remove_container(&base_carrier_name(&self.instance)).await
    }

    async fn upload_base(&self, carrier: &str, name: &str, image: File, bytes: u64) -> Result<(), Error> {
        let options = UploadToContainerOptions { path: DISKS_DIR.into(), ..Default::default() };
        let head = tar::head(format!("{name}.erofs.new"), 0o400, bytes).expect("memory takes every write");
        let once = |bytes: Bytes| stream::iter([Ok::<_, io::Error>(bytes)]);
        let archive = once(head)
            .chain(ReaderStream::with_capacity(image, READ_BYTES))
            .chain(once(Bytes::from(tar::tail(bytes))));
        // The client's own limit is that of other calls.
        let docker = self.docker.with_timeout(limits::BASE_UPLOAD);
        let upload = docker.stream_to_container(carrier, options, archive.boxed());
        self.call("upload base", limits::BASE_UPLOAD, upload).await
    }
}

impl Disks {
    /// Installs the volume plugin `program` for these disks. Returns the name of its driver. Idempotent.
    pub async fn ensure_volume_plugin(&self, program: &Path) -> Result<String, Error> {
        self.shared.engine.ensure_volume_plugin(program, Path::new(&self.shared.mountpoint)).await
    }

    /// Starts a version of the volume plugin that is installed. Does nothing if it is not.
    pub async fn start_volume_plugin(&self, driver: &str) -> Result<(), Error> {
        self.shared.engine.start_volume_plugin(driver).await
    }

    /// Ends the process of a version of the volume plugin and starts another one. Does nothing if it is not installed.
    pub async fn restart_volume_plugin(&self, driver: &str) -> Result<(), Error> {
        self.shared.engine.restart_volume_plugin(driver).await
    }

    /// The driver of this version of the volume plugin, installed or not.
    pub async fn volume_plugin(&self, program: &Path) -> Result<String, Error> {
        self.shared.engine.volume_plugin_name(program, Path::new(&self.shared.mountpoint)).await
    }

    /// Removes other versions of the volume plugin, unless they have volumes, or `is_needed` names them.
    pub async fn remove_old_volume_plugins(
        &self,
        program: &Path,
        is_needed: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        let current = self.volume_plugin(program).await?;
        let kept = |name: &str| name == current || is_needed(name);
        self.shared.engine.remove_old_volume_plugins(kept).await.map(drop)
    }

    /// Writes a base of `bytes` bytes that does not exist. Only one call at a time may run. After an error it may exist, or
    /// come to exist, or a part of it may be left: [`Self::remove_base`] removes either.
    pub async fn put_base(&self, name: &str, image: File, bytes: u64) -> Result<(), Error> {
        let engine = &self.shared.engine;
        let carrier = base_carrier_name(&engine.instance);
        engine.remove_base_carrier().await?;
        let mount = volume_mount(&disks_name(&engine.instance), DISKS_DIR, MountVolumeOptions::default());
        engine.create_carrier("create base carrier", &carrier, &self.shared.setup.image, mount).await?;
        let uploaded = engine.upload_base(&carrier, name, image, bytes).await;
        let removed = engine.remove_base_carrier().await;
        uploaded.and(removed)?;
        let words = format!("base {name} {bytes}");
        self.ask("complete base", limits::BASE_COMPLETE, name, &words).await.map(drop)
    }

    /// All complete bases.
    pub async fn bases(&self) -> Result<Vec<BaseUse>, Error> {
        let call = "list bases";
        let answer = self.ask(call, limits::DISK_CALL, "", "bases").await?;
        answer.lines.iter().map(|line| parse_use(line).ok_or_else(|| not_understood(call, ""))).collect()
    }

    /// Deletes a base. Idempotent. No disk over it can be mounted any more.
    pub async fn remove_base(&self, name: &str) -> Result<(), Error> {
        self.ask("remove base", limits::DISK_CALL, name, &format!("remove-base {name}")).await.map(drop)
    }
}

fn parse_use(line: &str) -> Option<BaseUse> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["base", name, bytes, made_s] = words[..] else { return None };
    Lower::is_base(name).then_some(())?;
    Some(BaseUse {
        name: name.to_owned(),
        allocated_bytes: bytes.parse().ok()?,
        made_s: made_s.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_parsed_or_rejected() {
        let name = "0f".repeat(32);
        let read = BaseUse { name: name.clone(), allocated_bytes: 5, made_s: -1 };
        assert_eq!(parse_use(&format!("base {name} 5 -1")), Some(read));
        for line in ["", "base 0f 5 1", &format!("base {name} 5"), &format!("base {name} -5 1")] {
            assert_eq!(parse_use(line), None, "{line}");
        }
    }
}
