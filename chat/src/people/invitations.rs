//! Invitations.

use std::net::IpAddr;

use secrecy::SecretString;

use super::error::{Error, Result};
use super::{People, Verified, checked_password};
use crate::account::{Invitation, Role, Secret, SecretHash, UserId, UserName};
use crate::store::{NewInvitation, NewMember};

impl People {
    /// Makes an invitation, and returns it with the secret of its link.
    pub async fn invite(&self, role: Role, by: &UserId) -> Result<(Invitation, Secret)> {
        let secret = Secret::generate()?;
        let new = NewInvitation { hash: secret.hash(), role, created_by: by };
        Ok((self.store.invite(new).await?, secret))
    }

    /// Returns the open invitations, the newest first.
    pub async fn invitations(&self) -> Result<Vec<Invitation>> {
        Ok(self.store.invitations().await?)
    }

    /// Removes an invitation.
    pub async fn withdraw(&self, id: &str) -> Result<()> {
        let was_there = self.store.withdraw(id).await?;
        if was_there { Ok(()) } else { Err(Error::NotFound { what: "invitation" }) }
    }

    /// Adds the account of a new user with an invitation, which is used up.
    pub async fn accept(
        &self,
        secret: &str,
        name: &UserName,
        password: SecretString,
        peer: IpAddr,
    ) -> Result<Verified> {
        checked_password(&password)?;
        self.attempts.count_address(peer)?;
        let hash = SecretHash::of(secret);
        // Without one, nothing is hashed.
        if !self.store.has_invitation(hash).await? {
            return Err(Error::BadInvitation);
        }
        let password = self.passwords.hash(password).await?;
        let member = NewMember { name, password: Some(&password), identity: None };
        let user = self.store.accept(hash, member).await?.ok_or(Error::BadInvitation)?;
        Ok(Verified { user, password: Some(password) })
    }
}
