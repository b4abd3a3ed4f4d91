//! Snapshots: calls to the agent.

use agent_protocol::v1::restore_step::Step as WireStep;
use agent_protocol::v1::snapshots_client::SnapshotsClient;
use agent_protocol::{SNAPSHOTS_SINCE, v1};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use prost::Message;
use sandbox_api::SnapshotId;
use sandboxd_model::limits;
use sandboxd_model::snapshot::{MadeSnapshot, RestoreStep, Restored, SentChunk};
use snapshot_format::plan::Step;
use snapshot_format::{Content, Hash};

use super::command::within;
use super::files::{UploadError, send};
use super::link::LinkService;
use super::{AgentHandle, Error, MAX_ANSWER_BYTES, ORIGIN};

/// Bytes of steps in one message to an agent.
const STEPS_BYTES: usize = 256 * 1024;

/// Maximum number of torn files that are named.
const MAX_TORN: usize = 100;

/// A message of an agent about a snapshot.
#[derive(Debug)]
pub enum SnapshotPart {
    /// Chunks, which are not verified.
    Chunks(Vec<SentChunk>),
    /// The end. Everything was sent.
    End(MadeSnapshot),
}

/// A snapshot as it arrives.
pub type SnapshotStream = BoxStream<'static, Result<SnapshotPart, Error>>;

impl AgentHandle {
    /// Makes a snapshot of the sandbox's files. Chunks of files that have not changed since `parent` are not sent.
    pub async fn make_snapshot(
        &self,
        id: &SnapshotId,
        parent: Option<&SnapshotId>,
        pause: bool,
    ) -> Result<SnapshotStream, Error> {
        let parent = parent.map(ToString::to_string).unwrap_or_default();
        let request = v1::MakeSnapshotRequest { id: id.to_string(), parent, pause };
        let mut client = self.snapshots_client().await?;
        let parts = within(limits::AGENT_CALL, client.make(request)).await?.into_inner();
        let parts = futures::stream::try_unfold(parts, |mut parts| async move {
            let part = within(limits::SNAPSHOT_SILENCE, parts.try_next()).await?;
            Ok(part.map(|part| (part, parts)))
        });
        let read = parts.map(|part| part.and_then(read_part)).map_ok(futures::stream::iter);
        Ok(read.map_ok(|parts| parts.map(Ok)).try_flatten().boxed())
    }

    /// Changes the sandbox's files by the steps, of which the first says what they need. If `steps` fail, the steps
    /// before have been made.
    pub async fn restore<E: Send + 'static>(
        &self,
        steps: BoxStream<'static, Result<RestoreStep, E>>,
    ) -> Result<Restored, UploadError<E>> {
        let mut client = self.snapshots_client().await.map_err(UploadError::Agent)?;
        let end = Ok(v1::RestoreStep { step: Some(WireStep::End(true)) });
        let steps = steps.map_ok(wire_step).chain(futures::stream::iter([end]));
        let reply = send(messages(steps.boxed()), |parts| async move { client.restore(parts).await }.boxed());
        let v1::RestoreReply { written, removed } = reply.await?;
        Ok(Restored { written, removed })
    }

    async fn snapshots_client(&self) -> Result<SnapshotsClient<LinkService>, Error> {
        let link = self.current(limits::AGENT_ABSENCE).await?;
        if link.generation < SNAPSHOTS_SINCE {
            return Err(Error::Outdated);
        }
        Ok(SnapshotsClient::with_origin(link.service, ORIGIN.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES)
            .max_encoding_message_size(agent_protocol::MAX_MESSAGE_BYTES))
    }
}

fn read_part(part: v1::SnapshotPart) -> Result<Vec<SnapshotPart>, Error> {
    let chunks: Result<Vec<SentChunk>, Error> = part.chunks.into_iter().map(read_chunk).collect();
    let mut parts = vec![SnapshotPart::Chunks(chunks?)];
    if let Some(end) = part.end {
        parts.push(SnapshotPart::End(read_end(end)?));
    }
    Ok(parts)
}

fn read_chunk(chunk: v1::SnapshotChunk) -> Result<SentChunk, Error> {
    let hash = Hash::from_slice(&chunk.hash).ok_or(Error::Malformed { missing: "name of a chunk" })?;
    Ok(SentChunk { hash, length: chunk.length, data: chunk.data })
}

fn read_end(end: v1::SnapshotEnd) -> Result<MadeSnapshot, Error> {
    let root = Content::decode(end.root).map_err(|_| Error::Malformed { missing: "root of the snapshot" })?;
    let torn =
        end.torn.iter().take(MAX_TORN).map(|path| String::from_utf8_lossy(path).into_owned()).collect();
    Ok(MadeSnapshot {
        root,
        files: end.files,
        directories: end.directories,
        bytes: end.bytes,
        torn,
        torn_files: end.torn_files,
        paused: end.paused,
    })
}

fn wire_step(step: RestoreStep) -> v1::RestoreStep {
    let encoded = |entry: &snapshot_format::Entry| Bytes::from(entry.encode_to_vec());
    let step = match step {
        RestoreStep::Needs { bytes, entries } => WireStep::Needs(v1::RestoreNeeds { bytes, entries }),
        RestoreStep::Change(Step::Enter(name)) => WireStep::Enter(name),
        RestoreStep::Change(Step::Remove(name)) => WireStep::Remove(name),
        RestoreStep::Change(Step::Put(entry)) => WireStep::Entry(encoded(&entry)),
        RestoreStep::Change(Step::Metadata(entry)) => WireStep::Metadata(encoded(&entry)),
        RestoreStep::Change(Step::Leave(entry)) => WireStep::Leave(encoded(&entry)),
        RestoreStep::Data(data) => WireStep::Data(data),
        RestoreStep::Hole(length) => WireStep::Hole(length),
    };
    v1::RestoreStep { step: Some(step) }
}

/// Joins steps to messages of limited size. What is ready is not held back for more.
fn messages<E: Send + 'static>(
    steps: BoxStream<'static, Result<v1::RestoreStep, E>>,
) -> BoxStream<'static, Result<v1::RestorePart, E>> {
    futures::stream::try_unfold(steps, |mut source| async move {
        let Some(first) = source.try_next().await? else { return Ok(None) };
        let mut bytes = first.encoded_len();
        let mut steps = vec![first];
        while bytes < STEPS_BYTES {
            let Some(next) = source.try_next().now_or_never() else { break };
            let Some(step) = next? else { break };
            bytes += step.encoded_len();
            steps.push(step);
        }
        Ok(Some((v1::RestorePart { steps }, source)))
    })
    .boxed()
}
