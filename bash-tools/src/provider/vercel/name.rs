//! Names and ids of sandboxes: Vercel uses a name, this crate an id.
//!
//! A name depends only on the session's key, so that a restarted app knows it. An id does not match another sandbox
//! that gets the name later.

use sha2::{Digest, Sha256};

use super::fault::Fault;
use super::wire::Found;
use crate::chat_key::ChatKey;
use crate::provider::SandboxId;

/// Maximum length of a name, which is at most Vercel's limit.
const MAX_NAME_BYTES: usize = 63;

/// Name of a session's sandbox: the key if Vercel accepts it, or else a digest of it. Vercel knows no subjects, so that of
/// a subject is always a digest, with the subject.
pub(super) fn name_of(key: &ChatKey) -> String {
    if let Some(subject) = key.subject() {
        // A line break is in no key and no subject.
        return digest_of(&format!("{}\n{subject}", key.as_str()));
    }
    let readable = key.as_str().replacen(':', "-", 1);
    let is_plain = readable.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    let name = format!("bash-tools-{readable}");
    if is_plain && name.len() <= MAX_NAME_BYTES && !name.ends_with('-') {
        return name;
    }
    digest_of(key.as_str())
}

fn digest_of(text: &str) -> String {
    let digest = Sha256::digest(text);
    let hex: String = digest.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
    format!("bash-tools-key-{hex}")
}

/// Id of a sandbox: its name and the time of its creation. A recreated sandbox has another id.
pub(super) fn id(name: &str, found: &Found) -> SandboxId {
    format!("{name}@{}", found.sandbox.created_at).into()
}

/// A malformed id names no sandbox.
pub(super) fn parts(sandbox: &SandboxId) -> Result<(&str, &str), Fault> {
    sandbox.as_str().rsplit_once('@').ok_or(Fault::Replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(chat: &str) -> String {
        name_of(&ChatKey::chat(chat).unwrap())
    }

    #[test]
    fn a_name_contains_its_key_if_possible() {
        assert_eq!(name("42"), "bash-tools-chat-42");
        assert_eq!(name("0f8fad5b-d9cb-469f-a165-70867728950e").len(), 11 + 5 + 36);
        for odd in ["A", "a b", "a:b", "../é", "a-", "key-1/", &"x".repeat(48)] {
            let name = name(odd);
            assert!(name.starts_with("bash-tools-key-") && name.len() == 15 + 40, "{name}");
        }
        assert_ne!(name("A"), name("B"));
        let [ann, bob] = ["ann", "bob"].map(|subject| {
            let key = ChatKey::chat("42").unwrap().of_subject(subject.parse().unwrap());
            name_of(&key.unwrap())
        });
        assert!(ann != bob && ann.starts_with("bash-tools-key-") && ann.len() == 15 + 40, "{ann}");
        assert_eq!(name(&"x".repeat(47)).len(), MAX_NAME_BYTES);
    }
}
