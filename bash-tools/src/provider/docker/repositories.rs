//! Sandboxes that begin with the files of a repository, which sandboxd shares between them.

use sandbox_api::ErrorCode;
use sandbox_api::sandbox::{CreateSandbox, RepositorySource, WorkspaceSource};
use sandbox_client::Client;

use super::{Docker, fault, message_of, of_key};
use crate::chat_key::ChatKey;
use crate::provider::{Opened, OpenedWith, Repository, Result};

impl Docker {
    pub(super) async fn create_with(&self, key: &ChatKey, repository: &Repository) -> Result<OpenedWith> {
        let source = RepositorySource {
            repository: repository.url.clone(),
            git_ref: repository.revision.clone(),
            version: None,
        };
        let request = &CreateSandbox {
            workspace: Some(WorkspaceSource::Repository(source)),
            ..self.create_request(key)
        };
        let create = |client: Client| async move { client.create_or_reconnect(request).await };
        let made = match self.subjects.call(key.subject(), create).await {
            Ok(made) => made,
            Err(error) => return without_files(error),
        };
        let opened = Opened { sandbox: of_key(made.sandbox_id, key), is_new: made.created };
        self.add_own_hosts(&opened).await?;
        Ok(OpenedWith::Opened { opened, branch: made.repository.and_then(|repository| repository.branch) })
    }
}

/// sandboxd may be older, have no repositories, or not reach this one. If it can create no sandbox at all, the next attempt
/// without a repository says why.
fn without_files(error: sandbox_client::Error) -> Result<OpenedWith> {
    match error.code() {
        Some(ErrorCode::TagNotFound) => Ok(OpenedWith::NoRevision),
        None | Some(ErrorCode::Unauthenticated | ErrorCode::Forbidden) => Err(fault(error)),
        Some(_) => Ok(OpenedWith::Unavailable { message: message_of(&error) }),
    }
}
