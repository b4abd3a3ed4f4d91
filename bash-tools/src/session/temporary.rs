//! Temporary chats, and how visitors are kept apart.
//!
//! A temporary chat is not stored, so only its id identifies its owner, and ids appear in labels and logs. The app
//! therefore issues a ticket: an id with a code that only the app can create. It accepts no temporary chat without
//! its ticket.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use uuid::Uuid;

use super::{ChatKey, Subject};

/// Issues and verifies tickets. Two instances with the same secret accept each other's.
#[derive(Clone)]
pub struct TemporaryChats {
    mac: Hmac<Sha256>,
}

/// The ticket is not valid: issued elsewhere, altered, or issued under another secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the temporary chat was not started here, or the app was set up again since: start a new one")]
pub struct BadTicket;

impl TemporaryChats {
    /// Uses a secret that outlives the process, so that tickets stay valid. `secret` must come from a random source.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self { mac: Hmac::new_from_slice(secret).expect("HMAC takes keys of any length") }
    }

    /// Issues a ticket for a new chat: text for a URL or a header, which the browser keeps and sends.
    pub fn issue(&self) -> String {
        self.issue_to(None)
    }

    /// Same, for a chat of a subject. The ticket is not valid for others.
    pub fn issue_to(&self, subject: Option<&Subject>) -> String {
        let id = Uuid::new_v4().simple().to_string();
        let code = BASE64_URL_SAFE_NO_PAD.encode(self.code(&id, subject).finalize().into_bytes());
        format!("{id}.{code}")
    }

    /// Returns the session of a ticket. Its key contains only the id, so knowing the key is not enough to make a
    /// ticket.
    pub fn key(&self, ticket: &str) -> Result<ChatKey, BadTicket> {
        self.key_of(ticket, None)
    }

    /// Same, for a ticket that was issued to this subject.
    pub fn key_of(&self, ticket: &str, subject: Option<&Subject>) -> Result<ChatKey, BadTicket> {
        let (id, code) = ticket.split_once('.').ok_or(BadTicket)?;
        let code = BASE64_URL_SAFE_NO_PAD.decode(code).map_err(|_| BadTicket)?;
        // Compared in constant time.
        self.code(id, subject).verify_slice(&code).map_err(|_| BadTicket)?;
        let key = ChatKey::temporary(id).map_err(|_| BadTicket)?;
        Ok(match subject {
            Some(subject) => key.of_subject(subject.clone()).map_err(|_| BadTicket)?,
            None => key,
        })
    }

    fn code(&self, id: &str, subject: Option<&Subject>) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        mac.update(b"temporary chat:");
        mac.update(id.as_bytes());
        if let Some(subject) = subject {
            // A line break is in no id and no subject.
            mac.update(b"\n");
            mac.update(subject.as_str().as_bytes());
        }
        mac
    }
}

impl std::fmt::Debug for TemporaryChats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TemporaryChats").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_opens_its_own_chat_and_no_other() {
        let chats = TemporaryChats::new(&[7; 32]);
        let (mine, yours) = (chats.issue(), chats.issue());
        let key = chats.key(&mine).unwrap();
        assert!(key.as_str().starts_with("tmp:"));
        assert_ne!(key, chats.key(&yours).unwrap());
        assert_eq!(
            TemporaryChats::new(&[7; 32]).key(&mine),
            Ok(key.clone()),
            "another process of the same app"
        );

        let id = key.as_str().strip_prefix("tmp:").unwrap().to_owned();
        let (_, my_code) = mine.split_once('.').unwrap();
        let (your_id, _) = yours.split_once('.').unwrap();
        let forged = [
            id.clone(),
            format!("{id}."),
            format!("{id}.{}", &my_code[1..]),
            format!("{your_id}.{my_code}"),
            format!("{mine}x"),
            String::new(),
            ".".into(),
            "x".repeat(100_000),
        ];
        for ticket in forged {
            assert_eq!(chats.key(&ticket), Err(BadTicket), "{ticket:.80}");
        }
        assert_eq!(TemporaryChats::new(&[8; 32]).key(&mine), Err(BadTicket), "another app");
    }

    #[test]
    fn a_ticket_is_only_valid_for_its_subject() {
        let chats = TemporaryChats::new(&[7; 32]);
        let [ann, bob]: [Subject; 2] = ["ann", "bob"].map(|name| name.parse().unwrap());
        let ticket = chats.issue_to(Some(&ann));
        assert_eq!(chats.key_of(&ticket, Some(&ann)).unwrap().subject(), Some(&ann));
        assert_eq!(chats.key_of(&ticket, Some(&bob)), Err(BadTicket));
        assert_eq!(chats.key(&ticket), Err(BadTicket));
        assert_eq!(chats.key_of(&chats.issue(), Some(&ann)), Err(BadTicket));
        let (id, code) = ticket.split_once('.').unwrap();
        let moved = format!("{id}\nann.{code}");
        assert_eq!(chats.key(&moved), Err(BadTicket), "a part of the id is not a subject");
    }
}
