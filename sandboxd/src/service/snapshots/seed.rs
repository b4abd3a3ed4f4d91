//! New sandboxes with the files and values of a snapshot.
//!
//! Sandboxes share the files of a large snapshot: its tree becomes a base once, and each sandbox stores only what it
//! changes. A small snapshot, or one on an engine without bases, is restored file by file.

use std::io::{self, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use sandbox_api::SnapshotId;
use sandboxd_bases::{BaseName, Builder};
use snapshot_format::Content;
use tokio::io::AsyncSeekExt;

use super::chunks::PackSource;
use super::pins::Pin;
use super::values::{SnapshotValues, values_of};
use super::{Snapshots, root_of, steps};
use crate::agent::{AgentHandle, UploadError};
use crate::model::{Refusal, Resource, SandboxSpec, SnapshotRecord, limits};
use crate::packs::Packs;
use crate::service::Authorized;
use crate::service::Error;
use crate::service::lifecycle::{Beginning, Changes, Reconnected, Sandbox, Seed};
use crate::service::storage::{BaseImage, BaseSource, ImageError};

/// Unit of a file's allocated size (stat(2), `st_blocks`).
const BLOCK_BYTES: u64 = 512;

/// The files and values of a snapshot, which is not deleted meanwhile.
#[derive(Debug)]
pub(super) struct SnapshotSeed {
    packs: Packs,
    state_dir: PathBuf,
    root: Content,
    values: (SnapshotValues, Option<Content>),
    is_large: bool,
    _pin: Pin,
}

impl Seed for SnapshotSeed {
    fn base(&self) -> Option<&dyn BaseSource> {
        self.is_large.then_some(self)
    }

    fn fill<'a>(&'a self, agent: &'a AgentHandle) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            let steps = steps::steps(&self.packs, None, &self.root).await?;
            agent.restore(steps).await.map(drop).map_err(upload_error)
        }
        .boxed()
    }

    fn keep_values<'a>(&'a self, sandbox: &'a Sandbox) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            let (values, content) = &self.values;
            match content {
                Some(content) if content.size > 0 => {
                    values.give(sandbox, values.load(&self.packs, content).await?).await
                }
                _ => Ok(()),
            }
        }
        .boxed()
    }
}

/// The files of a snapshot that cannot be used. A create fails that needs them.
#[derive(Debug)]
struct NoSeed(Mutex<Option<Error>>);

impl Seed for NoSeed {
    fn base(&self) -> Option<&dyn BaseSource> {
        None
    }

    fn fill<'a>(&'a self, _agent: &'a AgentHandle) -> BoxFuture<'a, Result<(), Error>> {
        let error = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A create fills its sandbox once.
        let error = error.unwrap_or_else(|| Refusal::NotFound(Resource::Snapshot).into());
        async { Err(error) }.boxed()
    }

    fn keep_values<'a>(&'a self, _sandbox: &'a Sandbox) -> BoxFuture<'a, Result<(), Error>> {
        async { Ok(()) }.boxed()
    }
}

impl BaseSource for SnapshotSeed {
    fn name(&self) -> String {
        BaseName::of(&self.root).to_string()
    }

    fn read(&self) -> BoxFuture<'_, Result<Option<Box<dyn BaseImage>>, ImageError>> {
        async move {
            match Builder::read(PackSource(self.packs.clone()), &self.root).await {
                Ok(builder) => {
                    // Before other bases make room for it.
                    check_space(&self.state_dir, builder.size())?;
                    let image = SnapshotImage { builder, state_dir: self.state_dir.clone() };
                    Ok(Some(Box::new(image) as Box<dyn BaseImage>))
                }
                Err(sandboxd_bases::Error::Invalid(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        }
        .boxed()
    }
}

/// The image of a snapshot's tree.
struct SnapshotImage {
    builder: Builder<PackSource>,
    state_dir: PathBuf,
}

impl BaseImage for SnapshotImage {
    fn bytes(&self) -> u64 {
        self.builder.size()
    }

    /// The file has no name, and is in the state dir.
    fn write(&self) -> BoxFuture<'_, Result<Option<tokio::fs::File>, ImageError>> {
        async move {
            let bytes = self.bytes();
            let file = tempfile::tempfile_in(&self.state_dir)?;
            self.builder.write(&file).await?;
            file.set_len(bytes)?;
            let holes = bytes.saturating_sub(file.metadata()?.blocks() * BLOCK_BYTES);
            if holes > limits::MAX_BASE_HOLES {
                return Ok(None);
            }
            let mut file = tokio::fs::File::from_std(file);
            file.seek(SeekFrom::Start(0)).await?;
            Ok(Some(file))
        }
        .boxed()
    }
}

/// Keeps free space in the file system of the state dir for everything else.
fn check_space(state_dir: &Path, bytes: u64) -> io::Result<()> {
    let space = rustix::fs::statvfs(state_dir)?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free < bytes.saturating_add(limits::TIGHT_SPACE_BYTES) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(())
}

/// Whether sandboxes share the files of a snapshot. A base costs a mount, and few files are written as fast.
fn is_large(record: &SnapshotRecord) -> bool {
    record.files >= limits::MIN_BASE_FILES || record.size_bytes >= limits::MIN_BASE_BYTES
}

pub(super) fn upload_error(error: UploadError<Error>) -> Error {
    match error {
        UploadError::Agent(error) => error.into(),
        UploadError::Source(error) => error,
    }
}

impl Snapshots {
    /// Returns the sandbox of a session, like [`crate::service::Lifecycle::create_or_reconnect`]. A new one has the files and
    /// values of the snapshot before it accepts requests. An existing one does not need the snapshot, so `snapshot` may be the reason
    /// why it cannot be used.
    pub async fn create(
        &self,
        spec: SandboxSpec,
        changes: &Changes,
        snapshot: Result<Authorized<SnapshotId>, Error>,
    ) -> Result<Reconnected, Error> {
        let seed = match snapshot {
            Ok(snapshot) => self.seed(&snapshot).await,
            Err(error) => Err(error),
        };
        self.create_with(spec, changes, seed, false).await
    }

    /// As [`Self::create`]. A new sandbox may be [tentative](Beginning::is_tentative).
    pub(super) async fn create_with(
        &self,
        spec: SandboxSpec,
        changes: &Changes,
        seed: Result<SnapshotSeed, Error>,
        is_tentative: bool,
    ) -> Result<Reconnected, Error> {
        let seed: Arc<dyn Seed> = match seed {
            Ok(seed) => Arc::new(seed),
            // The session's sandbox does not need the snapshot.
            Err(error) if self.lifecycle.has_session(&spec.owner, &spec.session_key) => {
                Arc::new(NoSeed(Mutex::new(Some(error))))
            }
            Err(error) => return Err(error),
        };
        let beginning = Beginning { seed: Some(seed), is_tentative };
        self.lifecycle.create_or_reconnect_with(spec, changes, beginning).await
    }

    pub(super) async fn seed(&self, snapshot: &SnapshotId) -> Result<SnapshotSeed, Error> {
        let (record, pin) = self.pinned(snapshot).await?;
        Ok(SnapshotSeed {
            packs: self.packs.packs().await?.clone(),
            state_dir: self.state_dir.clone(),
            root: root_of(&record)?,
            values: (self.values.clone(), values_of(&record)?),
            is_large: is_large(&record),
            _pin: pin,
        })
    }
}
