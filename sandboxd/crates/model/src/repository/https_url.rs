//! Addresses of git servers and registries.

use std::fmt;

use crate::{Host, limits};

const SCHEME: &str = "https://";
const PORT: u16 = 443;

/// An `https` address without a user, a query and a fragment. Its path is empty or begins with `/`, does not end with one,
/// and has no empty segments, `.` or `..`. So it has one spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpsUrl {
    host: Host,
    port: u16,
    path: String,
}

impl HttpsUrl {
    /// Reads an address. The error is the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > limits::MAX_REPOSITORY_BYTES {
            return Err(format!("must be at most {} bytes long", limits::MAX_REPOSITORY_BYTES));
        }
        let is_https = text.get(..SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCHEME));
        if !is_https {
            return Err("must begin with https://".into());
        }
        let rest = &text[SCHEME.len()..];
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err("must not have a user or a password".into());
        }
        let (host, port) = split_port(authority).ok_or("must have a valid port")?;
        let host = Host::parse(host).map_err(|error| format!("has no valid host: it {error}"))?;
        let path = path.trim_end_matches('/');
        let segments = path.strip_prefix('/').map(|path| path.split('/'));
        if segments.is_some_and(|mut segments| !segments.all(is_segment)) {
            return Err("must have a path of letters, digits and -._~+@ between single slashes".into());
        }
        Ok(Self { host, port, path: path.to_owned() })
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port, 443 by default.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether another address has the same host and port.
    pub fn has_origin_of(&self, other: &Self) -> bool {
        (&self.host, self.port) == (&other.host, other.port)
    }

    /// An address below this one. `path` has valid segments between slashes.
    pub fn join(&self, path: &str) -> Self {
        Self { path: format!("{}/{path}", self.path), ..self.clone() }
    }

    /// Segments of the path below `base`. `None` if the address is elsewhere.
    pub fn segments_below(&self, base: &Self) -> Option<Vec<&str>> {
        if !self.has_origin_of(base) {
            return None;
        }
        let below = self.path.strip_prefix(&base.path)?.strip_prefix('/')?;
        Some(below.split('/').collect())
    }
}

impl fmt::Display for HttpsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.host.with_port(self.port);
        let authority = match self.port {
            PORT => authority.strip_suffix(":443").unwrap_or(&authority),
            _ => &authority,
        };
        write!(f, "{SCHEME}{authority}{}", self.path)
    }
}

/// The host and the port of an authority.
fn split_port(authority: &str) -> Option<(&str, u16)> {
    let after_host = authority.rfind(']').map_or(0, |end| end + 1);
    match authority[after_host..].find(':') {
        None => Some((authority, PORT)),
        Some(at) => {
            let (host, port) = authority.split_at(after_host + at);
            let port = &port[1..];
            let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let port = port.parse().ok().filter(|port| is_number && *port > 0)?;
            Some((host, port))
        }
    }
}

fn is_segment(segment: &str) -> bool {
    let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+@".contains(&byte);
    !segment.is_empty() && segment != "." && segment != ".." && segment.bytes().all(is_char)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        HttpsUrl::parse(text).map(|url| url.to_string())
    }

    #[test]
    fn an_address_has_one_spelling() {
        let git = || Ok("https://git.example/a/b.git".to_owned());
        assert_eq!(shown("https://git.example/a/b.git"), git());
        assert_eq!(shown("HTTPS://Git.Example.:443/a/b.git/"), git());
        assert_eq!(shown("https://git.example"), Ok("https://git.example".into()));
        assert_eq!(shown("https://git.example:8443/a"), Ok("https://git.example:8443/a".into()));
        assert_eq!(shown("https://[::1]:444/a"), Ok("https://[::1]:444/a".into()));
        assert_eq!(shown("https://[::1]/a"), Ok("https://[::1]/a".into()));
    }

    #[test]
    fn only_plain_https_addresses_are_accepted() {
        for bad in [
            "http://git.example/a",
            "ssh://git.example/a",
            "git@git.example:a/b",
            "file:///etc/passwd",
            "ext::sh -c x",
            "https:/git.example/a",
            "https://",
            "https://user:word@git.example/a",
            "https://git.example/a?x=1",
            "https://git.example/a#x",
            "https://git.example/../a",
            "https://git.example/a/./b",
            "https://git.example//a",
            "https://git.example/a%2f..",
            "https://git.example/a b",
            "https://git.example/a\nHost: x",
            "https://git.example\\@other.example/a",
            "https://git.example:/a",
            "https://git.example:0/a",
            "https://git.example:+1/a",
            "https://git.example:65536/a",
            "https://2130706433/a",
            "https://0x7f.1/a",
            "--upload-pack=x",
        ] {
            assert!(shown(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn segments_are_those_below_the_same_origin() {
        let base = HttpsUrl::parse("https://git.example/git").unwrap();
        let below = |text: &str| {
            let url = HttpsUrl::parse(text).unwrap();
            url.segments_below(&base).map(|found| found.join(" "))
        };
        assert_eq!(below("https://git.example/git/a/b"), Some("a b".into()));
        assert_eq!(below("https://git.example/gita/b"), None);
        assert_eq!(below("https://git.example:444/git/a"), None);
    }
}
