//! Operations on projects and their tokens.

use sandbox_api::TokenId;
use sandboxd_model::{ProjectRecord, RevokedSubject, TokenRecord};

use crate::{Error, Store};

impl Store {
    /// All projects, in the order of their names.
    pub async fn projects(&self) -> Result<Vec<ProjectRecord>, Error> {
        self.database.projects().await
    }

    /// Adds a project. Idempotent: one with the same name stays as it is.
    pub async fn add_project(&self, project: &ProjectRecord) -> Result<(), Error> {
        self.database.add_project(project).await
    }

    /// All tokens, in the order of their ids.
    pub async fn tokens(&self) -> Result<Vec<TokenRecord>, Error> {
        self.database.tokens().await
    }

    /// Adds a token. Fails if there is one with the same id, or the project is missing.
    pub async fn add_token(&self, token: &TokenRecord) -> Result<(), Error> {
        self.database.insert_token(token).await
    }

    /// Deletes a token. Idempotent: succeeds if it does not exist.
    pub async fn remove_token(&self, id: &TokenId) -> Result<(), Error> {
        self.database.delete_token(id).await
    }

    /// Writes when tokens were last used, in milliseconds since the Unix epoch. Skips tokens that do not exist.
    pub async fn touch_tokens(&self, used: &[(TokenId, i64)]) -> Result<(), Error> {
        self.database.touch_tokens(used).await
    }

    /// The subjects whose tokens were revoked.
    pub async fn revoked_subjects(&self) -> Result<Vec<RevokedSubject>, Error> {
        self.database.revoked_subjects().await
    }

    /// Writes until when the tokens of a subject are revoked. Fails if the project is missing.
    pub async fn revoke_subject(&self, revoked: &RevokedSubject) -> Result<(), Error> {
        self.database.put_revoked_subject(revoked).await
    }
}
