//! Volumes that identify the engine: a marker, created once per instance, and one epoch per start.
//!
//! Docker keeps its own id outside the data root, so the id does not change when another data root is mounted. A
//! volume is in the data root, beside the workspaces. The labels of a volume cannot be changed, so each start
//! creates a new epoch. The highest number belongs to the daemon that may act.

use std::collections::HashMap;

use bollard::models::{Volume, VolumeCreateRequest};
use bollard::query_parameters::ListVolumesOptions;

use super::container::absent_is_done;
use super::labels::INSTANCE;
use super::{Engine, Error, SandboxLabels};
use sandboxd_model::layout::volume_name;
use sandboxd_model::limits;

const MARKER: &str = "sandboxd.marker";
const EPOCH: &str = "sandboxd.epoch";
const OWNER: &str = "sandboxd.owner";
const HOLDER: &str = "sandboxd.holder";
const SIGNATURE: &str = "sandboxd.signature";

/// The start of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// Higher than the numbers of all earlier starts.
    pub number: u64,
    /// A random word of the daemon that created the epoch.
    pub owner: String,
    /// Distinguishes the state dir of that daemon from a copy.
    pub holder: String,
}

/// All volumes with our instance id, at one moment.
#[derive(Debug, Default)]
pub struct Volumes {
    /// The volumes of sandboxes, with our names and signatures.
    pub sandboxes: Vec<SandboxLabels>,
    /// The random word of the marker.
    pub marker: Option<String>,
    /// Epochs in the order of their numbers.
    pub epochs: Vec<Epoch>,
}

impl Volumes {
    /// The epoch of the newest owner.
    pub fn newest(&self) -> Option<&Epoch> {
        self.epochs.last()
    }
}

impl Engine {
    /// Lists our volumes in one call, so that marker, epochs and workspaces are from the same engine.
    pub async fn volumes(&self) -> Result<Volumes, Error> {
        let label = format!("{INSTANCE}={}", self.instance.id());
        let options =
            ListVolumesOptions { filters: Some(HashMap::from([("label".to_owned(), vec![label])])) };
        let list = self.docker.list_volumes(options);
        let listed = self.call("list volumes", limits::ENGINE_CALL, list).await?.volumes.unwrap_or_default();
        let mut volumes = Volumes::default();
        for volume in listed {
            if let Some(marker) = self.marker_of(&volume) {
                volumes.marker = Some(marker);
            } else if let Some(epoch) = self.epoch_of(&volume) {
                volumes.epochs.push(epoch);
            } else if let Some(labels) = self.sandbox_of(&volume) {
                volumes.sandboxes.push(labels);
            }
        }
        volumes.epochs.sort_by_key(|epoch| epoch.number);
        Ok(volumes)
    }

    /// The engine's own id; empty if it has none.
    pub async fn id(&self) -> Result<String, Error> {
        let info = self.call("info", limits::ENGINE_CALL, self.docker.info()).await?;
        Ok(info.id.unwrap_or_default())
    }

    /// Creates the marker. The engine keeps an existing one.
    pub async fn make_marker(&self, word: &str) -> Result<(), Error> {
        let labels = [(MARKER, word.to_owned()), (SIGNATURE, self.sign(MARKER, word))];
        self.make_labelled(&self.marker_name(), labels.into()).await
    }

    /// Creates an epoch. If two daemons create the same number, the engine keeps the first: list the volumes to see
    /// whose it is.
    pub async fn make_epoch(&self, epoch: &Epoch) -> Result<(), Error> {
        let Epoch { number, owner, holder } = epoch;
        let signature = self.sign(EPOCH, &epoch_text(epoch));
        let labels = [
            (EPOCH, number.to_string()),
            (OWNER, owner.clone()),
            (HOLDER, holder.clone()),
            (SIGNATURE, signature),
        ];
        self.make_labelled(&self.epoch_name(*number), labels.into()).await
    }

    /// Removes an epoch. Idempotent: succeeds if there is none.
    pub async fn remove_epoch(&self, number: u64) -> Result<(), Error> {
        let name = self.epoch_name(number);
        let remove = self.docker.remove_volume(&name);
        absent_is_done(self.call("remove epoch", limits::ENGINE_CALL, remove).await)
    }

    /// Prefix of the names of our epochs.
    pub(super) fn epoch_prefix(&self) -> String {
        format!("sandboxd-epoch-{}-", self.instance.id())
    }

    fn epoch_name(&self, number: u64) -> String {
        format!("{}{number}", self.epoch_prefix())
    }

    fn marker_name(&self) -> String {
        format!("sandboxd-marker-{}", self.instance.id())
    }

    async fn make_labelled(&self, name: &str, labels: HashMap<&str, String>) -> Result<(), Error> {
        let mut labels: HashMap<String, String> =
            labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        labels.insert(INSTANCE.to_owned(), self.instance.id().to_owned());
        let request = VolumeCreateRequest {
            name: Some(name.to_owned()),
            labels: Some(labels),
            ..VolumeCreateRequest::default()
        };
        let create = self.docker.create_volume(request);
        self.call("create marker", limits::ENGINE_CALL, create).await.map(drop)
    }

    fn sign(&self, purpose: &str, text: &str) -> String {
        self.instance.sign(&format!("{purpose}={}:{text}", text.len()))
    }

    fn marker_of(&self, volume: &Volume) -> Option<String> {
        let word = volume.labels.get(MARKER)?;
        let signed = volume.labels.get(SIGNATURE) == Some(&self.sign(MARKER, word));
        (signed && volume.name == self.marker_name()).then(|| word.clone())
    }

    fn epoch_of(&self, volume: &Volume) -> Option<Epoch> {
        let text = |name: &str| volume.labels.get(name).cloned();
        let epoch = Epoch { number: text(EPOCH)?.parse().ok()?, owner: text(OWNER)?, holder: text(HOLDER)? };
        let signed = text(SIGNATURE)? == self.sign(EPOCH, &epoch_text(&epoch));
        (signed && volume.name == self.epoch_name(epoch.number)).then_some(epoch)
    }

    fn sandbox_of(&self, volume: &Volume) -> Option<SandboxLabels> {
        let labels = SandboxLabels::from_map(&volume.labels, &self.instance)?;
        (volume.name == volume_name(&labels.id)).then_some(labels)
    }
}

fn epoch_text(Epoch { number, owner, holder }: &Epoch) -> String {
    format!("{number} {owner} {holder}")
}
