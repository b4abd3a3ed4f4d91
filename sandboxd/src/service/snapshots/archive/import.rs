//! Makes a snapshot of a file. The file is not trusted until it was read to its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use prost::Message;
use sandbox_api::{SandboxId, SnapshotId};
use snapshot_format::archive::{Header, Totals, Visit, Walk, WalkError};
use snapshot_format::{ChunkSource, Content, ContentReader, Entry, ReadError, Segment};

use super::super::Snapshots;
use super::super::receive::is_root_known;
use super::super::values::{self, ValueReader};
use super::incoming::{Incoming, IncomingError};
use crate::model::snapshot::is_name;
use crate::model::{Owner, SnapshotRecord, SnapshotState, limits};
use crate::packs::Finished;
use crate::service::clock::now_ms;
use crate::service::{Error, SnapshotError};

/// How a file is imported.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Whom the snapshot belongs to.
    pub owner: Owner,
    /// Display name. `None` keeps the name in the file.
    pub name: Option<String>,
    /// Time after which the snapshot is deleted. `None` is never.
    pub ttl: Option<Duration>,
}

/// Why a file was not imported.
#[derive(Debug)]
pub enum ImportFailed<E> {
    /// The service failed, or the file is not valid.
    Service(Error),
    /// The file could not be received.
    Source(E),
}

impl<E> From<Error> for ImportFailed<E> {
    fn from(error: Error) -> Self {
        Self::Service(error)
    }
}

/// A fault of a file as a whole.
#[derive(Debug, thiserror::Error)]
enum Rejected {
    #[error("its name has more than {} characters, or control characters", limits::MAX_SNAPSHOT_NAME)]
    Name,
    #[error("its time is not valid")]
    Time,
    #[error("no snapshot has {0:?} in its root")]
    Root(String),
}

impl Snapshots {
    /// Makes a snapshot of a file that was exported, here or elsewhere. It belongs to no sandbox. If the file is rejected, a
    /// later collection removes its chunks.
    pub async fn import<E: Send + 'static>(
        &self,
        content: BoxStream<'static, Result<Bytes, E>>,
        options: ImportOptions,
    ) -> Result<SnapshotRecord, ImportFailed<E>> {
        let permit = Arc::clone(&self.imports).try_acquire_owned();
        let _permit = permit.map_err(|_| busy())?;
        self.check_room().await?;
        self.quotas.check_storable(&options.owner.project).map_err(Error::from)?;
        let received = self.storage.while_space_lasts(self.receive_file(content)).await;
        if received.is_err() {
            // Of the chunks that are stored.
            self.was_deleted.store(true, Ordering::Relaxed);
        }
        let (header, totals, finished) = received?;
        let expires = options.ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
        let record = imported(options.owner, &header, totals, &finished)?;
        let record = SnapshotRecord {
            name: options.name.or(header.name),
            expires_at_ms: expires.map(|ttl| now_ms().saturating_add(ttl)),
            ..record
        };
        self.add_record(&record, finished.lease).await?;
        Ok(record)
    }

    /// Receives a file and stores its chunks.
    async fn receive_file<E: Send + 'static>(
        &self,
        content: BoxStream<'static, Result<Bytes, E>>,
    ) -> Result<(Header, Totals, Finished), ImportFailed<E>> {
        let incoming = Incoming::new(self.packs.packs().await?, content).map_err(Error::from)?;
        match receive_tree(&incoming).await {
            Ok((header, totals)) => {
                let finished = incoming.seal().await.map_err(Error::from)?;
                Ok((header, totals, finished))
            }
            Err(Stopped::Source) => Err(match incoming.into_cause() {
                Some(cause) => ImportFailed::Source(cause),
                None => {
                    Error::Snapshot(SnapshotError::ImportRejected { source: Box::new(IncomingError::Source) })
                        .into()
                }
            }),
            Err(Stopped::Failed(error)) => Err(error.into()),
        }
    }
}

/// Why the file was not received to its end.
pub(super) enum Stopped {
    Source,
    Failed(Error),
}

pub(super) async fn receive_tree<E: Send + 'static>(
    incoming: &Incoming<E>,
) -> Result<(Header, Totals), Stopped> {
    let header = incoming.header().await?;
    check(&header)?;
    let mut walk = Walk::new(&header.root).map_err(rejected)?;
    while let Some(visit) = walk.next(incoming).await? {
        match visit {
            Visit::Entry { path, entry } => check_root(&path, &entry)?,
            Visit::Segment(Segment::Chunk { hash, length }) => incoming.data(hash, length).await?,
            Visit::Segment(Segment::Hole { .. }) => {}
        }
    }
    if let Some(values) = &header.values {
        receive_values(incoming, values).await?;
    }
    incoming.finish().await?;
    Ok((header, walk.totals()))
}

/// Receives the values, and checks that they are within the limits of values.
async fn receive_values<E: Send + 'static>(incoming: &Incoming<E>, values: &Content) -> Result<(), Stopped> {
    let mut reader = ValueReader::new(values)?;
    let mut segments = ContentReader::new(values).map_err(rejected)?;
    while let Some(segment) = segments.next(incoming).await? {
        let (hash, length) = reader.chunk(segment)?;
        reader.push(&incoming.chunk(hash, length).await?, drop)?;
    }
    reader.finish()?;
    Ok(())
}

fn check(header: &Header) -> Result<(), Stopped> {
    if header.name.as_deref().is_some_and(|name| !is_name(name)) {
        return Err(rejected(Rejected::Name));
    }
    if header.created_at_ms < 0 { Err(rejected(Rejected::Time)) } else { Ok(()) }
}

fn check_root(path: &[u8], entry: &Entry) -> Result<(), Stopped> {
    match is_root_known(path, entry) {
        true => Ok(()),
        false => Err(rejected(Rejected::Root(String::from_utf8_lossy(path).into_owned()))),
    }
}

/// The record of an imported snapshot, without its name. It gets the id of a sandbox that does not exist: as a snapshot of an existing one,
/// the sandbox could read its chunks by naming them.
fn imported(
    owner: Owner,
    header: &Header,
    totals: Totals,
    finished: &Finished,
) -> Result<SnapshotRecord, Error> {
    let random = |source| Error::Randomness { source };
    Ok(SnapshotRecord {
        id: SnapshotId::random().map_err(random)?,
        sandbox: SandboxId::random().map_err(random)?,
        owner,
        session_key: None,
        name: None,
        // The clock of the other daemon may be ahead.
        created_at_ms: header.created_at_ms.min(now_ms()),
        expires_at_ms: None,
        root: header.root.encode_to_vec(),
        values: header.values.as_ref().map(Message::encode_to_vec),
        parent: None,
        size_bytes: totals.size_bytes,
        new_bytes: finished.new_bytes,
        files: totals.files,
        automatic: false,
        command: None,
        state: SnapshotState::Complete,
    })
}

fn busy() -> Error {
    Error::Snapshot(SnapshotError::Busy { what: "imports", max: limits::MAX_IMPORTS })
}

fn rejected(source: impl std::error::Error + Send + Sync + 'static) -> Stopped {
    Stopped::Failed(Error::Snapshot(SnapshotError::ImportRejected { source: Box::new(source) }))
}

impl From<IncomingError> for Stopped {
    fn from(error: IncomingError) -> Self {
        match error {
            IncomingError::Source => Self::Source,
            IncomingError::OverLimit(over) => Self::Failed(over.into()),
            IncomingError::Packs(error) => Self::Failed(error.into()),
            IncomingError::Task(source) => Self::Failed(Error::Task { source }),
            error @ (IncomingError::Invalid(_)
            | IncomingError::Corrupt(_)
            | IncomingError::Unexpected { .. }
            | IncomingError::Missing(_)
            | IncomingError::Length(_)
            | IncomingError::Unused) => rejected(error),
        }
    }
}

impl From<ReadError<IncomingError>> for Stopped {
    fn from(error: ReadError<IncomingError>) -> Self {
        match error {
            ReadError::Chunk(error) => error.into(),
            error @ (ReadError::Content(_) | ReadError::Tree(_)) => rejected(error),
        }
    }
}

impl From<values::Rejected> for Stopped {
    fn from(error: values::Rejected) -> Self {
        rejected(error)
    }
}

impl From<WalkError<IncomingError>> for Stopped {
    fn from(error: WalkError<IncomingError>) -> Self {
        match error {
            WalkError::Read { error: ReadError::Chunk(error), .. } => error.into(),
            WalkError::OverLimit(over) => Self::Failed(over.into()),
            error @ (WalkError::Read { .. } | WalkError::TooDeep { .. } | WalkError::BrokenLink { .. }) => {
                rejected(error)
            }
        }
    }
}
