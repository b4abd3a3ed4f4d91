//! What a request means by a repository.

use super::{DirectoryName, HttpsUrl, PackageName};
use crate::{FieldError, limits};

/// Field of the request.
const FIELD: &str = "repository";

/// Where a repository is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepositorySource {
    /// At an address of a git server.
    Git(HttpsUrl),
    /// At the address that a package names.
    Npm(PackageName),
    /// In a directory of the operator.
    Directory(DirectoryName),
}

impl RepositorySource {
    /// Reads `owner/name`, which is at the forge, an `https` address, the name of an npm package, or `dir:name`.
    pub fn parse(text: &str, forge: &HttpsUrl) -> Result<Self, FieldError> {
        let max = limits::MAX_REPOSITORY_BYTES;
        if text.is_empty() || text.len() > max {
            return Err(FieldError::new(FIELD, format!("must be 1 to {max} bytes long")));
        }
        if let Some(name) = text.strip_prefix(DirectoryName::PREFIX) {
            let name = DirectoryName::parse(name).map_err(|problem| FieldError::new(FIELD, problem))?;
            return Ok(Self::Directory(name));
        }
        if text.contains(':') {
            let url = HttpsUrl::parse(text).map_err(|problem| FieldError::new(FIELD, problem))?;
            return match url.path() {
                "" => Err(FieldError::new(FIELD, "must have a path")),
                _ => Ok(Self::Git(at_forge(url, forge))),
            };
        }
        if let Some(package) = PackageName::parse(text) {
            return Ok(Self::Npm(package));
        }
        match text.split_once('/') {
            Some((owner, name)) if is_name(owner) && is_name(name) => {
                Ok(Self::Git(at_forge(forge.join(text), forge)))
            }
            _ => Err(FieldError::new(
                FIELD,
                "must be `owner/name`, an address that begins with https://, the name of an npm package, or `dir:name`",
            )),
        }
    }
}

/// Adds `.git` to an address of the forge, so that all spellings of one repository have one address.
fn at_forge(url: HttpsUrl, forge: &HttpsUrl) -> HttpsUrl {
    let is_bare = matches!(url.segments_below(forge).as_deref(), Some([_, name]) if !name.ends_with(".git"));
    if is_bare { with_suffix(&url, ".git") } else { url }
}

fn with_suffix(url: &HttpsUrl, suffix: &str) -> HttpsUrl {
    // The path was checked, and the suffix has only valid characters.
    HttpsUrl::parse(&format!("{url}{suffix}")).unwrap_or_else(|_| url.clone())
}

/// A name of a user or a repository, as forges allow them.
fn is_name(text: &str) -> bool {
    let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_inner = text.bytes().all(is_char) && !text.contains("..");
    !text.is_empty() && is_inner && !text.starts_with(['-', '.'])
}

/// Tags that a version may have, the likeliest first. `name` is that of the package or the repository.
pub fn tags_for(name: &str, version: &str) -> Vec<String> {
    let base = name.rsplit('/').next().unwrap_or(name);
    let mut tags = vec![
        format!("v{version}"),
        version.to_owned(),
        format!("release-{version}"),
        format!("{base}@{version}"),
        format!("{name}@{version}"),
        format!("{base}-v{version}"),
        format!("{base}-{version}"),
    ];
    tags.dedup();
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, String> {
        let forge = HttpsUrl::parse("https://forge.example").unwrap();
        match RepositorySource::parse(text, &forge) {
            Ok(RepositorySource::Git(url)) => Ok(url.to_string()),
            Ok(RepositorySource::Npm(name)) => Ok(format!("npm {name}")),
            Ok(RepositorySource::Directory(name)) => Ok(format!("directory {name}")),
            Err(error) => Err(error.problem),
        }
    }

    #[test]
    fn a_repository_of_the_forge_has_one_address() {
        for same in ["a/b", "a/b.git", "https://forge.example/a/b", "https://FORGE.example/a/b.git/"] {
            assert_eq!(parse(same), Ok("https://forge.example/a/b.git".into()), "{same}");
        }
        assert_eq!(parse("https://other.example/x/y/z"), Ok("https://other.example/x/y/z".into()));
        assert_eq!(parse("a-1/b.c_d"), Ok("https://forge.example/a-1/b.c_d.git".into()));
    }

    #[test]
    fn a_name_without_an_owner_is_a_package() {
        assert_eq!(parse("left-pad"), Ok("npm left-pad".into()));
        assert_eq!(parse("@scope/name"), Ok("npm @scope/name".into()));
    }

    #[test]
    fn a_directory_has_a_prefix() {
        assert_eq!(parse("dir:app"), Ok("directory dir:app".into()));
        assert_eq!(parse("dir"), Ok("npm dir".into()));
        assert_eq!(parse("dir/app"), Ok("https://forge.example/dir/app.git".into()));
    }

    #[test]
    fn other_texts_are_rejected() {
        for bad in [
            "",
            "--upload-pack=x",
            "--upload-pack=x/y",
            "a/--b",
            "-a/b",
            "a/..",
            "../b",
            "a/b/c",
            "/a/b",
            "a/",
            "a b/c",
            "a/b\n",
            "file:///etc",
            "ssh://git@x/y",
            "git@x:y/z",
            "http://forge.example/a/b",
            "https://forge.example",
            "ext::sh",
            "@scope",
            "a\0/b",
            "dir:",
            "dir:/etc",
            "dir:..",
            "dir:a/b",
            "Dir:app",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tags_of_a_version_are_in_the_order_in_which_projects_use_them() {
        let tags = tags_for("@scope/tool", "1.2.3");
        assert_eq!(tags[..5], ["v1.2.3", "1.2.3", "release-1.2.3", "tool@1.2.3", "@scope/tool@1.2.3"]);
    }
}
