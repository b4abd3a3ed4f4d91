//! Refusals that can come in any number: counted, and recorded once a minute.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use sandbox_api::SandboxId;
use sandbox_api::network::DenialReason;

use super::owned::of_owner;
use crate::audit::Entry;
use crate::model::audit::Act;
use crate::model::{Owner, limits};

/// Prefix of an IPv6 address that one client has for itself.
const CLIENT_PREFIX: u128 = !0 << 64;

/// The address that stands for a client: its own, or that of its IPv6 network.
pub(super) fn client_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & CLIENT_PREFIX).into(),
        address => address,
    }
}

/// Counts since the last line.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    auth_failures: HashMap<IpAddr, u64>,
    denials: HashMap<Denied, u64>,
    of_sandboxes: HashMap<SandboxId, OfSandbox>,
    /// Those that are not counted apart.
    other_auth_failures: u64,
    other_denials: u64,
}

/// Denials of one sandbox.
#[derive(Debug)]
struct OfSandbox {
    owner: Owner,
    /// Different ones.
    different: usize,
    /// Those that are not counted apart.
    others: u64,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Denied {
    sandbox: SandboxId,
    host: String,
    port: u16,
    reason: DenialReason,
}

impl Refusals {
    /// Counts a request without a valid token. Addresses of one IPv6 network are counted together.
    pub(super) fn count_auth_failure(&self, peer: IpAddr) {
        let peer = client_of(peer);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = counts.auth_failures.len() >= limits::MAX_AUDIT_REFUSALS;
        if is_full && !counts.auth_failures.contains_key(&peer) {
            counts.other_auth_failures += 1;
        } else {
            *counts.auth_failures.entry(peer).or_default() += 1;
        }
    }

    /// Counts a connection of a sandbox that was denied.
    pub(super) fn count_denial(
        &self,
        sandbox: &SandboxId,
        owner: &Owner,
        host: &str,
        port: u16,
        reason: DenialReason,
    ) {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = &mut *guard;
        let denied = Denied { sandbox: sandbox.clone(), host: host.to_owned(), port, reason };
        if let Some(count) = counts.denials.get_mut(&denied) {
            *count += 1;
            return;
        }
        let is_full = counts.of_sandboxes.len() >= limits::MAX_AUDIT_REFUSALS;
        if is_full && !counts.of_sandboxes.contains_key(sandbox) {
            counts.other_denials += 1;
            return;
        }
        let new = || OfSandbox { owner: owner.clone(), different: 0, others: 0 };
        let of_sandbox = counts.of_sandboxes.entry(sandbox.clone()).or_insert_with(new);
        if counts.denials.len() < limits::MAX_AUDIT_REFUSALS
            && of_sandbox.different < limits::MAX_AUDIT_REFUSALS_OF_SANDBOX
        {
            of_sandbox.different += 1;
            counts.denials.insert(denied, 1);
        } else {
            of_sandbox.others += 1;
        }
    }

    /// The lines of what was counted since the last call.
    pub(super) fn take(&self) -> Vec<Entry> {
        let counts = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let failure = |count| Entry::new(Act::AuthFail.as_str()).with("count", count);
        let owner = |sandbox| counts.of_sandboxes.get(sandbox).map(|found: &OfSandbox| &found.owner);
        let denial = |owner, count| of_owner(Act::NetworkDeny, owner).with("count", count);
        let mut lines: Vec<Entry> =
            counts.auth_failures.iter().map(|(peer, count)| failure(*count).with("peer", peer)).collect();
        lines.extend((counts.other_auth_failures > 0).then(|| failure(counts.other_auth_failures)));
        lines.extend(counts.denials.iter().map(|(denied, count)| {
            let Denied { sandbox, host, port, reason } = denied;
            let line = denial(owner(sandbox), *count).with("sandboxId", sandbox.as_str()).with("host", host);
            line.with("port", port).with("reason", reason)
        }));
        let with_others = counts.of_sandboxes.iter().filter(|(_, found)| found.others > 0);
        lines.extend(with_others.map(|(sandbox, found)| {
            denial(Some(&found.owner), found.others).with("sandboxId", sandbox.as_str())
        }));
        lines.extend((counts.other_denials > 0).then(|| denial(None, counts.other_denials)));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(lines: &[Entry]) -> u64 {
        lines.iter().map(|line| line.details["count"].as_u64().unwrap()).sum()
    }

    #[test]
    fn a_flood_of_addresses_is_bounded_and_counted() {
        let refusals = Refusals::default();
        let flood = limits::MAX_AUDIT_REFUSALS as u32 + 500;
        for address in 0..flood {
            refusals.count_auth_failure(IpAddr::V4(address.into()));
        }
        let lines = refusals.take();
        assert_eq!((lines.len(), total(&lines)), (limits::MAX_AUDIT_REFUSALS + 1, flood.into()));
        assert!(refusals.take().is_empty());
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let refusals = Refusals::default();
        for host in 0..100 {
            refusals.count_auth_failure(Ipv6Addr::new(0x2001, 0xdb8, 0, 7, 0, 0, 0, host).into());
        }
        let lines = refusals.take();
        assert_eq!((lines.len(), total(&lines)), (1, 100));
        assert_eq!(lines[0].details["peer"], "2001:db8:0:7::");
    }

    #[test]
    fn a_sandbox_cannot_take_the_lines_of_others() {
        let refusals = Refusals::default();
        let (loud, quiet) = (SandboxId::random().unwrap(), SandboxId::random().unwrap());
        let owner = |project: &str| Owner { project: project.parse().unwrap(), subject: None };
        let count = |sandbox, project, host: &str| {
            refusals.count_denial(sandbox, &owner(project), host, 443, DenialReason::HostNotAllowed);
        };
        for host in 0..5_000 {
            count(&loud, "lab", &format!("h{host}.example"));
        }
        for _ in 0..3 {
            count(&quiet, "press", "a.example");
        }
        let lines = refusals.take();
        assert_eq!(lines.len(), limits::MAX_AUDIT_REFUSALS_OF_SANDBOX + 2);
        assert_eq!(total(&lines), 5_003);
        let of_quiet = lines.iter().find(|line| line.details["sandboxId"] == quiet.as_str()).unwrap();
        assert_eq!(of_quiet.project.as_deref(), Some("press"));
        assert_eq!(
            lines.iter().filter(|line| line.project.as_deref() == Some("lab")).count(),
            lines.len() - 1
        );
        assert_eq!((&of_quiet.details["host"], &of_quiet.details["count"]), (&"a.example".into(), &3.into()));
    }
}
