//! Labels of a sandbox's container and volume, which the daemon reads back after a restart.
//!
//! The engine's labels say what exists, but anyone who can start a container can write labels. Ours are signed with
//! the instance's key over every value and the sandbox's id. Labels that do not verify are not ours.
//!
//! A sandbox that was started before a session wanted it has labels without a session key. Its disk then has a note with the
//! labels that it would have otherwise.

use std::collections::HashMap;
use std::time::Duration;

use sandbox_api::{SandboxId, StringMap};

use sandboxd_model::{
    Disk, Instance, NetworkMode, NetworkPolicy, Owner, POOL_KEY, Runtime, SandboxSpec, Transport, UidSlot,
};

/// The instance id. The daemon must not touch an object with another value, or without one.
pub(super) const INSTANCE: &str = "sandboxd.instance";

pub(super) const SANDBOX_ID: &str = "remcochat.sandboxId";
pub(super) const SESSION_KEY: &str = "remcochat.sessionKey";
pub(super) const RUNTIME: &str = "remcochat.runtime";
pub(super) const PORTS: &str = "remcochat.ports";
pub(super) const NETWORK_MODE: &str = "remcochat.networkMode";

/// Label of a network.
pub(super) const SYSTEM: &str = "remcochat.system";

/// Label of a publisher: the sandbox's port. A container with this label is not a sandbox.
pub(super) const PROXY_PORT: &str = "remcochat.proxyPort";

const UID: &str = "sandboxd.uid";
const IDLE_TTL_MS: &str = "sandboxd.idleTtlMs";
const RESOURCES: &str = "sandboxd.resources";
const TRANSPORT: &str = "sandboxd.transport";
const IMAGE: &str = "sandboxd.image";
const METADATA: &str = "sandboxd.metadata";
const DISK: &str = "sandboxd.disk";
const ALLOW: &str = "sandboxd.allow";
const PROJECT: &str = "sandboxd.project";
const SUBJECT: &str = "sandboxd.subject";
const SIGNATURE: &str = "sandboxd.signature";

/// The signed labels, in this order.
const SIGNED: [&str; 16] = [
    SANDBOX_ID,
    SESSION_KEY,
    RUNTIME,
    PORTS,
    NETWORK_MODE,
    INSTANCE,
    UID,
    IDLE_TTL_MS,
    RESOURCES,
    TRANSPORT,
    IMAGE,
    METADATA,
    DISK,
    ALLOW,
    PROJECT,
    SUBJECT,
];

/// Signed labels that a sandbox may lack, beside the session key.
const OPTIONAL: [&str; 6] = [IMAGE, METADATA, DISK, ALLOW, PROJECT, SUBJECT];

/// A sandbox according to its labels: everything except its environment, which may be confidential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxLabels {
    /// Id of the sandbox.
    pub id: SandboxId,
    /// Slot of its user id.
    pub slot: UidSlot,
    /// How the daemon connects to its agent.
    pub transport: Transport,
    /// Disk of the workspace. `None` means a plain volume without a quota.
    pub disk: Option<Disk>,
    /// Specification of the sandbox.
    pub spec: SandboxSpec,
}

impl SandboxLabels {
    /// Whether the container and the volume with these labels were created before a session wanted them. The specification
    /// is then that of the pool.
    pub fn is_pooled(&self) -> bool {
        self.spec.session_key.as_str() == POOL_KEY
    }

    /// The text of a note with these labels.
    pub(super) fn to_note(&self, instance: &Instance) -> Vec<u8> {
        serde_json::to_vec(&self.to_map(instance)).expect("a map of texts is JSON")
    }

    /// Length of the note with these labels, in bytes.
    pub fn note_bytes(&self, instance: &Instance) -> usize {
        self.to_note(instance).len()
    }

    /// The labels to write.
    pub fn to_map(&self, instance: &Instance) -> HashMap<String, String> {
        let spec = &self.spec;
        let ports: Vec<String> = spec.ports.iter().map(u16::to_string).collect();
        let mut labels: HashMap<String, String> = [
            (SANDBOX_ID, self.id.to_string()),
            (SESSION_KEY, spec.session_key.to_string()),
            (RUNTIME, spec.runtime.as_str().to_owned()),
            (PORTS, ports.join(",")),
            (NETWORK_MODE, spec.network.mode.as_str().to_owned()),
            (INSTANCE, instance.id().to_owned()),
            (UID, self.slot.uid().to_string()),
            (IDLE_TTL_MS, spec.idle_ttl.as_millis().to_string()),
            (RESOURCES, spec.resources.to_string()),
            (TRANSPORT, self.transport.as_str().to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let metadata = (!spec.metadata.is_empty()).then(|| serde_json::to_string(&spec.metadata).ok());
        let allow = (!spec.network.allow.is_empty()).then(|| spec.network.allow_texts().join(" "));
        let disk = self.disk.as_ref().map(ToString::to_string);
        let project = &spec.owner.project;
        let project = (!project.is_default()).then(|| project.to_string());
        let subject = spec.owner.subject.as_ref().map(ToString::to_string);
        let optional = [spec.image.clone(), metadata.flatten(), disk, allow, project, subject];
        let optional = OPTIONAL.into_iter().zip(optional);
        labels.extend(optional.filter_map(|(name, value)| Some((name.to_owned(), value?))));
        if self.is_pooled() {
            labels.remove(SESSION_KEY);
        }
        labels.insert(SIGNATURE.to_owned(), instance.sign(&signed_text(&labels)));
        labels
    }

    /// Reads labels back. `None` if some are missing, or they are not signed by `instance`.
    pub fn from_map(labels: &HashMap<String, String>, instance: &Instance) -> Option<Self> {
        let text = |name: &str| labels.get(name).map(String::as_str);
        if text(SIGNATURE)? != instance.sign(&signed_text(labels)) || text(INSTANCE)? != instance.id() {
            return None;
        }
        let ports = text(PORTS)?;
        let ports: Result<Vec<u16>, _> =
            ports.split(',').filter(|port| !port.is_empty()).map(str::parse).collect();
        let metadata = text(METADATA).map(serde_json::from_str).transpose();
        let allow: Vec<String> =
            text(ALLOW).into_iter().flat_map(|rules| rules.split(' ')).map(str::to_owned).collect();
        let owner = Owner {
            project: text(PROJECT).map(str::parse).transpose().ok()?.unwrap_or_default(),
            subject: text(SUBJECT).map(str::parse).transpose().ok()?,
        };
        let mode = NetworkMode::parse(text(NETWORK_MODE)?, NETWORK_MODE).ok()?;
        Some(Self {
            id: text(SANDBOX_ID)?.parse().ok()?,
            slot: slot_of(labels)?,
            transport: Transport::parse(text(TRANSPORT)?)?,
            disk: text(DISK).map(str::parse).transpose().ok()?,
            spec: SandboxSpec {
                owner,
                session_key: text(SESSION_KEY).unwrap_or(POOL_KEY).parse().ok()?,
                runtime: text(RUNTIME)?.parse::<Runtime>().ok()?,
                idle_ttl: Duration::from_millis(text(IDLE_TTL_MS)?.parse().ok()?),
                resources: text(RESOURCES)?.parse().ok()?,
                network: NetworkPolicy::from_texts(mode, &allow)?,
                ports: ports.ok()?,
                image: text(IMAGE).map(str::to_owned),
                metadata: metadata.ok()?.unwrap_or_default(),
                env: StringMap::new(),
                secret_env: Vec::new(),
                checkpoints: None,
            },
        })
    }
}

/// The slot of a container's user id, signed or not.
pub(super) fn slot_of(labels: &HashMap<String, String>) -> Option<UidSlot> {
    UidSlot::of_uid(labels.get(UID)?.parse().ok()?)
}

/// Every value, preceded by its length, so that different sets of labels have different texts.
fn signed_text(labels: &HashMap<String, String>) -> String {
    SIGNED
        .iter()
        .filter_map(|name| {
            let value = labels.get(*name)?;
            Some(format!("{name}={}:{value}\n", value.len()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> SandboxLabels {
        SandboxLabels {
            id: "sbx_0123456789abcdef".parse().unwrap(),
            slot: UidSlot::of_uid(20_003).unwrap(),
            transport: Transport::Socket,
            disk: Some(Disk::new("dsk_1", "3f2504e0-4f89-41d3-9a0c-0305e82c3301").unwrap()),
            spec: SandboxSpec {
                owner: Owner { project: "lab".parse().unwrap(), subject: Some("ann".parse().unwrap()) },
                runtime: Runtime::Python313,
                image: Some("other:1".into()),
                ports: vec![3000, 8080],
                metadata: [("owner".to_owned(), "me, you".to_owned())].into(),
                network: NetworkPolicy::from_texts(
                    NetworkMode::Allowlist,
                    &["*.example.com:8443".into(), "[2606:4700::1]:443".into()],
                )
                .unwrap(),
                ..SandboxSpec::new("chat:1".parse().unwrap())
            },
        }
    }

    #[test]
    fn labels_survive_a_round_trip() {
        let instance = Instance::new([7; 32]);
        let map = labels().to_map(&instance);
        assert_eq!(SandboxLabels::from_map(&map, &instance), Some(labels()));
        assert_eq!(map["remcochat.sessionKey"], "chat:1");
    }

    #[test]
    fn absent_values_have_no_label() {
        let instance = Instance::new([7; 32]);
        let plain =
            SandboxLabels { disk: None, spec: SandboxSpec::new("chat:1".parse().unwrap()), ..labels() };
        let map = plain.to_map(&instance);
        assert!(OPTIONAL.iter().all(|name| !map.contains_key(*name)));
        assert_eq!(SandboxLabels::from_map(&map, &instance), Some(plain));
    }

    #[test]
    fn a_sandbox_that_waits_has_no_session_key() {
        let instance = Instance::new([7; 32]);
        let waiting = SandboxLabels { spec: SandboxSpec::new(POOL_KEY.parse().unwrap()), ..labels() };
        let map = waiting.to_map(&instance);
        assert!(!map.contains_key(SESSION_KEY));
        assert_eq!(SandboxLabels::from_map(&map, &instance), Some(waiting));
        assert!(!labels().is_pooled());
    }

    #[test]
    fn a_changed_label_or_another_key_does_not_verify() {
        let instance = Instance::new([7; 32]);
        let map = labels().to_map(&instance);
        assert_eq!(SandboxLabels::from_map(&map, &Instance::new([8; 32])), None);
        for name in SIGNED {
            let mut forged = map.clone();
            forged.insert(name.to_owned(), "forged".to_owned());
            assert_eq!(SandboxLabels::from_map(&forged, &instance), None, "{name}");
            forged.remove(name);
            assert_eq!(SandboxLabels::from_map(&forged, &instance), None, "without {name}");
        }
    }
}
