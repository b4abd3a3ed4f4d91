//! Which commit a request means.

use super::Repositories;
use super::look_ups::Question;
use super::request::{RepositoryRequest, Wanted};
use crate::git;
use crate::model::repository::{
    Advertisement, Found, GitRef, HttpsUrl, NoCommit, PackageName, PackageVersion, Repository, RepositoryKey,
    RepositorySource, tags_for,
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
        &self,
        owner: &Owner,
        request: &RepositoryRequest,
    ) -> Result<Repository, Error> {
        if let (RepositorySource::Git(url), Wanted::Ref(name)) = (&request.source, &request.wanted)
            && let Ok(commit) = name.as_str().parse()
        {
            let found = Found { commit, branch: None, tags: Vec::new() };
            return Ok(self.repository(owner, url, found, None));
        }
        let question = self.question(owner, request);
        if let Some(recent) = self.look_ups.recent(&question) {
            return Ok(recent);
        }
        let _permit = self.look_ups.permit().await;
        // Another request may have asked the same meanwhile.
        if let Some(recent) = self.look_ups.recent(&question) {
            return Ok(recent);
        }
        let found = match &request.source {
            RepositorySource::Git(url) => self.look_up(owner, url, &request.wanted).await?,
            RepositorySource::Npm(package) => self.look_up_package(owner, package, &request.wanted).await?,
        };
        self.look_ups.remember(question, &found);
        Ok(found)
    }

    /// As [`Self::resolve`], if the repository does not have the commit that it returned. Of a package, the registry may have
    /// named the commit, so a tag of the version is searched. Otherwise a branch or tag may have moved since it was looked up.
    /// `None` if there is no other commit.
    pub(super) async fn resolve_again(
        &self,
        owner: &Owner,
        request: &RepositoryRequest,
        not: &Repository,
    ) -> Result<Option<Repository>, Error> {
        if let (RepositorySource::Npm(package), Some(version)) = (&request.source, &not.version) {
            return self.resolve_by_tag(owner, package, version, &not.key.url).await.map(Some);
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
        };
        (source, request.wanted.clone(), self.settings.token_projects.contains(&owner.project))
    }

    async fn look_up(&self, owner: &Owner, url: &HttpsUrl, wanted: &Wanted) -> Result<Repository, Error> {
        let refs = self.refs(owner, url).await?;
        let (found, version) = match wanted {
            Wanted::Default => (by_name(&refs, url, None)?, None),
            Wanted::Ref(name) => (by_name(&refs, url, Some(name))?, None),
            Wanted::Version(version) => {
                let name = url.path().trim_start_matches('/').trim_end_matches(".git");
                let found = refs.find_tag(&tags_for(name, version.as_str()));
                let missing = || RepositoryError::NoVersion {
                    repository: url.to_string(),
                    version: Some(version.as_str().to_owned()),
                };
                (found.ok_or_else(missing)?, Some(version.as_str().to_owned()))
            }
        };
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
        let key =
            RepositoryKey { url: url.clone(), commit: found.commit, with_token: self.uses_token(owner, url) };
        Repository { key, branch: found.branch, tags: found.tags, version }
    }
}

fn by_name(refs: &Advertisement, url: &HttpsUrl, name: Option<&GitRef>) -> Result<Found, RepositoryError> {
    let text = || name.map(|name| name.as_str().to_owned());
    refs.find(name).map_err(|reason| match reason {
        NoCommit::Empty | NoCommit::Unknown => {
            RepositoryError::NoRef { repository: url.to_string(), name: text() }
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
        git::Error::Gate { .. } | git::Error::Connection { .. } | git::Error::Silent => {
            server("the server of the repository or package does not respond".into(), error)
        }
    }
}
