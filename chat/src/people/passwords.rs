//! Hashes passwords with argon2id, few at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;

use super::error::{Error, Result};
use crate::account::limits::{
    HASH_LANES, HASH_MEMORY_KIB, HASH_PASSES, MAX_HASHES, MAX_PASSWORD_BYTES, MAX_WAITING_HASHES,
    MIN_PASSWORD_CHARS,
};

/// Hashes passwords. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Passwords {
    permits: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    /// Hash of a random password. It is checked for names that do not exist.
    decoy: Arc<str>,
}

/// Checks the length of a new password.
///
/// # Errors
/// It is too short or too long.
pub fn checked_password(password: &SecretString) -> Result<()> {
    let text = password.expose_secret();
    let problem = match text {
        _ if text.len() > MAX_PASSWORD_BYTES => {
            format!("must have at most {MAX_PASSWORD_BYTES} bytes")
        }
        _ if text.chars().count() < MIN_PASSWORD_CHARS => {
            format!("must have at least {MIN_PASSWORD_CHARS} characters")
        }
        _ => return Ok(()),
    };
    Err(Error::Invalid { field: "password", problem })
}

/// One of those who wait for a hash, until it is dropped.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Passwords {
    /// Hashes one password, and so takes some time.
    pub(super) fn new() -> Result<Self> {
        let mut password = [0; 32];
        getrandom::fill(&mut password)?;
        let decoy = hash(&password)?.into();
        Ok(Self { permits: Arc::new(Semaphore::new(MAX_HASHES)), waiting: Arc::default(), decoy })
    }

    /// Returns the hash of a password, in PHC form.
    pub(super) async fn hash(&self, password: SecretString) -> Result<String> {
        self.run(move || hash(password.expose_secret().as_bytes())).await
    }

    /// Whether the password is the one of the hash. Without a hash, it is not, after the same work.
    pub(super) async fn verify(&self, password: SecretString, stored: Option<&str>) -> Result<bool> {
        let (hash, is_known) = (stored.unwrap_or(&self.decoy).to_owned(), stored.is_some());
        self.run(move || {
            // No account has a longer one, and it would take longer.
            if password.expose_secret().len() > MAX_PASSWORD_BYTES {
                return Ok(false);
            }
            let hash = PasswordHash::new(&hash).map_err(|error| Error::Hash(error.into()))?;
            let is_right = argon2()?.verify_password(password.expose_secret().as_bytes(), &hash).is_ok();
            Ok(is_right && is_known)
        })
        .await
    }

    /// Runs a hash on a thread for blocking work. It ends there even if the request does not wait.
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(Arc::clone(&self.waiting));
        if before >= MAX_WAITING_HASHES {
            return Err(Error::Busy);
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::Busy)?;
        drop(waiting);
        tokio::task::spawn_blocking(move || {
            let result = work();
            drop(permit);
            result
        })
        .await?
    }
}

fn hash(password: &[u8]) -> Result<String> {
    Ok(argon2()?.hash_password(password).map_err(Error::Hash)?.to_string())
}

fn argon2() -> Result<Argon2<'static>> {
    let params = Params::new(HASH_MEMORY_KIB, HASH_PASSES, HASH_LANES, None);
    let params = params.map_err(|error| Error::Hash(error.into()))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_is_verified_and_only_its_own() {
        let passwords = Passwords::new().unwrap();
        let stored = passwords.hash("correct horse battery".into()).await.unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(passwords.verify("correct horse battery".into(), Some(&stored)).await.unwrap());
        assert!(!passwords.verify("Correct horse battery".into(), Some(&stored)).await.unwrap());
        assert!(!passwords.verify("correct horse battery".into(), None).await.unwrap());
        assert_ne!(passwords.hash("correct horse battery".into()).await.unwrap(), stored, "it is salted");
    }

    #[tokio::test]
    async fn only_a_few_wait_for_a_hash() {
        let passwords = Passwords::new().unwrap();
        let all = Arc::clone(&passwords.permits).acquire_many_owned(2).await.unwrap();
        let wait = || {
            let passwords = passwords.clone();
            tokio::spawn(async move { passwords.verify("x".into(), None).await })
        };
        let waiting: Vec<_> = (0..MAX_WAITING_HASHES).map(|_| wait()).collect();
        while passwords.waiting.load(Ordering::Relaxed) < MAX_WAITING_HASHES {
            tokio::task::yield_now().await;
        }
        assert!(matches!(wait().await.unwrap(), Err(Error::Busy)));
        waiting[0].abort();
        drop(all);
        for one in waiting.into_iter().skip(1) {
            assert!(!one.await.unwrap().unwrap());
        }
        assert_eq!(passwords.waiting.load(Ordering::Relaxed), 0, "a caller that was cancelled does not wait");
    }

    #[test]
    fn a_new_password_has_a_length() {
        let is_good = |text: &str| checked_password(&text.into()).is_ok();
        assert!(is_good(&"é".repeat(MIN_PASSWORD_CHARS)) && is_good(&"x".repeat(MAX_PASSWORD_BYTES)));
        assert!(
            !is_good(&"é".repeat(MIN_PASSWORD_CHARS - 1)) && !is_good(&"x".repeat(MAX_PASSWORD_BYTES + 1))
        );
    }
}
