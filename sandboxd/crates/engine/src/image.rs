//! The sandbox image: its presence, and its build if it is missing.

use std::collections::HashMap;

use bollard::query_parameters::{BuildImageOptions, CreateImageOptions};
use bytes::Bytes;
use futures::TryStreamExt;
use sha2::{Digest, Sha256};
use tokio::time::timeout;
use tracing::{info, warn};

use super::base_image::LOCAL_BASE;
use super::progress::drain;
use super::tar::Archive;
use super::{Engine, Error};
use sandboxd_model::{ImageSource, limits};

/// Base of the build if a registry can be reached.
const PUBLIC_BASE: &str = "node:24-trixie-slim";

/// Folder of the image below [`ImageSource::folder`].
const IMAGE_FOLDER: &str = "node24";

/// Label with the checksum of the Dockerfile that an image was built from. It is not one of our labels, because
/// containers inherit it.
const SOURCE_LABEL: &str = "org.opencontainers.image.revision";

/// Path of the certificate bundle for the build, in the image's folder.
const BUILD_CA: &str = "build-ca/ca.crt";

/// SHA-256 of the Dockerfile, as in [`SOURCE_LABEL`]. `scripts/lib/image.sh` compares it too.
fn revision_of(source: &ImageSource) -> Result<String, Error> {
    let path = source.folder.join(IMAGE_FOLDER).join("Dockerfile");
    let file = std::fs::read(&path).map_err(|source| Error::ImageFolder { path, source })?;
    Ok(Sha256::digest(file).iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Engine {
    /// Whether an existing image was built from this source. False for an image without the label.
    pub async fn is_built_from(&self, tag: &str, source: &ImageSource) -> Result<bool, Error> {
        let image = self.call("inspect image", limits::ENGINE_CALL, self.docker.inspect_image(tag)).await?;
        let labels = image.config.and_then(|config| config.labels).unwrap_or_default();
        Ok(labels.get(SOURCE_LABEL) == Some(&revision_of(source)?))
    }

    /// Whether the engine has the image.
    pub async fn has_image(&self, tag: &str) -> Result<bool, Error> {
        match self.call("inspect image", limits::ENGINE_CALL, self.docker.inspect_image(tag)).await {
            Ok(_) => Ok(true),
            Err(Error::Absent { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The engine's id of an image.
    pub async fn image_id(&self, tag: &str) -> Result<String, Error> {
        let image = self.call("inspect image", limits::ENGINE_CALL, self.docker.inspect_image(tag)).await?;
        Ok(image.id.unwrap_or_else(|| tag.to_owned()))
    }

    /// Pulls an image from its registry.
    pub async fn pull(&self, tag: &str) -> Result<(), Error> {
        // A digest needs no tag. Neither does a reference with a tag after its last slash.
        let (name, version) = match tag.rsplit_once(':') {
            Some((name, version)) if !version.contains('/') && !tag.contains('@') => (name, Some(version)),
            _ => (tag, (!tag.contains('@')).then_some("latest")),
        };
        let options = CreateImageOptions {
            from_image: Some(name.to_owned()),
            tag: version.map(str::to_owned),
            ..Default::default()
        };
        info!(image = tag, "pulling an image");
        let docker = self.docker.with_timeout(limits::IMAGE_PULL);
        let pull = timeout(limits::IMAGE_PULL, drain(docker.create_image(options, None)));
        match pull.await {
            Ok(pulled) => pulled.map_err(|source| Error::from_call("pull image", &self.address, source)),
            Err(_) => Err(Error::Deadline { call: "pull image", after: limits::IMAGE_PULL }),
        }
    }

    /// Builds the image. This takes minutes; the progress is logged.
    pub async fn build_image(&self, tag: &str, source: &ImageSource) -> Result<(), Error> {
        let base = self.choose_base(source).await?;
        info!(image = tag, base, "building the sandbox image; this takes a few minutes");
        let context = self.build_context(source)?;
        let options = BuildImageOptions {
            t: Some(tag.to_owned()),
            labels: Some(HashMap::from([(SOURCE_LABEL.to_owned(), revision_of(source)?)])),
            buildargs: Some(HashMap::from([("BASE_IMAGE".to_owned(), base)])),
            rm: true,
            forcerm: true,
            ..Default::default()
        };
        let docker = self.docker.with_timeout(limits::IMAGE_BUILD);
        let mut output = docker.build_image(options, context);
        while let Some(line) = output
            .try_next()
            .await
            .map_err(|source| Error::from_call("build image", &self.address, source))?
        {
            if let Some(error) = line.error_detail.and_then(|detail| detail.message) {
                return Err(Error::ImageBuild { last_words: error });
            }
            if let Some(text) = line.stream.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
                info!(target: "sandboxd::image_build", "{text}");
            }
        }
        info!(image = tag, "the sandbox image is built");
        Ok(())
    }

    fn build_context(&self, source: &ImageSource) -> Result<Bytes, Error> {
        let folder = source.folder.join(IMAGE_FOLDER);
        let mut archive = Archive::new();
        let written = archive.tree(&folder).and_then(|()| match &source.build_ca {
            Some(bundle) => archive.file(BUILD_CA, 0o644, &std::fs::read(bundle)?),
            None => Ok(()),
        });
        written.and_then(|()| archive.finish()).map_err(|source| Error::ImageFolder { path: folder, source })
    }

    /// The public base if it can be pulled, otherwise a local one built from Debian's packages.
    async fn choose_base(&self, source: &ImageSource) -> Result<String, Error> {
        match self.pull(PUBLIC_BASE).await {
            Ok(()) => return Ok(PUBLIC_BASE.to_owned()),
            Err(error) => warn!(
                base = PUBLIC_BASE,
                error = &error as &dyn std::error::Error,
                "the public base image cannot be pulled; using one made of Debian's packages",
            ),
        }
        if !self.has_image(LOCAL_BASE).await? {
            self.make_base(&source.folder).await?;
        }
        Ok(LOCAL_BASE.to_owned())
    }
}
