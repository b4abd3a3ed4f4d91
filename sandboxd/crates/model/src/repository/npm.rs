//! Packages of npm, and the repositories that they name.

use std::fmt;

use super::HttpsUrl;
use crate::{FieldError, limits};

/// Name of a package: `name` or `@scope/name`. Old packages may have upper-case letters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PackageName(String);

/// A version or a dist-tag of a package, such as `1.2.3` or `latest`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PackageVersion(String);

impl PackageName {
    /// Reads a name. `None` if it is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let name = match text.strip_prefix('@') {
            Some(scoped) => {
                let (scope, name) = scoped.split_once('/')?;
                is_part(scope).then_some(name)?
            }
            None => text,
        };
        let is_name = is_part(name) && text.len() <= limits::MAX_PACKAGE_NAME_BYTES;
        is_name.then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as one segment of a path, as registries expect it.
    pub fn as_segment(&self) -> String {
        self.0.replace('/', "%2f")
    }
}

impl fmt::Display for PackageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PackageVersion {
    /// Checks a version. `field` is the caller's name for it.
    pub fn parse(field: &str, text: &str) -> Result<Self, FieldError> {
        let max = limits::MAX_PACKAGE_VERSION_BYTES;
        let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"-._+".contains(&byte);
        let is_version = (1..=max).contains(&text.len())
            && text.bytes().all(is_char)
            && text.starts_with(|first: char| first.is_ascii_alphanumeric());
        let problem = || {
            format!(
                "must be a version such as 1.2.3: 1 to {max} letters, digits and -._+, beginning with a letter or digit"
            )
        };
        if is_version { Ok(Self(text.to_owned())) } else { Err(FieldError::new(field, problem())) }
    }

    /// The version.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The `https` address of a repository as packages name it: with `git+`, `git://`, `ssh://` or a forge's short form.
/// `None` if there is none.
pub fn normalized_url(text: &str, forge: &HttpsUrl) -> Option<HttpsUrl> {
    let text = text.trim().split('#').next()?;
    if let Some(short) = text.strip_prefix("github:") {
        return short_form(short, forge);
    }
    if let Some(short) = text.strip_prefix("gitlab:") {
        return short_form(short, &HttpsUrl::parse("https://gitlab.com").ok()?);
    }
    if let Some(short) = text.strip_prefix("bitbucket:") {
        return short_form(short, &HttpsUrl::parse("https://bitbucket.org").ok()?);
    }
    if !text.contains(':') {
        return short_form(text, forge);
    }
    let text = text.strip_prefix("git+").unwrap_or(text);
    // `git@host:owner/name`
    if let Some((user, path)) = text.split_once('@').filter(|(user, _)| !user.contains([':', '/']))
        && let Some((host, path)) = path.split_once(':')
        && !user.is_empty()
    {
        return HttpsUrl::parse(&format!("https://{host}/{path}")).ok();
    }
    let (scheme, rest) = text.split_once("://")?;
    if !["https", "http", "git", "ssh"].contains(&scheme) {
        return None;
    }
    let (authority, path) = rest.split_once('/')?;
    let host = authority.rsplit('@').next()?;
    // The ports of the other schemes are not those of https.
    let host = if scheme == "https" { host } else { host.split(':').next()? };
    HttpsUrl::parse(&format!("https://{host}/{path}")).ok().filter(|url| !url.path().is_empty())
}

fn short_form(text: &str, forge: &HttpsUrl) -> Option<HttpsUrl> {
    let (owner, name) = text.split_once('/')?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    HttpsUrl::parse(&format!("{forge}/{owner}/{name}.git"))
        .ok()
        .filter(|url| url.segments_below(forge).is_some_and(|segments| segments.len() == 2))
}

/// A part of a package's name.
fn is_part(text: &str) -> bool {
    let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_char) && !text.starts_with(['.', '_', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages_differ_from_other_texts() {
        for good in ["react", "lodash.merge", "@types/node", "a", "JSONStream"] {
            assert_eq!(PackageName::parse(good).unwrap().as_str(), good);
        }
        let long = "a".repeat(limits::MAX_PACKAGE_NAME_BYTES + 1);
        for bad in ["", ".a", "_a", "-a", "@a", "@/a", "@a/", "@a/b/c", "a/b", "a b", "ü", "..", &long] {
            assert_eq!(PackageName::parse(bad), None, "{bad:?}");
        }
        assert_eq!(PackageName::parse("@types/node").unwrap().as_segment(), "@types%2fnode");
    }

    #[test]
    fn a_version_fits_a_path() {
        for good in ["1.2.3", "1.0.0-beta.1+build", "latest", "next"] {
            assert!(PackageVersion::parse("version", good).is_ok(), "{good}");
        }
        for bad in ["", "^1.2.3", "1/..", "-1", "a b", "..", "%2f", &"1".repeat(257)] {
            assert!(PackageVersion::parse("version", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn all_forms_of_an_address_become_https() {
        let forge = HttpsUrl::parse("https://forge.example").unwrap();
        let url = |text: &str| normalized_url(text, &forge).map(|url| url.to_string());
        let git = Some("https://git.example/a/b.git".to_owned());
        for same in [
            "git+https://git.example/a/b.git",
            "git+https://git.example/a/b.git#main",
            "https://git.example/a/b.git",
            "http://git.example:8080/a/b.git",
            "git://git.example/a/b.git",
            "git+ssh://git@git.example/a/b.git",
            "ssh://git@git.example:22/a/b.git",
            "git@git.example:a/b.git",
            "https://user:word@git.example/a/b.git",
        ] {
            assert_eq!(url(same), git, "{same}");
        }
        let short = Some("https://forge.example/a/b.git".to_owned());
        assert_eq!((url("a/b"), url("github:a/b")), (short.clone(), short));
        assert_eq!(url("gitlab:a/b"), Some("https://gitlab.com/a/b.git".into()));
        for bad in
            ["", "a", "file:///etc", "ext::sh", "../..", "a/../b", "https://", "git+file:///x", "a/b/c"]
        {
            assert_eq!(url(bad), None, "{bad:?}");
        }
    }
}
