//! What a sandbox may reach: its mode, and the hosts that are named for it. Whether an address is public is not known
//! here.

use std::fmt;

use sandbox_api::network::DenialReason;
use sandbox_api::sandbox::Network;

use super::host::Host;
use super::{FieldError, limits};

/// Ports of a host where no other is named.
pub const WEB_PORTS: [u16; 2] = [80, 443];

/// Which kind of policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetworkMode {
    /// The public internet.
    #[default]
    Default,
    /// Named hosts.
    Allowlist,
    /// Nothing.
    None,
    /// Whatever the host's network reaches, through a bridge and not through the daemon.
    Open,
}

impl NetworkMode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Default, Self::Allowlist, Self::None, Self::Open];

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Allowlist => "allowlist",
            Self::None => "none",
            Self::Open => "open",
        }
    }

    /// Reads a name; `field` is what the caller called it.
    pub fn parse(text: &str, field: &str) -> Result<Self, FieldError> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| FieldError::new(field, "must be `default`, `allowlist`, `none` or `open`"))
    }
}

/// What a sandbox may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// Which kind.
    pub mode: NetworkMode,
    /// Named hosts and ports: all there is with `allowlist`, and more ports and addresses with `default`.
    pub allow: Vec<Rule>,
}

/// What a caller wants of a policy; what is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkWish {
    mode: Option<NetworkMode>,
    allow: Option<Vec<Rule>>,
}

/// A host that may be reached, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    hosts: Hosts,
    /// `None` is [`WEB_PORTS`].
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    /// Every name, and no address.
    AnyName,
    One(Host),
    /// Names with one or more labels before this one.
    Beneath(String),
}

impl NetworkPolicy {
    /// Whether a process may connect there, as far as host and port go. `is_opened` is an address that the operator has
    /// opened to all sandboxes.
    pub fn judge(&self, host: &Host, port: u16, is_opened: bool) -> Result<(), DenialReason> {
        // What is open does not ask the daemon; where it does, it gets no more than by itself.
        if matches!(self.mode, NetworkMode::None | NetworkMode::Open) {
            return Err(DenialReason::Off);
        }
        let (mut is_named, mut is_web_or_named) = (false, false);
        for rule in self.allow.iter().filter(|rule| rule.hosts.include(host)) {
            is_named = true;
            is_web_or_named |= rule.port.map_or(WEB_PORTS.contains(&port), |named| named == port);
        }
        let is_public_name = matches!(host, Host::Name(_)) && self.mode == NetworkMode::Default;
        let is_open = is_public_name || (is_opened && self.mode == NetworkMode::Default);
        match host {
            _ if is_web_or_named || (is_open && WEB_PORTS.contains(&port)) => Ok(()),
            _ if is_named || is_open => Err(DenialReason::PortNotAllowed),
            Host::Name(_) => Err(DenialReason::HostNotAllowed),
            Host::Address(_) => Err(DenialReason::AddressNotAllowed),
        }
    }

    /// Whether the sandbox has a network interface instead of the daemon's way out.
    pub fn is_open(&self) -> bool {
        self.mode == NetworkMode::Open
    }

    /// With what a caller wants of it.
    pub fn with(mut self, wish: &NetworkWish) -> Self {
        self.mode = wish.mode.unwrap_or(self.mode);
        if let Some(allow) = &wish.allow {
            self.allow.clone_from(allow);
        }
        self
    }

    /// The rules as they are written.
    pub fn allow_texts(&self) -> Vec<String> {
        self.allow.iter().map(ToString::to_string).collect()
    }

    /// Reads what [`allow_texts`](Self::allow_texts) wrote; `None` where it is something else.
    pub fn from_texts(mode: NetworkMode, allow: &[String]) -> Option<Self> {
        let allow = allow.iter().map(|text| Rule::parse(text).ok()).collect::<Option<_>>()?;
        Some(Self { mode, allow })
    }
}

impl NetworkWish {
    /// Checks a wish; `prefix` is where the caller put it, such as `network.`.
    pub fn new(wish: &Network, prefix: &str) -> Result<Self, FieldError> {
        let mode = wish.mode.as_deref().map(|mode| NetworkMode::parse(mode, &format!("{prefix}mode")));
        let allow = wish.allow.as_deref().map(|allow| rules(allow, &format!("{prefix}allow")));
        Ok(Self { mode: mode.transpose()?, allow: allow.transpose()? })
    }
}

fn rules(wished: &[String], field: &str) -> Result<Vec<Rule>, FieldError> {
    if wished.len() > limits::MAX_NETWORK_RULES {
        let problem = format!("must have at most {} entries", limits::MAX_NETWORK_RULES);
        return Err(FieldError::new(field, problem));
    }
    let mut rules = Vec::new();
    for (at, text) in wished.iter().enumerate() {
        let rule = Rule::parse(text).map_err(|problem| FieldError::new(format!("{field}[{at}]"), problem))?;
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    Ok(rules)
}

impl Rule {
    /// Reads `example.com`, `*.example.com`, `*` or an address, each perhaps with `:port`; the problem otherwise, as the
    /// end of a sentence.
    fn parse(text: &str) -> Result<Self, String> {
        if text.len() > limits::MAX_NETWORK_RULE_BYTES {
            return Err(format!("must be at most {} bytes long", limits::MAX_NETWORK_RULE_BYTES));
        }
        let (host, port) = split(text);
        let hosts = match host {
            "*" => Hosts::AnyName,
            _ => match host.strip_prefix("*.") {
                Some(domain) => beneath(domain)?,
                None => Hosts::One(Host::parse(host).map_err(|problem| problem.to_string())?),
            },
        };
        let port = port
            .map(|port| port.parse().ok().filter(|port| *port > 0).ok_or("must have a port of 1 to 65535"));
        Ok(Self { hosts, port: port.transpose()? })
    }
}

fn beneath(domain: &str) -> Result<Hosts, String> {
    match Host::parse(domain) {
        Ok(Host::Name(domain)) => Ok(Hosts::Beneath(domain)),
        _ => Err("must have a domain behind `*.`".to_owned()),
    }
}

/// Host and port; an IPv6 address has a port only behind brackets.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    }
}

impl Hosts {
    fn include(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::One(one), host) => one == host,
            (Self::AnyName, Host::Name(_)) => true,
            (Self::Beneath(domain), Host::Name(name)) => name
                .strip_suffix(domain.as_str())
                .is_some_and(|labels| labels.len() > 1 && labels.ends_with('.')),
            (Self::AnyName | Self::Beneath(_), Host::Address(_)) => false,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.hosts, self.port) {
            (Hosts::One(host), Some(port)) => return f.write_str(&host.with_port(port)),
            (Hosts::One(host), None) => host.fmt(f)?,
            (Hosts::AnyName, _) => f.write_str("*")?,
            (Hosts::Beneath(domain), _) => write!(f, "*.{domain}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(mode: NetworkMode, allow: &[&str]) -> NetworkPolicy {
        let allow = allow.iter().map(|text| Rule::parse(text).unwrap()).collect();
        NetworkPolicy { mode, allow }
    }

    fn judge(policy: &NetworkPolicy, host: &str, port: u16) -> Result<(), DenialReason> {
        policy.judge(&Host::parse(host).unwrap(), port, false)
    }

    #[test]
    fn a_list_allows_what_it_names_and_nothing_else() {
        let allow =
            ["Registry.Example.ORG.", "*.example.com", "git.example.net:22", "8.8.8.8", "[2606:4700::1]:853"];
        let policy = policy(NetworkMode::Allowlist, &allow);
        let allowed = [
            ("registry.example.org", 443),
            ("REGISTRY.example.org.", 80),
            ("a.example.com", 443),
            ("a.b.example.com", 80),
            ("git.example.net", 22),
            ("8.8.8.8", 443),
            ("2606:4700::1", 853),
        ];
        for (host, port) in allowed {
            assert_eq!(judge(&policy, host, port), Ok(()), "{host}:{port}");
        }
        let refused = [
            ("example.com", 443, DenialReason::HostNotAllowed),
            ("notexample.com", 443, DenialReason::HostNotAllowed),
            ("example.com.evil.org", 443, DenialReason::HostNotAllowed),
            ("a.registry.example.org", 443, DenialReason::HostNotAllowed),
            ("registry.example.org", 22, DenialReason::PortNotAllowed),
            ("git.example.net", 443, DenialReason::PortNotAllowed),
            ("8.8.4.4", 443, DenialReason::AddressNotAllowed),
            ("2606:4700::1", 443, DenialReason::PortNotAllowed),
        ];
        for (host, port, reason) in refused {
            assert_eq!(judge(&policy, host, port), Err(reason), "{host}:{port}");
        }
        assert_eq!(
            judge(&self::policy(NetworkMode::Allowlist, &[]), "a.b", 443),
            Err(DenialReason::HostNotAllowed)
        );
    }

    #[test]
    fn by_default_every_name_is_reached_on_the_webs_ports_and_on_those_that_are_named() {
        let policy = policy(NetworkMode::Default, &["*:8443", "git.example.net:22", "8.8.8.8:53"]);
        for (host, port) in
            [("a.b", 80), ("a.b", 443), ("a.b", 8443), ("git.example.net", 22), ("8.8.8.8", 53)]
        {
            assert_eq!(judge(&policy, host, port), Ok(()), "{host}:{port}");
        }
        assert_eq!(judge(&policy, "git.example.net", 443), Ok(()), "a named port takes none away");
        assert_eq!(judge(&policy, "a.b", 22), Err(DenialReason::PortNotAllowed));
        assert_eq!(judge(&policy, "a.b", 25), Err(DenialReason::PortNotAllowed));
        assert_eq!(judge(&policy, "8.8.8.8", 443), Err(DenialReason::PortNotAllowed));
        assert_eq!(judge(&policy, "8.8.4.4", 443), Err(DenialReason::AddressNotAllowed));
        let address = Host::parse("10.0.0.1").unwrap();
        assert_eq!(policy.judge(&address, 443, true), Ok(()), "an opened one need not be named");
        assert_eq!(policy.judge(&address, 22, true), Err(DenialReason::PortNotAllowed));
        let list = self::policy(NetworkMode::Allowlist, &["*"]);
        assert_eq!(list.judge(&address, 443, true), Err(DenialReason::AddressNotAllowed));
        assert_eq!(judge(&list, "a.b", 443), Ok(()));
    }

    #[test]
    fn without_a_way_out_through_the_daemon_nothing_is_reached_by_it_whatever_is_named() {
        for mode in [NetworkMode::None, NetworkMode::Open] {
            let policy = policy(mode, &["*", "a.b"]);
            assert_eq!(judge(&policy, "a.b", 443), Err(DenialReason::Off), "{mode:?}");
        }
    }

    #[test]
    fn a_bad_rule_is_told_by_its_place() {
        let wish = |allow: &[&str]| {
            let allow = Some(allow.iter().map(|text| (*text).to_owned()).collect());
            NetworkWish::new(&Network { mode: None, allow }, "network.").map_err(|fault| fault.field)
        };
        let bad = [
            "",
            ":443",
            "a b",
            "http://a.b",
            "a.b/c",
            "*.",
            "*.*.a",
            "a.*.b",
            "*a.b",
            "a.b:0",
            "a.b:65536",
            "a.b:",
            "127.1",
            "0x7f.1",
            "*.1",
            "*.127.0.0.1",
            "fe80::1%1",
            "[a.b]:1",
            "10.0.0.0/8",
            "a.b:-1",
            "a.b:https",
            "**",
        ];
        for bad in bad {
            assert_eq!(wish(&["a.b", bad]), Err("network.allow[1]".into()), "{bad:?}");
        }
        assert_eq!(wish(&["a.b"; limits::MAX_NETWORK_RULES + 1]), Err("network.allow".into()));
        let long = format!("{}example.com:65535", "a.".repeat(121));
        assert_eq!(
            wish(&vec![long.as_str(); limits::MAX_NETWORK_RULES]).map(|wish| wish.allow.unwrap().len()),
            Ok(1)
        );
        assert_eq!(
            wish(&["a.".repeat(limits::MAX_NETWORK_RULE_BYTES).as_str()]),
            Err("network.allow[0]".into())
        );
    }

    #[test]
    fn what_a_wish_leaves_out_stays() {
        let before = policy(NetworkMode::Allowlist, &["a.b"]);
        let wish = |mode: Option<&str>, allow: Option<Vec<String>>| {
            NetworkWish::new(&Network { mode: mode.map(str::to_owned), allow }, "").unwrap()
        };
        assert_eq!(before.clone().with(&wish(None, None)), before);
        assert_eq!(before.clone().with(&wish(Some("none"), None)), policy(NetworkMode::None, &["a.b"]));
        assert_eq!(before.with(&wish(None, Some(vec![]))), policy(NetworkMode::Allowlist, &[]));
    }

    proptest! {
        #[test]
        fn a_rule_reads_back_as_it_is_written(text in "(\\*\\.)?[a-zA-Z0-9ü.:\\[\\]*-]{1,20}(:[0-9]{1,5})?") {
            if let Ok(rule) = Rule::parse(&text) {
                prop_assert_eq!(Rule::parse(&rule.to_string()), Ok(rule));
            }
        }

        /// Whatever is named, a name is allowed only by itself or by what it ends in, from a dot on.
        #[test]
        fn no_list_allows_a_stranger(named in "[a-c]{1,2}(\\.[a-c]{1,2}){0,2}", asked in "[a-c]{1,2}(\\.[a-c]{1,2}){0,3}") {
            let policy = policy(NetworkMode::Allowlist, &[&named, &format!("*.{named}")]);
            let wanted = asked == named || asked.ends_with(&format!(".{named}"));
            prop_assert_eq!(judge(&policy, &asked, 443).is_ok(), wanted);
        }
    }
}
