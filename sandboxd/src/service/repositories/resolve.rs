//! Which commit a request means.

use std::sync::Arc;

use futures::FutureExt;

use super::Repositories;
use super::look_ups::Question;
use super::request::{RepositoryRequest, Wanted};
use crate::git;
use crate::model::repository::{
    Advertisement, Found, GitRef, HttpsUrl, NoCommit, PackageName, PackageVersion, Repository, RepositoryKey,
    RepositoryOrigin, RepositorySource, tags_for,
};
use crate::model::{FieldError, Owner};
use crate::service::{Error, RepositoryError};

impl Repositories {
    /// Checks the fields of a request.
    pub fn request(
        &self,
        repository: &str,
        git_ref: Option<&str>,
        version: Option<&str>,
    ) -> Result<RepositoryRequest, FieldError> {
        let source = RepositorySource::parse(repository, &self.settings.forge)?;
        let wanted = match (git_ref, version) {
            (None, None) => Wanted::Default,
            (Some(name), None) => Wanted::Ref(GitRef::parse("ref", name)?),
            (None, Some(version)) => Wanted::Version(PackageVersion::parse("version", version)?),
            (Some(_), Some(_)) => {
                return Err(FieldError::new("version", "must not be combined with ref"));
            }
        };
        Ok(RepositoryRequest { source, wanted })
    }

    /// Whether requests of an owner for an address use the token of its host.
    fn uses_token(&self, owner: &Owner, url: &HttpsUrl) -> bool {
        self.settings.token_projects.contains(&owner.project) && self.client.has_token(url)
    }

    /// Finds the commit.
    pub(super) async fn resolve(
        self: &Arc<Self>,
        owner: &Owner,
        request: &RepositoryRequest,
    ) -> Result<Repository, Error> {
        match &request.source {
            // Nothing of it is remembered: the look is quick, and the project may lose the right to it.
            RepositorySource::Directory(_) => self.ask(owner, request).await,
            RepositorySource::Git(url) if let Some(found) = full_hash(&request.wanted) => {
                Ok(self.repository(owner, url, found, None))
            }
            RepositorySource::Git(_) | RepositorySource::Npm(_) => self.recent_or_asked(owner, request).await,
        }
    }

    /// The result of a recent look-up, of one that runs, or of a new one.
    async fn recent_or_asked(
        self: &Arc<Self>,
        owner: &Owner,
        request: &RepositoryRequest,
    ) -> Result<Repository, Error> {
        let question = self.question(owner, request);
        if let Some(recent) = self.look_ups.recent(&question) {
            return Ok(recent);
        }
        let look_up = self.look_ups.running(&question, || {
            let (repositories, owner, request) = (Arc::clone(self), owner.clone(), request.clone());
            async move { repositories.ask_and_remember(&owner, &request).await.map_err(Arc::new) }.boxed()
        });
        look_up.await.map_err(Error::FetchFailed)
    }

    async fn ask_and_remember(
        &self,
        owner: &Owner,
        request: &RepositoryRequest,
    ) -> Result<Repository, Error> {
        let question = self.question(owner, request);
        let _permit = self.look_ups.permit().await;
        // Another request may have asked the same meanwhile.
        if let Some(recent) = self.look_ups.recent(&question) {
            return Ok(recent);
        }
        let found = self.ask(owner, request).await?;
        self.look_ups.remember(question, &found);
        Ok(found)
    }

    async fn ask(&self, owner: &Owner, request: &RepositoryRequest) -> Result<Repository, Error> {
        let wanted = &request.wanted;
        match &request.source {
            RepositorySource::Git(url) => self.look_up(owner, url, wanted).await,
            RepositorySource::Npm(package) => self.look_up_package(owner, package, wanted).await,
            RepositorySource::Directory(name) => self.resolve_directory(owner, name, wanted).await,
        }
    }

    /// As [`Self::resolve`], if the repository does not have the commit that it returned. Of a package, the registry may have
    /// named the commit, so a tag of the version is searched. Otherwise a branch or tag may have moved since it was looked up.
    /// `None` if there is no other commit.
    pub(super) async fn resolve_again(
        self: &Arc<Self>,
        owner: &Owner,
        request: &RepositoryRequest,
        not: &Repository,
    ) -> Result<Option<Repository>, Error> {
        if let (RepositorySource::Npm(package), Some(version), RepositoryOrigin::Server(url)) =
            (&request.source, &not.version, &not.key.origin)
        {
            return self.resolve_by_tag(owner, package, version, url).await.map(Some);
        }
        self.look_ups.forget(&self.question(owner, request));
        let found = self.resolve(owner, request).await?;
        Ok((found.key != not.key).then_some(found))
    }

    async fn resolve_by_tag(
        &self,
        owner: &Owner,
        package: &PackageName,
        version: &str,
        url: &HttpsUrl,
    ) -> Result<Repository, Error> {
        let refs = self.refs(owner, url).await?;
        let found = refs.find_tag(&tags_for(package.as_str(), version)).ok_or_else(|| {
            RepositoryError::NoVersion { repository: package.to_string(), version: Some(version.to_owned()) }
        })?;
        Ok(self.repository(owner, url, found, Some(version.to_owned())))
    }

    fn question(&self, owner: &Owner, request: &RepositoryRequest) -> Question {
        let source = match &request.source {
            RepositorySource::Git(url) => url.to_string(),
            RepositorySource::Npm(package) => package.to_string(),
            RepositorySource::Directory(name) => name.to_string(),
        };
        (source, request.wanted.clone(), self.settings.token_projects.contains(&owner.project))
    }

    async fn look_up(&self, owner: &Owner, url: &HttpsUrl, wanted: &Wanted) -> Result<Repository, Error> {
        let refs = self.refs(owner, url).await?;
        let name = url.path().trim_start_matches('/').trim_end_matches(".git");
        let (found, version) = found_in(&refs, &url.to_string(), name, wanted)?;
        Ok(self.repository(owner, url, found, version))
    }

    async fn look_up_package(
        &self,
        owner: &Owner,
        package: &PackageName,
        wanted: &Wanted,
    ) -> Result<Repository, Error> {
        let version = match wanted {
            Wanted::Version(version) => Some(version),
            Wanted::Default | Wanted::Ref(_) => None,
        };
        let (registry, forge) = (&self.settings.registry, &self.settings.forge);
        let found = self.client.package(registry, package, version, forge).await;
        let found = found.map_err(|error| match error {
            git::Error::NotFound { .. } if version.is_some() => Error::from(RepositoryError::NoVersion {
                repository: package.to_string(),
                version: version.map(|version| version.as_str().to_owned()),
            }),
            error => fault(error, package.as_str()).into(),
        })?;
        let url = found.repository;
        let url = url.ok_or_else(|| RepositoryError::NoRepository { package: package.to_string() })?;
        if let Wanted::Ref(_) = wanted {
            return self.look_up(owner, &url, wanted).await;
        }
        let version = found.version.as_str();
        let commit = match found.commit {
            Some(commit) => Found { commit, branch: None, tags: Vec::new() },
            None => {
                let refs = self.refs(owner, &url).await?;
                let by_tag = refs.find_tag(&tags_for(package.as_str(), version));
                by_tag.ok_or_else(|| RepositoryError::NoVersion {
                    repository: package.to_string(),
                    version: Some(version.to_owned()),
                })?
            }
        };
        Ok(self.repository(owner, &url, commit, Some(version.to_owned())))
    }

    async fn refs(&self, owner: &Owner, url: &HttpsUrl) -> Result<Advertisement, Error> {
        let refs = self.client.refs(url, self.uses_token(owner, url)).await;
        refs.map_err(|error| fault(error, &url.to_string()).into())
    }

    fn repository(&self, owner: &Owner, url: &HttpsUrl, found: Found, version: Option<String>) -> Repository {
        let key = RepositoryKey {
            origin: RepositoryOrigin::Server(url.clone()),
            commit: found.commit,
            with_token: self.uses_token(owner, url),
        };
        Repository { key, branch: found.branch, tags: found.tags, version }
    }
}

/// The commit whose full hash a request has.
pub(super) fn full_hash(wanted: &Wanted) -> Option<Found> {
    match wanted {
        Wanted::Ref(name) => {
            let commit = name.as_str().parse().ok()?;
            Some(Found { commit, branch: None, tags: Vec::new() })
        }
        Wanted::Default | Wanted::Version(_) => None,
    }
}

/// The commit that a request means among the refs of a repository, and its version. `name` is that of the tags of versions.
pub(super) fn found_in(
    refs: &Advertisement,
    repository: &str,
    name: &str,
    wanted: &Wanted,
) -> Result<(Found, Option<String>), RepositoryError> {
    let version = match wanted {
        Wanted::Default => return Ok((by_name(refs, repository, None)?, None)),
        Wanted::Ref(name) => return Ok((by_name(refs, repository, Some(name))?, None)),
        Wanted::Version(version) => version.as_str(),
    };
    let found = refs.find_tag(&tags_for(name, version));
    let missing = || RepositoryError::NoVersion {
        repository: repository.to_owned(),
        version: Some(version.to_owned()),
    };
    Ok((found.ok_or_else(missing)?, Some(version.to_owned())))
}

fn by_name(refs: &Advertisement, repository: &str, name: Option<&GitRef>) -> Result<Found, RepositoryError> {
    let text = || name.map(|name| name.as_str().to_owned());
    refs.find(name).map_err(|reason| match reason {
        NoCommit::Empty | NoCommit::Unknown => {
            RepositoryError::NoRef { repository: repository.to_owned(), name: text() }
        }
        NoCommit::Ambiguous => RepositoryError::Ambiguous { name: text().unwrap_or_default() },
    })
}

/// What an error of a server means for a request. `repository` is its address, or the name of the package.
pub(super) fn fault(error: git::Error, repository: &str) -> RepositoryError {
    let server = |problem: String, source| RepositoryError::Server { problem, source };
    match error {
        git::Error::NotFound { .. } => RepositoryError::NotFound { repository: repository.to_owned() },
        git::Error::RateLimited { retry_after } => RepositoryError::RateLimited { retry_after },
        git::Error::TooLarge { max } => RepositoryError::TooLarge { max_bytes: max },
        git::Error::Gate { source: crate::egress::Error::Denied { .. } } => RepositoryError::NotReached {
            problem: "the address of the repository must not be reached from here",
            source: error,
        },
        git::Error::Redirect => RepositoryError::NotReached {
            problem: "the server redirects to an address that is not followed",
            source: error,
        },
        git::Error::Status { status } => {
            server(format!("the server of the repository or package responded with status {status}"), error)
        }
        git::Error::Malformed(_) => {
            server("the response of the server is not that of a git server or registry".into(), error)
        }
        git::Error::Directory { .. } => RepositoryError::Unreadable { source: error },
        git::Error::Changed => RepositoryError::Changed,
        git::Error::TooManyFiles { max } => RepositoryError::TooManyFiles { max },
        git::Error::Unsupported(problem) => RepositoryError::Unsupported { problem },
        git::Error::TooSlow => RepositoryError::TooSlow,
        git::Error::Gate { .. } | git::Error::Connection { .. } | git::Error::Silent => {
            server("the server of the repository or package does not respond".into(), error)
        }
    }
}
