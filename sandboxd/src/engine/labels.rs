//! What we write on a sandbox's container and volume, and read back after a restart.
//!
//! The engine's labels say what exists, but anyone who can start a container can write labels. Ours are
//! signed with the instance's key over every value and the sandbox's id; what does not verify is not ours.

use std::collections::HashMap;
use std::time::Duration;

use sandbox_api::SandboxId;

use crate::model::{Instance, NetworkMode, Runtime, SandboxSpec, SessionKey, Transport, UidSlot};

/// Carries the instance id; what has another value or none is not ours to touch.
pub(super) const INSTANCE: &str = "sandboxd.instance";

const SANDBOX_ID: &str = "remcochat.sandboxId";
const SESSION_KEY: &str = "remcochat.sessionKey";
const RUNTIME: &str = "remcochat.runtime";
const PORTS: &str = "remcochat.ports";
const NETWORK_MODE: &str = "remcochat.networkMode";
const UID: &str = "sandboxd.uid";
const IDLE_TTL_MS: &str = "sandboxd.idleTtlMs";
const RESOURCES: &str = "sandboxd.resources";
const TRANSPORT: &str = "sandboxd.transport";
const SIGNATURE: &str = "sandboxd.signature";

/// What is signed, in this order.
const SIGNED: [&str; 10] =
    [SANDBOX_ID, SESSION_KEY, RUNTIME, PORTS, NETWORK_MODE, INSTANCE, UID, IDLE_TTL_MS, RESOURCES, TRANSPORT];

/// A sandbox as its labels tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxLabels {
    /// Its id.
    pub id: SandboxId,
    /// Its user id's slot.
    pub slot: UidSlot,
    /// How its agent is reached.
    pub transport: Transport,
    /// What it was made from.
    pub spec: SandboxSpec,
}

impl SandboxLabels {
    /// The labels to write.
    pub fn to_map(&self, instance: &Instance) -> HashMap<String, String> {
        let spec = &self.spec;
        let ports: Vec<String> = spec.ports.iter().map(u16::to_string).collect();
        let mut labels: HashMap<String, String> = [
            (SANDBOX_ID, self.id.to_string()),
            (SESSION_KEY, spec.session_key.to_string()),
            (RUNTIME, spec.runtime.as_str().to_owned()),
            (PORTS, ports.join(",")),
            (NETWORK_MODE, spec.network.as_str().to_owned()),
            (INSTANCE, instance.id().to_owned()),
            (UID, self.slot.uid().to_string()),
            (IDLE_TTL_MS, spec.idle_ttl.as_millis().to_string()),
            (RESOURCES, spec.resources.to_string()),
            (TRANSPORT, self.transport.as_str().to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        labels.insert(SIGNATURE.to_owned(), instance.sign(&signed_text(&labels)));
        labels
    }

    /// Reads labels back; `None` where they are not all there or not signed by `instance`.
    pub fn from_map(labels: &HashMap<String, String>, instance: &Instance) -> Option<Self> {
        let text = |name: &str| labels.get(name).map(String::as_str);
        if text(SIGNATURE)? != instance.sign(&signed_text(labels)) || text(INSTANCE)? != instance.id() {
            return None;
        }
        let ports = text(PORTS)?;
        let ports: Result<Vec<u16>, _> =
            ports.split(',').filter(|port| !port.is_empty()).map(str::parse).collect();
        Some(Self {
            id: text(SANDBOX_ID)?.parse().ok()?,
            slot: UidSlot::of_uid(text(UID)?.parse().ok()?)?,
            transport: Transport::parse(text(TRANSPORT)?)?,
            spec: SandboxSpec {
                session_key: SessionKey::parse(text(SESSION_KEY)?, SESSION_KEY).ok()?,
                runtime: text(RUNTIME)?.parse::<Runtime>().ok()?,
                idle_ttl: Duration::from_millis(text(IDLE_TTL_MS)?.parse().ok()?),
                resources: text(RESOURCES)?.parse().ok()?,
                network: NetworkMode::parse(text(NETWORK_MODE)?, NETWORK_MODE).ok()?,
                ports: ports.ok()?,
            },
        })
    }
}

/// Every value with its length before it, so that no two sets of labels are the same text.
fn signed_text(labels: &HashMap<String, String>) -> String {
    SIGNED
        .iter()
        .map(|name| {
            let value = labels.get(*name).map_or("", String::as_str);
            format!("{name}={}:{value}\n", value.len())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Resources;

    fn labels() -> SandboxLabels {
        SandboxLabels {
            id: "sbx_0123456789abcdef".parse().unwrap(),
            slot: UidSlot::of_uid(20_003).unwrap(),
            transport: Transport::Socket,
            spec: SandboxSpec {
                session_key: SessionKey::parse("chat:1", "k").unwrap(),
                runtime: Runtime::Python313,
                idle_ttl: Duration::from_secs(900),
                resources: Resources::new(Some(1), Some(512), None).unwrap(),
                network: NetworkMode::None,
                ports: vec![3000, 8080],
            },
        }
    }

    #[test]
    fn labels_read_back_as_they_were_written() {
        let instance = Instance::new([7; 32]);
        let map = labels().to_map(&instance);
        assert_eq!(SandboxLabels::from_map(&map, &instance), Some(labels()));
        assert_eq!(map["remcochat.sessionKey"], "chat:1");
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
