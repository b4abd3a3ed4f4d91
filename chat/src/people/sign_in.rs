//! Signing in, and passwords.

use std::net::IpAddr;

use secrecy::SecretString;

use super::error::{Error, Result};
use super::{People, Verified, checked_password};
use crate::account::{Role, SignedIn, User, UserId, UserName};
use crate::store::NewUser;

impl People {
    /// Returns the user of a name and a password.
    ///
    /// # Errors
    /// [`Error::WrongPassword`] after the same work, whether the name is unknown, the password is wrong or the account
    /// is disabled.
    pub async fn authenticate(&self, name: &str, password: SecretString, peer: IpAddr) -> Result<Verified> {
        self.attempts.count_address(peer)?;
        self.attempts.count_name(name)?;
        let found = match name.parse::<UserName>() {
            Ok(name) => self.store.user_by_name(&name).await?,
            Err(_) => None,
        };
        let stored = found.as_ref().and_then(|(_, stored)| stored.as_deref());
        let is_right = self.passwords.verify(password, stored).await?;
        let found = found.filter(|(user, _)| is_right && user.disabled_at.is_none());
        found.map(|(user, password)| Verified { user, password }).ok_or(Error::WrongPassword)
    }

    /// Changes a user's own password, and ends their other sessions. An account without a password gets one without
    /// the current one.
    pub async fn change_password(
        &self,
        who: &SignedIn,
        current: SecretString,
        new: SecretString,
        peer: IpAddr,
    ) -> Result<()> {
        checked_password(&new)?;
        self.attempts.count_address(peer)?;
        self.attempts.count_name(who.user.name.as_str())?;
        let found = self.store.user_by_name(&who.user.name).await?;
        let stored = found.and_then(|(_, stored)| stored);
        if stored.is_some() && !self.passwords.verify(current, stored.as_deref()).await? {
            return Err(Error::WrongCurrentPassword);
        }
        let hash = self.passwords.hash(new).await?;
        self.store.set_password(&who.user.id, &hash, Some(&who.session)).await?;
        self.ended.send_replace(());
        Ok(())
    }

    /// Adds an account, for the operator. The first one must be an admin, and gets the existing chats.
    pub async fn add(&self, name: &UserName, role: Role, password: SecretString) -> Result<User> {
        checked_password(&password)?;
        let hash = self.passwords.hash(password).await?;
        Ok(self.store.add_user(NewUser { name, role, password: Some(&hash), identity: None }).await?)
    }

    /// Sets a password for the operator, and ends all sessions of the user.
    pub async fn reset_password(&self, id: &UserId, password: SecretString) -> Result<()> {
        checked_password(&password)?;
        let hash = self.passwords.hash(password).await?;
        self.store.set_password(id, &hash, None).await?;
        self.ended.send_replace(());
        Ok(())
    }

    /// Returns the user of a name, also if the account is disabled. For the operator.
    pub async fn named(&self, name: &UserName) -> Result<User> {
        let found = self.store.user_by_name(name).await?;
        Ok(found.ok_or(Error::NotFound { what: "user" })?.0)
    }
}
