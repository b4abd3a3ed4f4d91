//! Repositories in directories that the operator allows.
//!
//! Each request looks at the directory again: a look at unchanged files reads none of them. Whether the project may use the
//! directory is checked for each request too.

use super::Repositories;
use super::request::Wanted;
use super::resolve::{fault, found_in, full_hash};
use crate::git::{Directory, DirectoryContents};
use crate::model::Owner;
use crate::model::repository::{DirectoryName, Found, Repository, RepositoryKey, RepositoryOrigin};
use crate::service::{Error, RepositoryError};

impl Repositories {
    /// Finds the commit of a directory that is a git repository, or the files of another one.
    pub(super) async fn resolve_directory(
        &self,
        owner: &Owner,
        name: &DirectoryName,
        wanted: &Wanted,
    ) -> Result<Repository, Error> {
        let directory = self.directory(owner, name)?;
        let _permit = self.look_ups.permit().await;
        let known = self.known_files.of(name);
        let contents = directory.contents(known).await;
        let (found, version) = match contents.map_err(|error| fault(error, &name.to_string()))? {
            DirectoryContents::Repository(refs) => match full_hash(wanted) {
                Some(found) => (found, None),
                None => found_in(&refs, &name.to_string(), name.as_str(), wanted)?,
            },
            DirectoryContents::Files(digest) => {
                // Only git has names for other states of the files.
                without_name(name, wanted)?;
                let commit = digest.hash.clone();
                self.known_files.remember(name, digest);
                (Found { commit, branch: None, tags: Vec::new() }, None)
            }
        };
        let origin = RepositoryOrigin::Directory(name.clone());
        let key = RepositoryKey { origin, commit: found.commit, with_token: false };
        Ok(Repository { key, branch: found.branch, tags: found.tags, version })
    }

    /// A directory, if the owner may use it.
    pub(super) fn directory(
        &self,
        owner: &Owner,
        name: &DirectoryName,
    ) -> Result<Directory, RepositoryError> {
        let path = self.settings.directories.path(name, &owner.project);
        let path = path.ok_or_else(|| RepositoryError::NotFound { repository: name.to_string() })?;
        Ok(Directory::new(path, self.settings.max_fetched_bytes))
    }
}

/// Fails if a request names a commit of something that is not a git repository.
fn without_name(name: &DirectoryName, wanted: &Wanted) -> Result<(), RepositoryError> {
    let repository = name.to_string();
    match wanted {
        Wanted::Default => Ok(()),
        Wanted::Ref(name) => Err(RepositoryError::NoRef { repository, name: Some(name.as_str().to_owned()) }),
        Wanted::Version(version) => {
            Err(RepositoryError::NoVersion { repository, version: Some(version.as_str().to_owned()) })
        }
    }
}
