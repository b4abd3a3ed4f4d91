//! Accounts of people whom an identity provider has identified.

use super::error::{Error, Result};
use super::{People, Verified};
use crate::account::limits::MAX_NAME_CHARS;
use crate::account::{Role, SecretHash, User, UserName};
use crate::store::{self, NewMember, NewUser};

/// Names that are tried for a new account, before the sign-in fails.
const MAX_NAMES: usize = 20;

/// A person whom a provider has identified, for a sign-in.
#[derive(Debug, Clone, Copy)]
pub struct Identified<'a> {
    /// Issuer and subject. Nothing else identifies an account.
    pub identity: (&'a str, &'a str),
    /// Name to start with.
    pub name: &'a str,
    /// Hash of an invitation, if there is one.
    pub invitation: Option<SecretHash>,
    /// Whether a new account may be made without an invitation.
    pub is_welcome: bool,
}

impl People {
    /// Returns the account of an identity. A new user gets one if they are invited or welcome.
    pub async fn identify(&self, who: Identified<'_>) -> Result<Verified> {
        self.user_of(who).await.map(Verified::without_password)
    }

    async fn user_of(&self, who: Identified<'_>) -> Result<User> {
        let (issuer, subject) = who.identity;
        if let Some(user) = self.store.user_by_identity(issuer, subject).await? {
            return if user.disabled_at.is_none() { Ok(user) } else { Err(Error::Disabled) };
        }
        for name in names(who.name) {
            match self.join(&name, who).await {
                Err(Error::Store(store::Error::NameTaken)) => {}
                joined => return joined,
            }
        }
        Err(Error::Store(store::Error::NameTaken))
    }

    async fn join(&self, name: &UserName, who: Identified<'_>) -> Result<User> {
        let identity = Some(who.identity);
        if let Some(hash) = who.invitation {
            let member = NewMember { name, password: None, identity };
            return self.store.accept(hash, member).await?.ok_or(Error::BadInvitation);
        }
        if !who.is_welcome {
            return Err(Error::NotInvited);
        }
        Ok(self.store.add_user(NewUser { name, role: Role::User, password: None, identity }).await?)
    }
}

/// Names for a new account: what is permitted of a text, and the same with numbers.
fn names(text: &str) -> impl Iterator<Item = UserName> {
    let plain: String = text.chars().filter(|char| char.to_string().parse::<UserName>().is_ok()).collect();
    let start = if plain.is_empty() { "user".to_owned() } else { plain };
    let start: String = start.chars().take(MAX_NAME_CHARS - 3).collect();
    let numbered = (1..=MAX_NAMES).map(move |n| if n == 1 { start.clone() } else { format!("{start}-{n}") });
    numbered.filter_map(|name| name.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_of_any_text() {
        let first = |text: &str| names(text).next().unwrap().to_string();
        assert_eq!(first("Ann Lee"), "AnnLee");
        assert_eq!(first("<é>"), "user");
        assert_eq!(first(&"x".repeat(99)).len(), MAX_NAME_CHARS - 3);
        assert_eq!(names("ann").nth(1).unwrap().as_str(), "ann-2");
        assert_eq!(names("ann").count(), MAX_NAMES);
    }
}
