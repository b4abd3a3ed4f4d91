//! The steps that an agent makes to turn its files into those of a snapshot.

use std::collections::VecDeque;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use prost::Message;
use snapshot_format::plan::{Plan, Step};
use snapshot_format::{Content, ContentReader, Hash, Kind, Segment};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::chunks::PackSource;
use crate::model::snapshot::RestoreStep;
use crate::packs::Packs;
use crate::service::{Error, SnapshotError};

/// Bytes of files whose chunks are looked up together.
const BATCH_BYTES: u64 = 8 * 1024 * 1024;

/// Steps that are planned together.
const BATCH_STEPS: usize = 4096;

/// Returns the steps from the files of one tree to those of another. The first one says what the others need.
pub(super) async fn steps(
    packs: &Packs,
    old: Option<&Content>,
    new: &Content,
) -> Result<BoxStream<'static, Result<RestoreStep, Error>>, Error> {
    let needs = needs(packs, old, new).await?;
    let plan = PlanState { plan: Plan::new(PackSource(packs.clone()), old, new)?, file: None };
    let packs = packs.clone();
    let steps = plan_ahead(plan, packs.clone()).map_ok(move |batch| batch.into_steps(&packs)).try_flatten();
    let first = futures::stream::iter([Ok(needs)]);
    Ok(first.chain(steps).boxed())
}

/// Plans the next batch in a task of its own while the steps of the last one are made.
fn plan_ahead(mut plan: PlanState, packs: Packs) -> impl Stream<Item = Result<Batch, Error>> {
    let (sender, batches) = mpsc::channel(1);
    let planning = AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let batch = Batch::plan(&mut plan, &packs).await?;
            if batch.steps.is_empty() || sender.send(batch).await.is_err() {
                return Ok(());
            }
        }
    }));
    futures::stream::try_unfold((batches, planning), |(mut batches, mut planning)| async move {
        if let Some(batch) = batches.recv().await {
            return Ok(Some((batch, (batches, planning))));
        }
        // The steps are complete only if the planning has come to its end.
        (&mut planning).await.map_err(|source| Error::Task { source })?.map(|()| None)
    })
}

/// What the steps need at least: the new files with what they store.
async fn needs(packs: &Packs, old: Option<&Content>, new: &Content) -> Result<RestoreStep, Error> {
    let source = PackSource(packs.clone());
    let mut plan = Plan::new(source.clone(), old, new)?;
    let (mut bytes, mut entries) = (0_u64, 0_u64);
    while let Some(step) = plan.next().await? {
        match step {
            Step::Put(entry) => {
                entries += 1;
                bytes = bytes.saturating_add(stored_bytes(entry.content.as_ref(), &source).await?);
            }
            Step::Enter(_) => entries += 1,
            Step::Remove(_) | Step::Metadata(_) | Step::Leave(_) => {}
        }
    }
    Ok(RestoreStep::Needs { bytes, entries })
}

async fn stored_bytes(content: Option<&Content>, source: &PackSource) -> Result<u64, Error> {
    let Some(content) = content else { return Ok(0) };
    let mut reader = ContentReader::new(content).map_err(snapshot_format::ReadError::Content)?;
    let mut bytes = 0;
    while let Some(segment) = reader.next(source).await? {
        if let Segment::Chunk { length, .. } = segment {
            bytes += length;
        }
    }
    Ok(bytes)
}

/// Steps whose chunks are read together.
#[derive(Default)]
struct Batch {
    steps: VecDeque<Planned>,
    chunks: Vec<Hash>,
}

enum Planned {
    Step(RestoreStep),
    /// The next chunk of the batch.
    Chunk,
}

impl Batch {
    async fn plan(plan: &mut PlanState, packs: &Packs) -> Result<Self, Error> {
        let source = PackSource(packs.clone());
        let mut batch = Self::default();
        let mut bytes = 0;
        while bytes < BATCH_BYTES && batch.steps.len() < BATCH_STEPS {
            if let Some(reader) = &mut plan.file {
                match reader.next(&source).await? {
                    Some(Segment::Chunk { hash, length }) => {
                        batch.chunks.push(hash);
                        batch.steps.push_back(Planned::Chunk);
                        bytes += length;
                    }
                    Some(Segment::Hole { length }) => batch.push(RestoreStep::Hole(length)),
                    None => plan.file = None,
                }
                continue;
            }
            let Some(step) = plan.plan.next().await? else { break };
            plan.file = match &step {
                Step::Put(entry) if entry.kind() == Kind::File => {
                    let content = entry.content.clone().unwrap_or_default();
                    Some(ContentReader::new(&content).map_err(snapshot_format::ReadError::Content)?)
                }
                _ => None,
            };
            bytes += encoded_bytes(&step);
            batch.push(RestoreStep::Change(step));
        }
        Ok(batch)
    }

    fn push(&mut self, step: RestoreStep) {
        self.steps.push_back(Planned::Step(step));
    }

    fn into_steps(self, packs: &Packs) -> BoxStream<'static, Result<RestoreStep, Error>> {
        let chunks = packs.get_many(self.chunks);
        let steps = futures::stream::try_unfold((self.steps, chunks), |(mut steps, mut chunks)| async move {
            let step = match steps.pop_front() {
                None => return Ok(None),
                Some(Planned::Step(step)) => step,
                Some(Planned::Chunk) => match chunks.try_next().await? {
                    Some((_, bytes)) => RestoreStep::Data(bytes),
                    // The stream has one for each chunk, or an error.
                    None => {
                        return Err(SnapshotError::Damaged { source: "a chunk is missing".into() }.into());
                    }
                },
            };
            Ok(Some((step, (steps, chunks))))
        });
        steps.boxed()
    }
}

/// Memory of a step. An entry may have many attributes.
fn encoded_bytes(step: &Step) -> u64 {
    match step {
        Step::Put(entry) | Step::Metadata(entry) | Step::Leave(entry) => entry.encoded_len() as u64,
        Step::Enter(name) | Step::Remove(name) => name.len() as u64,
    }
}

/// The plan, and the file whose bytes come next.
struct PlanState {
    plan: Plan<PackSource>,
    file: Option<ContentReader>,
}
