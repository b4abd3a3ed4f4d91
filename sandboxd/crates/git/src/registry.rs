//! What a registry of npm packages says about one version.

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method};
use sandboxd_model::repository::{CommitHash, HttpsUrl, PackageName, PackageVersion, normalized_url};
use serde::Deserialize;

use crate::client::Call;
use crate::look_up::within_look_up;
use crate::{Client, Error};

/// The dist-tag that a registry serves without a version.
const LATEST: &str = "latest";

/// A version of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// The version.
    pub version: PackageVersion,
    /// Address of its repository, if it names one.
    pub repository: Option<HttpsUrl>,
    /// The commit from which it was published, if the registry knows it.
    pub commit: Option<CommitHash>,
}

/// The document of a version. Its values come from the publisher of the package.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    version: String,
    #[serde(default)]
    git_head: Option<serde_json::Value>,
    #[serde(default)]
    repository: Option<serde_json::Value>,
}

impl Client {
    /// Looks up a version of a package, or its latest one. Short forms of repositories are at `forge`.
    pub async fn package(
        &self,
        registry: &HttpsUrl,
        name: &PackageName,
        version: Option<&PackageVersion>,
        forge: &HttpsUrl,
    ) -> Result<Package, Error> {
        let version = version.map_or(LATEST, PackageVersion::as_str);
        let url = format!("{registry}/{}/{version}", name.as_segment());
        let call = Call {
            method: Method::GET,
            url: url.parse().map_err(|_| Error::Malformed("the address"))?,
            headers: HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]),
            body: Bytes::new(),
            with_token: false,
            follows_redirects: true,
        };
        let body = within_look_up(async { self.send(call).await?.checked()?.bytes().await }).await?;
        parse(&body, forge)
    }
}

fn parse(body: &[u8], forge: &HttpsUrl) -> Result<Package, Error> {
    let malformed = |_| Error::Malformed("it is not a version of a package");
    let manifest: Manifest = serde_json::from_slice(body).map_err(malformed)?;
    let version = PackageVersion::parse("version", &manifest.version);
    let version = version.map_err(|_| Error::Malformed("it has no valid version"))?;
    let repository = manifest.repository.as_ref().and_then(|repository| match repository {
        serde_json::Value::String(url) => normalized_url(url, forge),
        other => normalized_url(other.get("url")?.as_str()?, forge),
    });
    let commit = manifest.git_head.as_ref().and_then(|hash| hash.as_str()?.parse().ok());
    Ok(Package { version, repository, commit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Package, Error> {
        parse(json.as_bytes(), &HttpsUrl::parse("https://forge.example").unwrap())
    }

    #[test]
    fn a_version_names_its_repository_and_commit() {
        let head = "a".repeat(40);
        let json = format!(
            r#"{{"version":"1.2.3","gitHead":"{head}","repository":{{"type":"git","url":"git+https://git.example/a/b.git"}}}}"#
        );
        let found = read(&json).unwrap();
        assert_eq!(found.version.as_str(), "1.2.3");
        assert_eq!(found.repository.unwrap().to_string(), "https://git.example/a/b.git");
        assert_eq!(found.commit, head.parse().ok());
        let short = read(r#"{"version":"1.0.0","repository":"a/b"}"#).unwrap();
        assert_eq!(short.repository.unwrap().to_string(), "https://forge.example/a/b.git");
    }

    #[test]
    fn hostile_values_are_skipped() {
        for json in [
            r#"{"version":"1.0.0","gitHead":"--upload-pack=x","repository":"file:///etc"}"#,
            r#"{"version":"1.0.0","gitHead":7,"repository":{"url":["x"]}}"#,
            r#"{"version":"1.0.0","gitHead":null,"repository":null}"#,
        ] {
            let found = read(json).unwrap();
            assert_eq!((found.repository, found.commit), (None, None), "{json}");
        }
        for json in [r#"{"version":"../x"}"#, r#"{"version":7}"#, "[]", "x"] {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
