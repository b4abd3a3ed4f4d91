//! Links to previews, and their URLs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use sandbox_api::port::LinkStyle;
use sandbox_api::{LinkId, SandboxId, TokenId};

/// Characters of a token: 160 bits, 5 bits per character.
pub const TOKEN_CHARS: usize = 32;

/// First label of the host name of downloads. A preview's begins with a number.
const DOWNLOADS: &str = "downloads";

/// The alphabet of RFC 4648 section 6 in lower case, because host names are case-insensitive.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The token that opens a preview. It is the only credential.
#[derive(Clone, PartialEq, Eq)]
pub struct PreviewToken(String);

impl PreviewToken {
    /// The token for these bytes.
    pub fn new(bytes: [u8; 20]) -> Self {
        let mut text = String::with_capacity(TOKEN_CHARS);
        for group in bytes.chunks_exact(5) {
            let number = group.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
            text.extend((0..8).rev().map(|at| char::from(ALPHABET[(number >> (at * 5)) as usize & 31])));
        }
        Self(text)
    }

    /// Reads a token from a request. `None` if it cannot be one.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let fits = text.len() == TOKEN_CHARS && text.bytes().all(|byte| ALPHABET.contains(&byte));
        fits.then_some(Self(text))
    }

    /// The token as it is written in a URL. Must not be logged.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PreviewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreviewToken(…)")
    }
}

/// A link in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRecord {
    /// Id of the link. Its token is derived from the id.
    pub id: LinkId,
    /// Sandbox that the link leads to.
    pub sandbox: SandboxId,
    /// Port in the sandbox.
    pub port: u16,
    /// Whether the link has a host name or a port of its own.
    pub style: LinkStyle,
    /// Listening port of a link with the style `LinkStyle::Port`.
    pub own_port: Option<u16>,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Milliseconds since the Unix epoch. `None` means as long as the sandbox exists.
    pub expires_at_ms: Option<i64>,
    /// Why the link ended, and when in milliseconds since the Unix epoch.
    pub ended: Option<(LinkEnd, i64)>,
    /// The project token that made it, with which it ends. `None` for other tokens.
    pub token: Option<TokenId>,
}

/// Why a link ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEnd {
    /// It expired.
    Expired,
    /// It was revoked.
    Revoked,
    /// Its sandbox was deleted.
    SandboxGone,
}

impl LinkEnd {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::Expired, Self::Revoked, Self::SandboxGone];

    /// The name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::SandboxGone => "sandbox_gone",
        }
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.as_str() == text)
    }
}

/// How a port is made reachable if the caller does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// With a link through the gateway.
    #[default]
    Gateway,
    /// With a port that the engine publishes on the host.
    Publish,
}

impl Reach {
    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "gateway" => Some(Self::Gateway),
            "publish" => Some(Self::Publish),
            _ => None,
        }
    }
}

/// Addresses of previews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewSettings {
    /// How a port is made reachable if the caller does not say.
    pub reach: Reach,
    /// Listen address of the gateway. Links with their own port use the same address.
    pub bind: SocketAddr,
    /// Domain whose subdomains resolve to the gateway. Lower case, without leading and trailing dots.
    pub domain: String,
    /// The reverse proxy in front of the gateway, if there is one.
    pub front: Option<Front>,
    /// Ports for links with their own port.
    pub link_ports: RangeInclusive<u16>,
    /// Host name for visitors, if the operator set one.
    pub public_host: Option<String>,
    /// Whether a reverse proxy serves published ports and links' own ports with `https`.
    pub is_https: bool,
    /// Host address of published ports.
    pub publish_ip: IpAddr,
    /// Listen address of the API.
    pub api_host: IpAddr,
}

/// Scheme and port of a reverse proxy in front of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Front {
    /// `https` or `http`.
    pub is_https: bool,
    /// `None` means the scheme's default port.
    pub port: Option<u16>,
}

impl PreviewSettings {
    /// The style of a link if its creator does not choose one. It is a host name if host names lead to the gateway:
    /// on this machine, or for a domain that the operator set.
    pub fn default_style(&self) -> LinkStyle {
        let is_local = self.bind.ip().is_loopback();
        if is_local || self.front.is_some() || self.domain != "localhost" {
            LinkStyle::Host
        } else {
            LinkStyle::Port
        }
    }

    /// The origin of a preview with a host name.
    pub fn host_origin(&self, port: u16, token: &PreviewToken) -> String {
        self.named_origin(&format!("{port}-{}", token.expose()))
    }

    /// The URL of a link that downloads a file, which has this path. It leads to the gateway's own listener, never to a
    /// preview's origin or the API's.
    pub fn download_url(&self, path: &str, request_host: Option<&str>) -> String {
        let origin = match self.default_style() {
            LinkStyle::Host => self.named_origin(DOWNLOADS),
            LinkStyle::Port => self.port_origin(self.bind.ip(), self.bind.port(), request_host),
        };
        format!("{origin}{path}")
    }

    /// The origin of the gateway under a label below the domain.
    fn named_origin(&self, label: &str) -> String {
        let Front { is_https, port } =
            self.front.unwrap_or(Front { is_https: false, port: Some(self.bind.port()) });
        let scheme = scheme(is_https);
        match port {
            Some(port) => format!("{scheme}://{label}.{}:{port}", self.domain),
            None => format!("{scheme}://{label}.{}", self.domain),
        }
    }

    /// The origin of a host port that is bound to `bound`, for a client that used the host name `request_host`
    /// (without its port).
    pub fn port_origin(&self, bound: IpAddr, port: u16, request_host: Option<&str>) -> String {
        format!("{}://{}:{port}", scheme(self.is_https), self.public_name(bound, request_host))
    }

    /// Tries the sources in the order of the original daemon. They are the operator's host name, the bound address,
    /// the client's name for the daemon, the listen address of the API, and this machine.
    fn public_name(&self, bound: IpAddr, request_host: Option<&str>) -> String {
        let of = |address: IpAddr| (!address.is_unspecified()).then(|| in_url(address));
        self.public_host
            .clone()
            .or_else(|| of(bound))
            .or_else(|| request_host.filter(|host| !host.is_empty()).map(str::to_owned))
            .or_else(|| of(self.api_host))
            .unwrap_or_else(|| in_url(Ipv4Addr::LOCALHOST.into()))
    }
}

fn scheme(is_https: bool) -> &'static str {
    if is_https { "https" } else { "http" }
}

fn in_url(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// The name of a style in the store and in queries.
pub fn style_name(style: LinkStyle) -> &'static str {
    match style {
        LinkStyle::Host => "host",
        LinkStyle::Port => "port",
    }
}

/// Reads a style's name.
pub fn style(text: &str) -> Option<LinkStyle> {
    [LinkStyle::Host, LinkStyle::Port].into_iter().find(|style| style_name(*style) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> PreviewSettings {
        PreviewSettings {
            reach: Reach::Gateway,
            bind: "127.0.0.1:8081".parse().unwrap(),
            domain: "localhost".into(),
            front: None,
            link_ports: 42000..=42099,
            public_host: None,
            is_https: false,
            publish_ip: Ipv4Addr::LOCALHOST.into(),
            api_host: Ipv4Addr::LOCALHOST.into(),
        }
    }

    #[test]
    fn a_link_with_a_host_name_has_its_own_origin() {
        let (token, mut settings) = (PreviewToken::new([0; 20]), settings());
        let text = "a".repeat(32);
        assert_eq!(settings.host_origin(3000, &token), format!("http://3000-{text}.localhost:8081"));
        settings.domain = "box.example".into();
        settings.front = Some(Front { is_https: true, port: None });
        assert_eq!(settings.host_origin(1, &token), format!("https://1-{text}.box.example"));
        assert!(format!("65535-{text}").len() <= 63, "a label of a host name (RFC 1035)");
    }

    #[test]
    fn a_download_has_an_origin_that_no_preview_has() {
        let url = |settings: &PreviewSettings| settings.download_url("/download/t/b.pdf", Some("requested"));
        assert_eq!(url(&settings()), "http://downloads.localhost:8081/download/t/b.pdf");
        let front = Some(Front { is_https: true, port: None });
        let named = PreviewSettings { domain: "box.example".into(), front, ..settings() };
        assert_eq!(url(&named), "https://downloads.box.example/download/t/b.pdf");
        let lan = PreviewSettings { bind: "0.0.0.0:8081".parse().unwrap(), ..settings() };
        assert_eq!(url(&lan), "http://requested:8081/download/t/b.pdf");
        let public = PreviewSettings { public_host: Some("box.lan".into()), is_https: true, ..lan };
        assert_eq!(url(&public), "https://box.lan:8081/download/t/b.pdf");
    }

    #[test]
    fn without_resolvable_host_names_a_link_uses_a_port() {
        let style = |bind: &str, domain: &str| {
            PreviewSettings { bind: bind.parse().unwrap(), domain: domain.into(), ..settings() }
                .default_style()
        };
        assert_eq!(style("127.0.0.1:8081", "localhost"), LinkStyle::Host);
        assert_eq!(style("0.0.0.0:8081", "localhost"), LinkStyle::Port);
        assert_eq!(style("0.0.0.0:8081", "box.example"), LinkStyle::Host);
    }

    /// The rows of the original daemon's table, from the first match to the last.
    #[test]
    fn the_first_known_name_is_used_for_a_published_port() {
        let any: IpAddr = Ipv4Addr::UNSPECIFIED.into();
        let lan: IpAddr = Ipv4Addr::new(192, 168, 1, 5).into();
        let origin = |settings: &PreviewSettings, bound, host| settings.port_origin(bound, 42000, host);
        let named = PreviewSettings { public_host: Some("box.lan".into()), ..settings() };
        assert_eq!(origin(&named, lan, Some("requested")), "http://box.lan:42000");
        assert_eq!(origin(&settings(), lan, Some("requested")), "http://192.168.1.5:42000");
        assert_eq!(origin(&settings(), any, Some("requested")), "http://requested:42000");
        assert_eq!(
            origin(&PreviewSettings { api_host: lan, ..settings() }, any, None),
            "http://192.168.1.5:42000"
        );
        assert_eq!(
            origin(&PreviewSettings { api_host: any, ..settings() }, any, None),
            "http://127.0.0.1:42000"
        );
        let secure = PreviewSettings { is_https: true, ..settings() };
        assert_eq!(origin(&secure, "::1".parse().unwrap(), None), "https://[::1]:42000");
    }

    #[test]
    fn a_token_is_base32_without_case() {
        assert_eq!(PreviewToken::new([0; 20]).expose(), "a".repeat(32));
        assert_eq!(PreviewToken::new([255; 20]).expose(), "7".repeat(32));
        // RFC 4648 section 10: "fooba" is MZXW6YTB.
        assert_eq!(PreviewToken::new(*b"foobafoobafoobafooba").expose(), "mzxw6ytb".repeat(4));
        let token = PreviewToken::new([7; 20]);
        assert_eq!(PreviewToken::parse(&token.expose().to_uppercase()), Some(token.clone()));
        for wrong in ["", "mzxw6ytb", &"1".repeat(32), &"a".repeat(33), &"é".repeat(16)] {
            assert_eq!(PreviewToken::parse(wrong), None, "{wrong}");
        }
        assert!(!format!("{token:?}").contains(token.expose()));
    }
}
