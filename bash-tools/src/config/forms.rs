//! Syntax of texts: URLs, paths, variable names and others.
//!
//! An error never repeats a text that may contain a password by mistake.

use std::net::IpAddr;
use std::path::PathBuf;

use globset::GlobBuilder;
use ipnet::IpNet;
use sandbox_api::limits::MAX_NETWORK_RULE_BYTES;
use url::Url;

use super::fault::{Problem, shown};

/// Maximum length of a runtime's name.
const MAX_RUNTIME_CHARS: usize = 64;
/// Maximum length of a revision. A ref is a file whose name has at most 255 bytes, and git appends `.lock` to it.
const MAX_REVISION_BYTES: usize = 250;

/// Base URL of an HTTP API.
pub(super) fn orchestrator_url(text: &str) -> Result<Url, Problem> {
    const WANTED: &str =
        "an http or https URL without a name, password, query or fragment, such as http://127.0.0.1:8080";
    let mut url = http_url(text, WANTED)?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Problem::Undisclosed { wanted: WANTED });
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// URL of a repository. Callers decide whether `http` is allowed.
pub(super) fn git_url(text: &str) -> Result<Url, Problem> {
    http_url(
        text,
        "an https URL of a git repository, without a name and password, which git_token_env is for",
    )
}

fn http_url(text: &str, wanted: &'static str) -> Result<Url, Problem> {
    // The parser would remove white space and control characters and replace backslashes with slashes. Other programs
    // would not.
    let is_odd = |char: char| char.is_whitespace() || char.is_control() || char == '\\';
    let url = Url::parse(text).ok().filter(|_| !text.contains(is_odd));
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.filter(|url| url.username().is_empty() && url.password().is_none());
    match url {
        Some(url) => Ok(url),
        None if text.contains('@') => Err(Problem::Undisclosed { wanted }),
        None => Err(Problem::Malformed { wanted, found: shown(text) }),
    }
}

/// Branch, tag or commit: a name that `git check-ref-format` allows and that git does not read as an option or an
/// expression.
pub(super) fn git_revision(text: &str) -> Result<String, Problem> {
    let is_odd =
        |char: char| char.is_whitespace() || char.is_control() || "~^:?*[\\@{\"'`$;&|<>()!#".contains(char);
    let is_wrong_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let is_wrong = text.len() > MAX_REVISION_BYTES
        || text.starts_with('-')
        || text.ends_with('.')
        || text.contains("..")
        || text.contains(is_odd)
        || text.split('/').any(is_wrong_part);
    match is_wrong {
        true => Err(malformed("the name of a branch or tag, or a commit", text)),
        false => Ok(text.to_owned()),
    }
}

/// Name of an environment variable. Anything else may be the secret itself.
pub(super) fn variable(text: &str) -> Result<String, Problem> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = text.bytes().all(is_part) && !text.is_empty() && !text.as_bytes()[0].is_ascii_digit();
    match is_name {
        true => Ok(text.to_owned()),
        false => Err(Problem::Undisclosed {
            wanted: "the name of an environment variable (letters, digits and underscores), not the secret itself",
        }),
    }
}

pub(super) fn absolute_path(text: &str) -> Result<PathBuf, Problem> {
    let path = PathBuf::from(text);
    match path.is_absolute() && !text.contains('\0') {
        true => Ok(path),
        false => Err(malformed("an absolute path", text)),
    }
}

/// Entry of a network's list. sandboxd checks it more strictly.
pub(super) fn network_rule(text: &str) -> Result<String, Problem> {
    if text.len() > MAX_NETWORK_RULE_BYTES {
        return Err(Problem::TooLong { limit: MAX_NETWORK_RULE_BYTES, found: text.len() });
    }
    let is_odd = |char: char| char.is_whitespace() || char.is_control() || "/@?#\\".contains(char);
    match text.is_empty() || text.contains(is_odd) {
        true => {
            Err(malformed("a host, such as registry.npmjs.org, *.example.com or git.example.net:22", text))
        }
        false => Ok(text.to_owned()),
    }
}

/// Name that Vercel may use for a runtime.
pub(super) fn runtime(text: &str) -> Result<String, Problem> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    match text.len() <= MAX_RUNTIME_CHARS && text.bytes().all(is_part) {
        true => Ok(text.to_owned()),
        false => Err(malformed("the name of a runtime, such as node24", text)),
    }
}

pub(super) fn glob(text: &str) -> Result<String, Problem> {
    match GlobBuilder::new(text).literal_separator(true).build() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(malformed("a glob, such as **/*.{ts,json}", text)),
    }
}

/// Range of addresses. A single address is a range of one. The range of all addresses is rejected, because it would
/// trust everyone.
pub(super) fn addresses(text: &str) -> Result<IpNet, Problem> {
    let range = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    match range.map(|range| without_mapping(range.trunc())) {
        Ok(range) if range.prefix_len() > 0 => Ok(range),
        _ => Err(malformed("an address or a range of addresses, such as 10.0.0.0/8", text)),
    }
}

/// Converts IPv4 in IPv6 form to IPv4, like the addresses that are compared with it (RFC 4291 section 2.5.5.2).
fn without_mapping(range: IpNet) -> IpNet {
    let mapped = range.prefix_len().checked_sub(96).zip(match range.addr() {
        IpAddr::V6(address) => address.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    });
    mapped.and_then(|(prefix, address)| IpNet::new(address.into(), prefix).ok()).unwrap_or(range)
}

fn malformed(wanted: &'static str, text: &str) -> Problem {
    Problem::Malformed { wanted, found: shown(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_slashes_of_a_url_are_removed() {
        let url = |text| orchestrator_url(text).unwrap().to_string();
        assert_eq!(url("http://127.0.0.1:8080///"), "http://127.0.0.1:8080/");
        assert_eq!(url("https://Sandboxd.lan/under//"), "https://sandboxd.lan/under");
    }

    #[test]
    fn possible_passwords_are_not_repeated() {
        for text in ["https://me:hunter2@git.lan/x", "https://hunter2@git.lan", "https://me:hunter2@ho st/x"]
        {
            for problem in [git_url(text).unwrap_err(), orchestrator_url(text).unwrap_err()] {
                assert!(!format!("{problem} {problem:?}").contains("hunter2"), "{problem}");
            }
        }
        let problem = variable("hunter2-hunter2").unwrap_err();
        assert!(!format!("{problem} {problem:?}").contains("hunter2"));
    }

    #[test]
    fn a_repository_has_an_http_url_without_credentials() {
        assert!(git_url("https://github.com/a/b.git").is_ok());
        let others = [
            "ext::sh -c touch% /tmp/x",
            "--upload-pack=touch",
            "-u",
            "git@github.com:a/b.git",
            "ssh://git@github.com/a/b",
            "file:///etc",
            "/etc",
            "https://github.com/a b",
            "https://github.com/a\nb",
            "https:\\\\github.com\\a",
            "https://",
            " https://github.com/a/b",
        ];
        for text in others {
            assert!(git_url(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_revision_must_be_a_valid_name() {
        for name in
            ["main", "v1.2.3", "feature/x-1", "0123456789abcdef0123456789abcdef01234567", "release_1+2"]
        {
            assert_eq!(git_revision(name).as_deref(), Ok(name));
        }
        let others = [
            "-b", "--", "a b", "a\nb", "a..b", "a~1", "a^", "HEAD@{1}", "a:b", "a*", "/a", "a/", "a//b",
            ".a", "a/.b", "a.lock", "a.", "$(x)", "a;b", "a'b", "\u{7f}",
        ];
        for text in others {
            assert!(git_revision(text).is_err(), "{text:?}");
        }
        assert!(git_revision(&"x".repeat(251)).is_err());
    }

    #[test]
    fn addresses_and_ranges_are_parsed() {
        assert_eq!(addresses("10.1.2.3").unwrap().to_string(), "10.1.2.3/32");
        assert_eq!(addresses("10.1.2.3/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(addresses("::ffff:10.1.2.3").unwrap().to_string(), "10.1.2.3/32");
        assert_eq!(addresses("::ffff:10.0.0.0/104").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(addresses("fd00::1/8").unwrap().to_string(), "fd00::/8");
        for text in ["0.0.0.0/0", "::/0", "::ffff:0:0/96", "10.0.0.0/33", "proxy.lan", ""] {
            assert!(addresses(text).is_err(), "{text:?}");
        }
    }
}
