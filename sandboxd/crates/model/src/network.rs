//! Network policies: what a sandbox may reach. They decide by host and port. Whether an address is public is
//! decided elsewhere.

use std::fmt;

use sandbox_api::network::DenialReason;
use sandbox_api::sandbox::Network;

use super::host::Host;
use super::{FieldError, limits};

/// Ports of a rule that names no port.
pub const WEB_PORTS: [u16; 2] = [80, 443];

/// Mode of a network policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetworkMode {
    /// The public internet.
    #[default]
    Default,
    /// Only named hosts.
    Allowlist,
    /// Nothing.
    None,
    /// Everything that the host's network reaches, through a bridge instead of the daemon.
    Open,
}

impl NetworkMode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Default, Self::Allowlist, Self::None, Self::Open];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Allowlist => "allowlist",
            Self::None => "none",
            Self::Open => "open",
        }
    }

    /// Reads a name. `field` is the caller's name for the field.
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
    /// Mode of the policy.
    pub mode: NetworkMode,
    /// Named hosts and ports: everything that `allowlist` permits, and additional ports and addresses for
    /// `default`.
    pub allow: Vec<Rule>,
}

/// A caller's change of a policy. Absent fields stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkRequest {
    mode: Option<NetworkMode>,
    allow: Option<Vec<Rule>>,
    /// Rule to add to `allow`.
    add: Option<Rule>,
}

/// A host that may be reached, and its port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    hosts: Hosts,
    /// `None` means [`WEB_PORTS`].
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    /// Every name, but no address.
    AnyName,
    One(Host),
    /// Subdomains of this name.
    Beneath(String),
}

impl NetworkPolicy {
    /// Whether the policy permits a connection, judged by host and port. `is_opened` says that the operator has
    /// opened the address to all sandboxes.
    pub fn judge(&self, host: &Host, port: u16, is_opened: bool) -> Result<(), DenialReason> {
        // An open sandbox does not connect through the daemon. If it does, it gets only what it can reach itself.
        if matches!(self.mode, NetworkMode::None | NetworkMode::Open) {
            return Err(DenialReason::Off);
        }
        let (mut is_named, mut is_web_or_named) = (false, false);
        for rule in self.allow.iter().filter(|rule| rule.hosts.include(host)) {
            is_named = true;
            is_web_or_named |= rule.has_port(port);
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

    /// Whether the sandbox has a network interface instead of connecting through the daemon.
    pub fn is_open(&self) -> bool {
        self.mode == NetworkMode::Open
    }

    /// The policy after a caller's change. A rule is not added to a list that is full.
    pub fn with(mut self, request: &NetworkRequest) -> Self {
        self.mode = request.mode.unwrap_or(self.mode);
        if let Some(allow) = &request.allow {
            self.allow.clone_from(allow);
        }
        if let Some(rule) = &request.add
            && !self.allow.contains(rule)
            && self.allow.len() < limits::MAX_NETWORK_RULES
        {
            self.allow.push(rule.clone());
        }
        self
    }

    /// The rules as texts.
    pub fn allow_texts(&self) -> Vec<String> {
        self.allow.iter().map(ToString::to_string).collect()
    }

    /// Reads the result of [`allow_texts`](Self::allow_texts). `None` if it is something else.
    pub fn from_texts(mode: NetworkMode, allow: &[String]) -> Option<Self> {
        let allow = allow.iter().map(|text| Rule::parse(text).ok()).collect::<Option<_>>()?;
        Some(Self { mode, allow })
    }
}

impl NetworkRequest {
    /// Checks a request. `prefix` is the path of the field in the caller's request, such as `network.`.
    pub fn new(request: &Network, prefix: &str) -> Result<Self, FieldError> {
        let mode = request.mode.as_deref().map(|mode| NetworkMode::parse(mode, &format!("{prefix}mode")));
        let allow = request.allow.as_deref().map(|allow| rules(allow, &format!("{prefix}allow")));
        Ok(Self { mode: mode.transpose()?, allow: allow.transpose()?, add: None })
    }

    /// Replaces the whole policy.
    pub fn replacing(policy: NetworkPolicy) -> Self {
        Self { mode: Some(policy.mode), allow: Some(policy.allow), add: None }
    }

    /// Adds a rule, and changes nothing else.
    pub fn adding(rule: Rule) -> Self {
        Self { add: Some(rule), ..Self::default() }
    }

    /// Whether it can only allow more than before.
    pub fn only_adds(&self) -> bool {
        self.mode.is_none() && self.allow.is_none()
    }
}

fn rules(given: &[String], field: &str) -> Result<Vec<Rule>, FieldError> {
    if given.len() > limits::MAX_NETWORK_RULES {
        let problem = format!("must have at most {} entries", limits::MAX_NETWORK_RULES);
        return Err(FieldError::new(field, problem));
    }
    let mut rules = Vec::new();
    for (at, text) in given.iter().enumerate() {
        let rule = Rule::parse(text).map_err(|problem| FieldError::new(format!("{field}[{at}]"), problem))?;
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    Ok(rules)
}

impl Rule {
    /// The rule for a host that was denied: on the ports of the web if the port is one of them, because hosts redirect
    /// between them, and otherwise on the port.
    pub fn of(host: Host, port: u16) -> Self {
        Self { hosts: Hosts::One(host), port: Some(port).filter(|port| !WEB_PORTS.contains(port)) }
    }

    /// Whether it allows a connection.
    pub fn includes(&self, host: &Host, port: u16) -> bool {
        self.hosts.include(host) && self.has_port(port)
    }

    fn has_port(&self, port: u16) -> bool {
        self.port.map_or(WEB_PORTS.contains(&port), |named| named == port)
    }

    /// Reads `example.com`, `*.example.com`, `*` or an address, each optionally with `:port`. The problem is the
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

/// Splits host and port. An IPv6 address with a port needs brackets.
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
    fn a_list_allows_only_its_own_entries() {
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
    fn by_default_every_name_is_allowed_on_web_ports_and_named_ports() {
        let policy = policy(NetworkMode::Default, &["*:8443", "git.example.net:22", "8.8.8.8:53"]);
        for (host, port) in
            [("a.b", 80), ("a.b", 443), ("a.b", 8443), ("git.example.net", 22), ("8.8.8.8", 53)]
        {
            assert_eq!(judge(&policy, host, port), Ok(()), "{host}:{port}");
        }
        assert_eq!(judge(&policy, "git.example.net", 443), Ok(()), "a named port removes no other port");
        assert_eq!(judge(&policy, "a.b", 22), Err(DenialReason::PortNotAllowed));
        assert_eq!(judge(&policy, "a.b", 25), Err(DenialReason::PortNotAllowed));
        assert_eq!(judge(&policy, "8.8.8.8", 443), Err(DenialReason::PortNotAllowed));
        assert_eq!(judge(&policy, "8.8.4.4", 443), Err(DenialReason::AddressNotAllowed));
        let address = Host::parse("10.0.0.1").unwrap();
        assert_eq!(policy.judge(&address, 443, true), Ok(()), "a permitted address needs no rule");
        assert_eq!(policy.judge(&address, 22, true), Err(DenialReason::PortNotAllowed));
        let list = self::policy(NetworkMode::Allowlist, &["*"]);
        assert_eq!(list.judge(&address, 443, true), Err(DenialReason::AddressNotAllowed));
        assert_eq!(judge(&list, "a.b", 443), Ok(()));
    }

    #[test]
    fn mode_none_rejects_every_host() {
        for mode in [NetworkMode::None, NetworkMode::Open] {
            let policy = policy(mode, &["*", "a.b"]);
            assert_eq!(judge(&policy, "a.b", 443), Err(DenialReason::Off), "{mode:?}");
        }
    }

    #[test]
    fn an_invalid_rule_is_reported_with_its_index() {
        let request = |allow: &[&str]| {
            let allow = Some(allow.iter().map(|text| (*text).to_owned()).collect());
            NetworkRequest::new(&Network { mode: None, allow }, "network.").map_err(|fault| fault.field)
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
            assert_eq!(request(&["a.b", bad]), Err("network.allow[1]".into()), "{bad:?}");
        }
        assert_eq!(request(&["a.b"; limits::MAX_NETWORK_RULES + 1]), Err("network.allow".into()));
        let long = format!("{}example.com:65535", "a.".repeat(121));
        assert_eq!(
            request(&vec![long.as_str(); limits::MAX_NETWORK_RULES])
                .map(|request| request.allow.unwrap().len()),
            Ok(1)
        );
        assert_eq!(
            request(&["a.".repeat(limits::MAX_NETWORK_RULE_BYTES).as_str()]),
            Err("network.allow[0]".into())
        );
    }

    #[test]
    fn omitted_fields_keep_their_value() {
        let before = policy(NetworkMode::Allowlist, &["a.b"]);
        let request = |mode: Option<&str>, allow: Option<Vec<String>>| {
            NetworkRequest::new(&Network { mode: mode.map(str::to_owned), allow }, "").unwrap()
        };
        assert_eq!(before.clone().with(&request(None, None)), before);
        assert_eq!(before.clone().with(&request(Some("none"), None)), policy(NetworkMode::None, &["a.b"]));
        assert_eq!(before.with(&request(None, Some(vec![]))), policy(NetworkMode::Allowlist, &[]));
    }

    #[test]
    fn a_rule_for_a_denied_host_is_added_once_and_not_to_a_full_list() {
        let rule = |host: &str, port| Rule::of(Host::parse(host).unwrap(), port);
        let texts = [("a.b", 443), ("a.b", 80), ("a.b", 22), ("2606:4700::1", 853)]
            .map(|(host, port)| rule(host, port).to_string());
        assert_eq!(texts, ["a.b", "a.b", "a.b:22", "[2606:4700::1]:853"]);
        let added = policy(NetworkMode::Allowlist, &["c.d"])
            .with(&NetworkRequest::adding(rule("a.b", 443)))
            .with(&NetworkRequest::adding(rule("a.b", 80)));
        assert_eq!(added, policy(NetworkMode::Allowlist, &["c.d", "a.b"]));
        let full: Vec<String> = (0..limits::MAX_NETWORK_RULES).map(|at| format!("{at}.example")).collect();
        let full = policy(NetworkMode::Allowlist, &full.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(full.clone().with(&NetworkRequest::adding(rule("a.b", 443))), full);
    }

    proptest! {
        #[test]
        fn a_rule_survives_a_round_trip(text in "(\\*\\.)?[a-zA-Z0-9ü.:\\[\\]*-]{1,20}(:[0-9]{1,5})?") {
            if let Ok(rule) = Rule::parse(&text) {
                prop_assert_eq!(Rule::parse(&rule.to_string()), Ok(rule));
            }
        }

        /// A name is allowed only by its own rule, or by a rule for a domain that it is in.
        #[test]
        fn no_list_allows_an_unlisted_host(named in "[a-c]{1,2}(\\.[a-c]{1,2}){0,2}", asked in "[a-c]{1,2}(\\.[a-c]{1,2}){0,3}") {
            let policy = policy(NetworkMode::Allowlist, &[&named, &format!("*.{named}")]);
            let wanted = asked == named || asked.ends_with(&format!(".{named}"));
            prop_assert_eq!(judge(&policy, &asked, 443).is_ok(), wanted);
        }
    }
}
