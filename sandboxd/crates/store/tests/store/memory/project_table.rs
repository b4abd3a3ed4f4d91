//! The projects and tokens of the backend in memory.

use async_trait::async_trait;
use sandbox_api::TokenId;
use sandboxd_model::{ProjectRecord, RevokedSubject, TokenRecord};
use sandboxd_store::{Error, ErrorKind, ProjectTable};

use super::Opened;

#[async_trait]
impl ProjectTable for Opened {
    async fn projects(&self) -> Result<Vec<ProjectRecord>, Error> {
        self.read(|tables| tables.projects.values().cloned().collect())
    }

    async fn add_project(&self, project: &ProjectRecord) -> Result<(), Error> {
        self.write(|tables| {
            tables.projects.entry(project.name.clone()).or_insert_with(|| project.clone());
            Ok(())
        })
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, Error> {
        self.read(|tables| tables.tokens.values().cloned().collect())
    }

    async fn insert_token(&self, token: &TokenRecord) -> Result<(), Error> {
        self.write(|tables| {
            if tables.tokens.contains_key(&token.id) || !tables.projects.contains_key(&token.owner.project) {
                return Err(Error::new(ErrorKind::Refused, "the token exists, or its project does not"));
            }
            tables.tokens.insert(token.id.clone(), token.clone());
            Ok(())
        })
    }

    async fn delete_token(&self, id: &TokenId) -> Result<(), Error> {
        self.write(|tables| {
            tables.tokens.remove(id);
            Ok(())
        })
    }

    async fn touch_tokens(&self, used: &[(TokenId, i64)]) -> Result<(), Error> {
        self.write(|tables| {
            for (id, at_ms) in used {
                if let Some(token) = tables.tokens.get_mut(id) {
                    token.last_used_ms = Some(*at_ms);
                }
            }
            Ok(())
        })
    }

    async fn revoked_subjects(&self) -> Result<Vec<RevokedSubject>, Error> {
        self.read(|tables| tables.revoked_subjects.values().cloned().collect())
    }

    async fn put_revoked_subject(&self, revoked: &RevokedSubject) -> Result<(), Error> {
        self.write(|tables| {
            if !tables.projects.contains_key(&revoked.project) {
                return Err(Error::new(ErrorKind::Refused, "the project does not exist"));
            }
            let key = (revoked.project.clone(), revoked.subject.clone());
            tables.revoked_subjects.insert(key, revoked.clone());
            Ok(())
        })
    }
}
