//! The state of a call that waits for the user, which its client holds.
//!
//! A client can send back anything. So the state is authenticated, expires, and is valid only for the same call of the
//! same caller.

use std::time::Duration;

use rmcp::model::{RequestStateCodec, RequestStateError, SealOptions};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use toolbox::{Namespace, Resume};
use uuid::Uuid;

/// Time that the user has to answer.
const LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Seals and opens states.
#[derive(Clone)]
pub(crate) struct Seal(RequestStateCodec);

/// The call that a state is valid for.
pub(crate) struct Binding([u8; 32]);

impl Binding {
    pub(crate) fn new(
        namespace: &Namespace,
        session: Option<&str>,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Self {
        let mut digest = Sha256::new();
        for part in [namespace.as_str(), session.unwrap_or_default(), tool] {
            add_text(&mut digest, part);
        }
        add_object(&mut digest, arguments);
        Self(digest.finalize().into())
    }
}

fn add_text(digest: &mut Sha256, text: &str) {
    digest.update((text.len() as u64).to_be_bytes());
    digest.update(text);
}

/// Adds the fields of an object in the order of their names, because a client may send them in another order.
fn add_object(digest: &mut Sha256, fields: &Map<String, Value>) {
    digest.update(b"{");
    digest.update((fields.len() as u64).to_be_bytes());
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    for (name, value) in fields {
        add_text(digest, name);
        add_value(digest, value);
    }
}

fn add_value(digest: &mut Sha256, value: &Value) {
    match value {
        Value::Object(fields) => add_object(digest, fields),
        Value::Array(items) => {
            digest.update(b"[");
            digest.update((items.len() as u64).to_be_bytes());
            items.iter().for_each(|item| add_value(digest, item));
        }
        Value::String(text) => {
            digest.update(b"\"");
            add_text(digest, text);
        }
        // Numbers, booleans and null are short, and their texts differ from each other.
        other => {
            digest.update(b"=");
            add_text(digest, &other.to_string());
        }
    }
}

impl Seal {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self(RequestStateCodec::new_unchecked(key))
    }

    /// With a key that only this process has.
    pub(crate) fn random() -> Self {
        let mut key = [0; 32];
        let (one, other) = key.split_at_mut(16);
        one.copy_from_slice(Uuid::new_v4().as_bytes());
        other.copy_from_slice(Uuid::new_v4().as_bytes());
        Self::new(key)
    }

    pub(crate) fn close(&self, resume: &Resume, binding: &Binding) -> String {
        let json = serde_json::to_vec(resume).expect("a state has string keys and numbers");
        self.0.seal_with(&json, &SealOptions::new().associated_data(&binding.0).ttl(LIFETIME))
    }

    pub(crate) fn open(&self, state: &str, binding: &Binding) -> Result<Resume, RequestStateError> {
        let json = self.0.open_with(state, &binding.0)?;
        serde_json::from_slice(&json).map_err(RequestStateError::Deserialization)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding(user: &str, tool: &str, arguments: &Value) -> Binding {
        let namespace = Namespace::for_user("token", user).unwrap();
        Binding::new(&namespace, Some("chat"), tool, arguments.as_object().unwrap())
    }

    #[test]
    fn a_state_is_valid_only_for_its_call() {
        let seal = Seal::new([1; 32]);
        let resume = Resume {
            sandbox: "sbx_0123456789abcdef".parse().unwrap(),
            command: "cmd_0123456789abcdef".parse().unwrap(),
            position: 7,
            questions: Vec::new(),
        };
        let arguments = json!({ "command": "ls", "env": { "A": "1", "B": "2" } });
        let call = binding("ann", "bash", &arguments);
        let state = seal.close(&resume, &call);
        let other_order = json!({ "env": { "B": "2", "A": "1" }, "command": "ls" });
        assert_eq!(seal.open(&state, &binding("ann", "bash", &other_order)).unwrap(), resume);
        let others = [
            binding("bob", "bash", &arguments),
            binding("ann", "bash_output", &arguments),
            binding("ann", "bash", &json!({ "command": "rm" })),
        ];
        for other in others {
            assert!(seal.open(&state, &other).is_err());
        }
        for key in [Seal::new([2; 32]), Seal::random()] {
            assert!(key.open(&state, &call).is_err());
        }
        let mut forged = state.clone();
        forged.replace_range(8..9, if &state[8..9] == "A" { "B" } else { "A" });
        for forged in ["", "rs1", &forged, &format!("{state}x")] {
            assert!(seal.open(forged, &call).is_err(), "{forged}");
        }
    }
}
