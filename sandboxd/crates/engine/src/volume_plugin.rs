//! The volume plugin: installs this version of it, and removes versions that no volume needs.
//!
//! A plugin has no labels. Its name has the instance and a digest of its program and configuration. So two versions
//! run side by side: a volume stays with the plugin that it was created with, and the engine removes no plugin that has
//! a volume.

use std::collections::HashMap;
use std::path::Path;

use bollard::query_parameters::{
    CreatePluginOptions, DisablePluginOptions, EnablePluginOptions, ListPluginsOptions,
};
use bytes::Bytes;
use sandboxd_model::limits;
use serde_json::Value;

use crate::container::absent_is_done;
use crate::tar::Archive;
use crate::{Engine, Error};

/// Name of the file in the plugin's root directory that makes it unique. An engine rejects a root directory whose
/// content another plugin has.
const UNIQUE: &str = "unique";

/// Number of random bytes in it.
const UNIQUE_BYTES: usize = 16;

/// Time limit of the engine for a request to the plugin, in seconds. A mount may replay the journal of a disk.
const REQUEST_SECONDS: i32 = 60;

/// A plugin that the engine has.
struct Installed {
    name: String,
    is_enabled: bool,
}

impl Engine {
    /// Installs the volume plugin `program` for the disks in `disks`, a directory of the engine's machine, and starts
    /// it. Returns its name, which is the driver of its volumes. Idempotent.
    pub async fn ensure_volume_plugin(&self, program: &Path, disks: &Path) -> Result<String, Error> {
        let (name, program, config) = self.read_volume_plugin(program, disks).await?;
        let installed = self.volume_plugins().await?.into_iter().find(|plugin| plugin.name == name);
        match installed {
            Some(Installed { is_enabled: true, .. }) => return Ok(name),
            Some(_) => {}
            None => {
                let options = CreatePluginOptions { name: name.clone() };
                let body = archive(&program, &config);
                let create = self.docker.create_plugin(options, body);
                self.call("create volume plugin", limits::ENGINE_CALL, create).await?;
            }
        }
        if let Err(error) = self.enable_volume_plugin(&name).await {
            // The first error is reported. A plugin that has volumes is kept, because only it can mount them.
            let _ = self.remove_volume_plugin(&name).await;
            return Err(error);
        }
        Ok(name)
    }

    /// Starts an installed version of this instance's plugin. Does nothing if it is not installed, or runs.
    pub(crate) async fn start_volume_plugin(&self, name: &str) -> Result<(), Error> {
        let installed = self.volume_plugins().await?;
        match installed.into_iter().find(|plugin| plugin.name == name) {
            Some(Installed { is_enabled: false, .. }) => self.enable_volume_plugin(name).await,
            Some(_) | None => Ok(()),
        }
    }

    /// Ends the process of a version of this instance's plugin and starts another one. Containers keep the volumes that
    /// they have mounted. Does nothing if it is not installed.
    pub(crate) async fn restart_volume_plugin(&self, name: &str) -> Result<(), Error> {
        let installed = self.volume_plugins().await?.into_iter().find(|plugin| plugin.name == name);
        let Some(plugin) = installed else { return Ok(()) };
        if plugin.is_enabled {
            absent_is_done(self.disable_volume_plugin(name, true).await)?;
        }
        self.enable_volume_plugin(name).await
    }

    /// Stops a plugin. With `force`, also one that has volumes.
    async fn disable_volume_plugin(&self, name: &str, force: bool) -> Result<(), Error> {
        let disable = self.docker.disable_plugin(name, DisablePluginOptions { force: Some(force) });
        self.call("stop volume plugin", limits::ENGINE_CALL, disable).await
    }

    async fn enable_volume_plugin(&self, name: &str) -> Result<(), Error> {
        let options = EnablePluginOptions { timeout: REQUEST_SECONDS };
        let enable = self.docker.enable_plugin(name, options);
        self.call("start volume plugin", limits::ENGINE_CALL, enable).await
    }

    /// The name of this version of the plugin, installed or not.
    pub(crate) async fn volume_plugin_name(&self, program: &Path, disks: &Path) -> Result<String, Error> {
        Ok(self.read_volume_plugin(program, disks).await?.0)
    }

    /// The name of this version of the plugin, with its program and configuration.
    async fn read_volume_plugin(
        &self,
        program: &Path,
        disks: &Path,
    ) -> Result<(String, Vec<u8>, Value), Error> {
        let read = tokio::fs::read(program).await;
        let program =
            read.map_err(|source| Error::VolumePluginProgram { path: program.to_owned(), source })?;
        let config = volume_plugin::config(disks);
        let name = format!("{}{}", self.volume_plugin_prefix(), volume_plugin::tag(&program, &config));
        Ok((name, program, config))
    }

    /// Removes the versions of this instance's plugin that `is_needed` does not name, unless they have volumes. Returns
    /// the names of those that have.
    pub async fn remove_old_volume_plugins(
        &self,
        is_needed: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, Error> {
        let mut kept = Vec::new();
        for plugin in self.volume_plugins().await? {
            if is_needed(&plugin.name) {
                continue;
            }
            let removed = async {
                if plugin.is_enabled {
                    absent_is_done(self.disable_volume_plugin(&plugin.name, false).await)?;
                }
                self.remove_volume_plugin(&plugin.name).await
            };
            match removed.await {
                Ok(()) => {}
                // It has volumes.
                Err(Error::Conflict { .. }) => kept.push(plugin.name),
                Err(error) => return Err(error),
            }
        }
        Ok(kept)
    }

    async fn remove_volume_plugin(&self, name: &str) -> Result<(), Error> {
        let remove = self.docker.remove_plugin(name);
        match self.call("remove volume plugin", limits::ENGINE_CALL, remove).await {
            // An engine may answer with an empty body instead of the removed plugin's description.
            Err(error @ Error::Malformed { .. }) => {
                let is_gone = self.volume_plugins().await?.iter().all(|plugin| plugin.name != name);
                if is_gone { Ok(()) } else { Err(error) }
            }
            other => absent_is_done(other.map(drop)),
        }
    }

    /// All versions of this instance's plugin.
    async fn volume_plugins(&self) -> Result<Vec<Installed>, Error> {
        let filters = HashMap::from([("capability".to_owned(), vec!["volumedriver".to_owned()])]);
        let list = self.docker.list_plugins(ListPluginsOptions { filters: Some(filters) });
        let plugins = self.call("list volume plugins", limits::ENGINE_CALL, list).await?;
        let prefix = self.volume_plugin_prefix();
        let ours = plugins.into_iter().filter(|plugin| plugin.name.starts_with(&prefix));
        Ok(ours.map(|plugin| Installed { name: plugin.name, is_enabled: plugin.enabled }).collect())
    }

    fn volume_plugin_prefix(&self) -> String {
        format!("{}-{}:", volume_plugin::PROGRAM, self.instance.id())
    }
}

/// The directory of a plugin in the engine's format: `config.json`, and the root directory with only the program.
fn archive(program: &[u8], config: &Value) -> Bytes {
    let mut unique = [0; UNIQUE_BYTES];
    getrandom::fill(&mut unique).expect("the kernel has randomness");
    let mut archive = Archive::new();
    let written = archive
        .file("config.json", 0o644, config.to_string().as_bytes())
        .and_then(|()| archive.dir("rootfs", 0o755, 0))
        .and_then(|()| archive.file(format!("rootfs/{}", volume_plugin::PROGRAM), 0o755, program))
        .and_then(|()| archive.file(format!("rootfs/{UNIQUE}"), 0o444, &unique))
        .and_then(|()| {
            let mut names = volume_plugin::DIRECTORIES.into_iter();
            names.try_for_each(|name| archive.dir(&format!("rootfs/{name}"), 0o700, 0))
        });
    written.and_then(|()| archive.finish()).expect("memory takes every write")
}
