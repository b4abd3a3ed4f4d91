//! Validation of git's inputs: URLs of repositories, and names.

use secrecy::ExposeSecret;
use url::Url;

use super::super::{Error, GitUrlFault, Result};
use super::GitSeed;

/// Maximum length of a revision in bytes. Git stores refs as files, whose names may have 255 bytes including the suffix
/// `.lock`.
const MAX_REVISION_BYTES: usize = 250;

/// Maximum length of a URL, a user name and a token in bytes. All are environment variables of one command, which may
/// have 32 KiB of them.
const MAX_URL_BYTES: usize = 4096;
/// See [`MAX_URL_BYTES`].
const MAX_CREDENTIAL_BYTES: usize = 4096;

/// Maximum number of characters of an invalid revision in a message.
const SHOWN_CHARS: usize = 60;

impl GitSeed {
    /// Checks all inputs of git, before anything runs.
    pub(in crate::seed) fn check(&self) -> Result<Url> {
        let url = check_url(&self.url, self.allow_http).map_err(|fault| Error::BadGitUrl { fault })?;
        if let Some(revision) = &self.revision
            && !is_revision(revision)
        {
            return Err(Error::BadGitRevision { revision: revision.chars().take(SHOWN_CHARS).collect() });
        }
        if let Some(credentials) = &self.credentials {
            if url.scheme() != "https" {
                return Err(Error::TokenWithoutHttps);
            }
            let is_wrong = |text: &str| {
                text.is_empty() || text.len() > MAX_CREDENTIAL_BYTES || text.contains(char::is_control)
            };
            if is_wrong(&credentials.user) || is_wrong(credentials.token.expose_secret()) {
                return Err(Error::BadGitCredentials { limit_bytes: MAX_CREDENTIAL_BYTES });
            }
        }
        Ok(url)
    }
}

fn check_url(text: &str, allow_http: bool) -> std::result::Result<Url, GitUrlFault> {
    if text.len() > MAX_URL_BYTES {
        return Err(GitUrlFault::TooLong { limit_bytes: MAX_URL_BYTES });
    }
    // The parser would remove white space and control characters and replace backslashes with slashes. Git would not.
    let is_odd = |char: char| {
        char.is_whitespace() || char.is_control() || !char.is_ascii() || "\"'`\\<>{}|^".contains(char)
    };
    // When decoded, these escapes are control characters. Git's credential helpers use one line for each part of a
    // URL.
    let is_control = |code: &str| matches!(code.as_bytes(), [b'0' | b'1', _, ..] | [b'7', b'f' | b'F', ..]);
    if text.contains(is_odd) || text.split('%').skip(1).any(is_control) {
        return Err(GitUrlFault::OddCharacter);
    }
    let url = Url::parse(text).map_err(|_| GitUrlFault::NoUrl)?;
    match url.scheme() {
        "https" => {}
        "http" if allow_http => {}
        "http" => return Err(GitUrlFault::Http),
        _ => return Err(GitUrlFault::Scheme),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(GitUrlFault::Credentials);
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(GitUrlFault::NoUrl);
    }
    Ok(url)
}

/// Whether the text is a name that git-check-ref-format(1) allows, and that neither git nor a shell reads as an option,
/// a pattern or an expression.
fn is_revision(text: &str) -> bool {
    let is_odd =
        |char: char| char.is_whitespace() || char.is_control() || "~^:?*[\\@{\"'`$;&|<>()!#".contains(char);
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    text.len() <= MAX_REVISION_BYTES
        && !text.starts_with('-')
        && !text.ends_with('.')
        && !text.contains("..")
        && !text.contains(is_odd)
        && text.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::GitCredentials;
    use super::*;

    fn seed(url: &str) -> GitSeed {
        GitSeed {
            url: url.to_owned(),
            revision: None,
            credentials: None,
            allow_http: false,
            timeout: Duration::from_secs(60),
            max_bytes: 1 << 20,
        }
    }

    fn fault(url: &str) -> GitUrlFault {
        match seed(url).check() {
            Err(Error::BadGitUrl { fault }) => fault,
            checked => panic!("{url:?}: {checked:?}"),
        }
    }

    #[test]
    fn a_repository_is_cloned_over_https_only() {
        assert!(seed("https://git.example/a/b.git").check().is_ok());
        assert!(seed("https://git.example:8443/~me/b-c_d%20e?f=1").check().is_ok());
        for url in
            ["--upload-pack=touch", "-u", "", "git@git.example:a/b", "/etc", "git.example/a", "https://"]
        {
            assert_eq!(fault(url), GitUrlFault::NoUrl, "{url:?}");
        }
        for url in
            ["ext::sh", "ssh://git.example/a", "file:///etc", "git://git.example/a", "ftp://git.example/a"]
        {
            assert_eq!(fault(url), GitUrlFault::Scheme, "{url:?}");
        }
        for odd in [
            " ", "\n", "\t", "\0", "\"", "'", "`", "\\", "\u{a0}", "é", "{x}", "|", "%0a", "%0D", "%00",
            "%1f", "%7F",
        ] {
            assert_eq!(fault(&format!("https://git.example/a{odd}b")), GitUrlFault::OddCharacter, "{odd:?}");
        }
        assert_eq!(fault("ext::sh -c touch% /tmp/x"), GitUrlFault::OddCharacter);
        assert_eq!(fault("http://git.example/a"), GitUrlFault::Http);
        let long = format!("https://git.example/{}", "a".repeat(4096));
        assert_eq!(fault(&long), GitUrlFault::TooLong { limit_bytes: 4096 });
        assert!(GitSeed { allow_http: true, ..seed("http://git.example/a") }.check().is_ok());
    }

    #[test]
    fn a_password_in_a_url_is_rejected_and_not_repeated() {
        for url in
            ["https://me:hunter2@git.example/a", "https://hunter2@git.example/a", "https://hunter2 @git"]
        {
            let error = seed(url).check().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        assert_eq!(fault("https://me:hunter2@git.example/a"), GitUrlFault::Credentials);
    }

    #[test]
    fn a_revision_must_be_a_valid_name() {
        let checked = |revision: &str| {
            GitSeed { revision: Some(revision.to_owned()), ..seed("https://git.example/a") }.check()
        };
        for name in ["main", "v1.2.3", "feature/x-1", "refs/pull/1/head", "HEAD", "release_1+2", "äöü"] {
            assert!(checked(name).is_ok(), "{name}");
        }
        let others = [
            "", "-b", "--", "a b", "a\nb", "a..b", "a~1", "a^", "HEAD@{1}", "a:b", "a*", "/a", "a/", "a//b",
            ".a", "a/.b", "a.lock", "a.", "$(x)", "a;b", "a'b", "a\"b", "\u{7f}", "a\0",
        ];
        for text in others {
            assert!(matches!(checked(text), Err(Error::BadGitRevision { .. })), "{text:?}");
        }
        assert!(checked(&"x".repeat(250)).is_ok() && checked(&"x".repeat(251)).is_err());
    }

    #[test]
    fn a_token_needs_https_and_must_be_one_line() {
        let with = |url, token: &str| {
            let credentials = Some(GitCredentials::token(token.into()));
            GitSeed { credentials, allow_http: true, ..seed(url) }
        };
        assert!(with("https://git.example/a", "hunter2").check().is_ok());
        assert!(matches!(with("http://git.example/a", "hunter2").check(), Err(Error::TokenWithoutHttps)));
        let long = "hunter2".repeat(1000);
        for token in ["", "hunter2\nhost=evil.example", "hunter2\0", &long] {
            let seed = with("https://git.example/a", token);
            let error = seed.check().unwrap_err();
            assert!(matches!(error, Error::BadGitCredentials { .. }), "{token:?}");
            assert!(!format!("{error} {error:?} {seed:?}").contains("hunter2"), "{token:?}");
        }
    }
}
