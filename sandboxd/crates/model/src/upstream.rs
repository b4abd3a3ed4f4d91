//! Proxies of the operator's network, through which the daemon connects to the outside.

use std::fmt;

use http::Uri;
use ipnet::IpNet;

use super::Host;

const HTTP_PORT: u16 = 80;

/// A proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Upstream {
    host: String,
    port: u16,
    /// Name and password, with `:` between them.
    user: Option<String>,
}

/// The proxies, and the hosts that bypass them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Upstreams {
    /// For connections to port 80.
    pub http: Option<Upstream>,
    /// For connections to every other port.
    pub https: Option<Upstream>,
    /// Hosts that are connected to without a proxy.
    pub none_for: Vec<NoProxy>,
}

/// Hosts without a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoProxy {
    /// All hosts.
    All,
    /// A name and its subdomains.
    Domain(String),
    /// Addresses. They match a host that is given as an address.
    Addresses(IpNet),
}

impl Upstreams {
    /// The proxy for a connection; `None` if it bypasses them. If only one proxy is set, it is used for every port.
    pub fn of(&self, host: &Host, port: u16) -> Option<&Upstream> {
        if self.none_for.iter().any(|none| none.includes(host)) {
            return None;
        }
        let (first, second) =
            if port == HTTP_PORT { (&self.http, &self.https) } else { (&self.https, &self.http) };
        first.as_ref().or(second.as_ref())
    }
}

impl NoProxy {
    /// Reads one entry of `NO_PROXY`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "*" {
            return Some(Self::All);
        }
        if let Ok(cidr) = text.parse::<IpNet>() {
            return Some(Self::Addresses(cidr));
        }
        match Host::parse(text.trim_start_matches("*.").trim_start_matches('.')).ok()? {
            Host::Name(name) => Some(Self::Domain(name)),
            Host::Address(address) => Some(Self::Addresses(address.into())),
        }
    }

    fn includes(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::All, _) => true,
            (Self::Domain(domain), Host::Name(name)) => {
                name.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            (Self::Addresses(range), Host::Address(address)) => range.contains(address),
            (Self::Domain(_), Host::Address(_)) | (Self::Addresses(_), Host::Name(_)) => false,
        }
    }
}

impl Upstream {
    /// Reads `http://[user:password@]host[:port]`; the problem otherwise, as the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fault = || "must be http://host:port, perhaps with user:password@ before the host".to_owned();
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = text.parse().map_err(|_| fault())?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http")).ok_or_else(fault)?;
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        let user = user.map(|user| percent_encoding::percent_decode_str(user).decode_utf8().map(Into::into));
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(fault());
        }
        let port = authority.port_u16().unwrap_or(HTTP_PORT);
        Ok(Self { host: host.to_owned(), port, user: user.transpose().map_err(|_| fault())? })
    }

    /// Host name or address of the proxy.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port of the proxy.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Name and password for the proxy, with `:` between them.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }
}

impl fmt::Display for Upstream {
    /// Without name and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = if self.user.is_some() { "…@" } else { "" };
        write!(f, "http://{user}{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upstream({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_url_whose_password_is_not_shown() {
        let proxy = Upstream::parse("http://me:p%40ss@proxy.lan:3128/").unwrap();
        assert_eq!(proxy.user.as_deref(), Some("me:p@ss"));
        assert_eq!(format!("{proxy} {proxy:?}"), "http://…@proxy.lan:3128 Upstream(http://…@proxy.lan:3128)");
        assert_eq!(Upstream::parse("proxy:8080").unwrap().to_string(), "http://proxy:8080");
        assert_eq!(Upstream::parse("http://[::1]:8080").unwrap().host, "::1");
        for bad in ["https://proxy:1", "socks5://proxy:1", "http://", "http://a b"] {
            assert!(Upstream::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_proxy_names_hosts_domains_and_ranges() {
        let none_for = ["localhost", ".lan", "*.corp.example", "10.0.0.0/8", "192.168.1.1"];
        let proxy = Some(Upstream::parse("proxy:1").unwrap());
        let upstreams = Upstreams {
            http: None,
            https: proxy,
            none_for: none_for.map(|text| NoProxy::parse(text).unwrap()).into(),
        };
        let is_direct = |host: &str| upstreams.of(&Host::parse(host).unwrap(), 80).is_none();
        for host in ["localhost", "git.lan", "lan", "a.b.corp.example", "10.1.2.3", "192.168.1.1"] {
            assert!(is_direct(host), "{host}");
        }
        for host in ["notlan", "corp.example.org", "11.0.0.1", "192.168.1.2"] {
            assert!(!is_direct(host), "{host}");
        }
    }
}
