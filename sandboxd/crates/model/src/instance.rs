//! The identity of one installation of sandboxd: a key that only this installation has.
//!
//! Everything else is derived from the key. That includes the id that marks its objects on a shared engine, the
//! signature that protects its labels against forgery, and each agent's secret.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sandbox_api::{LinkId, SandboxId, TokenId};
use sha2::Sha256;

use super::AdminToken;
use super::preview::PreviewToken;
use super::principal::Fingerprint;

/// Bytes of an instance key.
pub const KEY_BYTES: usize = 32;

/// An installation.
#[derive(Clone)]
pub struct Instance {
    key: [u8; KEY_BYTES],
    id: String,
}

impl Instance {
    /// Creates the installation that has this key.
    pub fn new(key: [u8; KEY_BYTES]) -> Self {
        let id = hex(&mac(&key, "instance id", "")[..8]);
        Self { key, id }
    }

    /// The id that marks the installation's objects on the engine: 16 hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A number that most likely differs between installations.
    pub fn seed(&self) -> u64 {
        u64::from_str_radix(&self.id, 16).unwrap_or_default()
    }

    /// The signature of `text`, 64 hexadecimal digits.
    pub fn sign(&self, text: &str) -> String {
        hex(&mac(&self.key, "labels", text))
    }

    /// The token that opens the preview of a link.
    pub fn preview_token(&self, link: &LinkId) -> PreviewToken {
        let mac = mac(&self.key, "preview", link.as_str());
        let mut bytes = [0; 20];
        bytes.copy_from_slice(&mac[..20]);
        PreviewToken::new(bytes)
    }

    /// The authentication of what a download link says.
    pub fn download_mac(&self, claims: &[u8]) -> [u8; 32] {
        mac(&self.key, "download", claims)
    }

    /// The key with which a surface signs what its clients hold.
    pub fn surface_key(&self, surface: &str) -> [u8; KEY_BYTES] {
        mac(&self.key, "surface", surface)
    }

    /// The authentication of a project token's secret.
    pub fn token_mac(&self, token: &TokenId, secret: &str) -> [u8; 32] {
        mac(&self.key, "token", format!("{token} {secret}"))
    }

    /// The authentication of what a child token says.
    pub fn child_mac(&self, claims: &[u8]) -> [u8; 32] {
        mac(&self.key, "child token", claims)
    }

    /// What tells the operator's token from a former one.
    pub fn operator_fingerprint(&self, token: &AdminToken) -> Fingerprint {
        self.fingerprint("operator", token)
    }

    /// What tells the key of a trusted front from a former one.
    pub fn front_fingerprint(&self, key: &AdminToken) -> Fingerprint {
        self.fingerprint("front", key)
    }

    fn fingerprint(&self, purpose: &str, of: &AdminToken) -> Fingerprint {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&mac(&self.key, purpose, of.digest())[..16]);
        Fingerprint(bytes)
    }

    /// The key that authenticates the lines of the audit record.
    pub fn audit_key(&self) -> [u8; KEY_BYTES] {
        mac(&self.key, "audit", "")
    }

    /// A keyed hash of a command, in hexadecimal digits. It shows which recorded commands are the same, and nothing else to
    /// those who do not have the key.
    pub fn command_mac(&self, command: &[u8]) -> String {
        hex(&mac(&self.key, "audit command", command))
    }

    /// The secret that the agent of a sandbox must present: 64 hexadecimal digits.
    pub fn agent_secret(&self, sandbox: &SandboxId) -> String {
        hex(&mac(&self.key, "agent", sandbox.as_str()))
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("id", &self.id).finish_non_exhaustive()
    }
}

/// HMAC-SHA256 (RFC 2104). The purpose comes first, so that no value serves two purposes.
fn mac(key: &[u8; KEY_BYTES], purpose: &str, data: impl AsRef<[u8]>) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(purpose.as_bytes());
    mac.update(&[0]);
    mac.update(data.as_ref());
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_and_each_key_has_its_own_values() {
        let (one, two) = (Instance::new([1; 32]), Instance::new([2; 32]));
        let sandbox: SandboxId = "sbx_0123456789abcdef".parse().unwrap();
        assert_eq!(one.id().len(), 16);
        assert_ne!(one.id(), two.id());
        assert_ne!(one.sign(sandbox.as_str()), one.agent_secret(&sandbox));
        assert_ne!(one.agent_secret(&sandbox), two.agent_secret(&sandbox));
        assert_eq!(one.sign("x"), Instance::new([1; 32]).sign("x"));
    }

    #[test]
    fn debug_output_does_not_contain_the_key() {
        assert!(!format!("{:?}", Instance::new([171; 32])).contains("171"));
    }
}
