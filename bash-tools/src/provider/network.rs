//! Network policies of sandboxes.

use sandbox_api::network::{Denial, DenialReason};
use serde::Serialize;

/// Ports of an entry without a port.
const WEB_PORTS: [u16; 2] = [80, 443];

/// Network policy of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NetworkPolicy {
    /// Mode of the policy.
    pub mode: NetworkMode,
    /// Hosts, each optionally with `:port`. In [`NetworkMode::Allowlist`], only these may be reached. In
    /// [`NetworkMode::Default`], they allow additional ports.
    pub allow: Vec<String>,
}

/// Mode of a network policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// The public internet.
    #[default]
    Default,
    /// Only the listed hosts.
    Allowlist,
    /// No network.
    None,
    /// Everything that the provider's machine can reach. Only sandboxd's operator can allow it, and no setting of
    /// this crate requests it.
    Open,
}

impl NetworkMode {
    /// Name of the mode in sandboxd.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Allowlist => "allowlist",
            Self::None => "none",
            Self::Open => "open",
        }
    }

    /// Returns the mode with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Default, Self::Allowlist, Self::None, Self::Open]
            .into_iter()
            .find(|mode| mode.as_str() == name)
    }
}

impl NetworkPolicy {
    /// Creates a policy with these hosts and its mode.
    pub fn new(mode: NetworkMode, allow: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { mode, allow: allow.into_iter().map(Into::into).collect() }
    }

    /// Returns the entry that would allow a denied connection. `None` if no entry would, or if the list already has
    /// it.
    pub fn entry_for(&self, denial: &Denial) -> Option<String> {
        let helps = self.mode == NetworkMode::Allowlist && is_of_the_list(denial.reason);
        let entry = entry(&denial.host, denial.port);
        (helps && !self.allow.contains(&entry)).then_some(entry)
    }

    /// Whether the list contains the denied host, because it was allowed afterwards.
    pub fn has_allowed(&self, denial: &Denial) -> bool {
        is_of_the_list(denial.reason) && self.allow.contains(&entry(&denial.host, denial.port))
    }

    /// Returns the list with additional entries, without duplicates. `None` if nothing is new.
    pub(super) fn with(&self, more: &[String]) -> Option<Vec<String>> {
        let mut allow = self.allow.clone();
        for entry in more {
            if !allow.contains(entry) {
                allow.push(entry.clone());
            }
        }
        (allow.len() > self.allow.len()).then_some(allow)
    }
}

/// For [`DenialReason::Off`], the mode itself would have to change.
fn is_of_the_list(reason: DenialReason) -> bool {
    reason.can_be_allowed() && reason != DenialReason::Off
}

fn entry(host: &str, port: u16) -> String {
    match host.contains(':') {
        _ if WEB_PORTS.contains(&port) => host.to_owned(),
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn denial(host: &str, port: u16, reason: DenialReason) -> Denial {
        let (host, last_at) = (host.to_owned(), Timestamp::UNIX_EPOCH);
        Denial { id: None, host, port, count: 1, last_at, reason, allowable: true }
    }

    #[test]
    fn an_entry_names_the_denied_host() {
        let list = NetworkPolicy::new(NetworkMode::Allowlist, ["kept.example"]);
        let entry_for = |host, port, reason| list.entry_for(&denial(host, port, reason));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(entry_for("a.example", 443, DenialReason::HostNotAllowed), some("a.example"));
        assert_eq!(entry_for("a.example", 8443, DenialReason::PortNotAllowed), some("a.example:8443"));
        assert_eq!(
            entry_for("2606:4700::1", 853, DenialReason::AddressNotAllowed),
            some("[2606:4700::1]:853")
        );
        assert_eq!(entry_for("kept.example", 443, DenialReason::HostNotAllowed), None, "it is there");
        for reason in [DenialReason::NotPublic, DenialReason::NameMismatch, DenialReason::Limit] {
            assert_eq!(entry_for("a.example", 443, reason), None, "{reason:?}");
        }
        let public = NetworkPolicy::default();
        assert_eq!(public.entry_for(&denial("a.example", 22, DenialReason::PortNotAllowed)), None);
    }

    #[test]
    fn hosts_allowed_after_a_denial_are_marked() {
        let list = NetworkPolicy::new(NetworkMode::Allowlist, ["a.example", "a.example:22"]);
        assert!(list.has_allowed(&denial("a.example", 80, DenialReason::HostNotAllowed)));
        assert!(list.has_allowed(&denial("a.example", 22, DenialReason::PortNotAllowed)));
        assert!(!list.has_allowed(&denial("a.example", 23, DenialReason::PortNotAllowed)));
        assert!(
            !list.has_allowed(&denial("a.example", 80, DenialReason::NotPublic)),
            "the list does not help"
        );
    }
}
