//! What each sandbox reaches of the world, and what it was refused.
//!
//! A connection is on the list before the policy is looked at, and whoever changes the policy goes through the list
//! afterwards: so none is missed. One on which nobody looks at what is sent cannot be looked at later, from the middle of it, so
//! it is cut where a list of hosts begins to hold. Open connections do not count as use of the sandbox; the commands that hold them do.

mod outlet;
mod refusal;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use sandbox_api::network::DenialReason;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::clock::now_ms;
use super::tasks::Tasks;
use crate::egress::{Gate, KeptShut, PublishedAt};
use crate::metrics::Metrics;
use crate::model::{Host, NetworkMode, NetworkPolicy, limits};

/// A host and port that a sandbox was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// As it was compared; what is no host, as the process wrote it.
    pub host: String,
    /// From 1.
    pub port: u16,
    /// Why.
    pub reason: DenialReason,
    /// How often.
    pub count: u64,
    /// The last time, in milliseconds since the Unix epoch.
    pub last_at_ms: i64,
}

/// Serves the sandboxes' outbound connections.
#[derive(Debug)]
pub(in crate::service) struct Egress {
    gate: Arc<Gate>,
    metrics: Arc<Metrics>,
    tasks: Tasks,
}

impl Egress {
    pub(in crate::service) fn new(context: &Context) -> Self {
        let setup = &context.setup;
        Self {
            gate: Arc::new(Gate::new(setup.egress.clone(), setup.own_ports.clone())),
            metrics: Arc::clone(&context.metrics),
            tasks: context.tasks.clone(),
        }
    }

    /// Applies a changed policy to the connections that are open.
    pub(in crate::service) fn follow_policy(&self, outbound: &Outbound) {
        outbound.cut_refused(&self.gate);
    }

    /// Keeps sandboxes from reaching a published port, until the guard is dropped.
    pub(in crate::service) fn keep_shut(&self, at: PublishedAt) -> KeptShut {
        self.gate.keep_shut(at)
    }
}

/// The outbound connections of one sandbox, for as long as the daemon knows the sandbox.
#[derive(Debug)]
pub(in crate::service) struct Outbound {
    /// As in the sandbox's record.
    policy: Mutex<NetworkPolicy>,
    denials: Mutex<Vec<Denial>>,
    open: Mutex<HashMap<u64, Open>>,
    next: AtomicU64,
    pub(super) places: Arc<Semaphore>,
    pub(super) lookups: Arc<Semaphore>,
    pub(super) rate: DefaultDirectRateLimiter,
}

/// A connection that is being made or carried.
#[derive(Debug)]
struct Open {
    host: Host,
    port: u16,
    /// It is carried, and nobody looks at what is sent.
    is_unread: bool,
    cut: CancellationToken,
}

/// Takes a connection off the list.
pub(super) struct Listed<'a> {
    egress: &'a Outbound,
    id: u64,
    /// Cancelled where the policy does not let it any more.
    pub(super) cut: CancellationToken,
}

impl Listed<'_> {
    /// Whether what is sent is to be looked at, from now on until the connection ends. To be asked when it begins to be carried.
    pub(super) fn is_looked_at(&self) -> bool {
        // The policy is read while the list is held: whoever changes it then finds this one as what it is.
        let mut open = lock(&self.egress.open);
        let is_looked_at = self.egress.policy().mode == NetworkMode::Allowlist;
        if let Some(open) = open.get_mut(&self.id) {
            open.is_unread = !is_looked_at;
        }
        is_looked_at
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        lock(&self.egress.open).remove(&self.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outbound {
    pub(in crate::service) fn new(policy: NetworkPolicy) -> Arc<Self> {
        let per_second = std::num::NonZeroU32::new(limits::EGRESS_CONNECTIONS_PER_SECOND);
        Arc::new(Self {
            policy: Mutex::new(policy),
            denials: Mutex::default(),
            open: Mutex::default(),
            next: AtomicU64::new(0),
            places: Arc::new(Semaphore::new(limits::MAX_EGRESS_CONNECTIONS)),
            lookups: Arc::new(Semaphore::new(limits::MAX_LOOKUPS_EACH)),
            rate: RateLimiter::direct(Quota::per_second(per_second.unwrap_or(std::num::NonZeroU32::MIN))),
        })
    }

    /// Follows a change of the record.
    pub(in crate::service) fn set_policy(&self, policy: NetworkPolicy) {
        *lock(&self.policy) = policy;
    }

    pub(super) fn policy(&self) -> NetworkPolicy {
        lock(&self.policy).clone()
    }

    /// What the sandbox was refused since this daemon knows it, the newest first.
    pub(in crate::service) fn denials(&self) -> Vec<Denial> {
        let mut denials = lock(&self.denials).clone();
        denials.reverse();
        denials
    }

    /// Cuts the connections that the policy does not let, or does not let go on unread.
    fn cut_refused(&self, gate: &Gate) {
        let policy = self.policy();
        for open in lock(&self.open).values() {
            let is_unread = open.is_unread && policy.mode == NetworkMode::Allowlist;
            if is_unread || gate.judge(&policy, &open.host, open.port).is_err() {
                open.cut.cancel();
            }
        }
    }

    pub(super) fn list(&self, host: Host, port: u16) -> Listed<'_> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let cut = CancellationToken::new();
        lock(&self.open).insert(id, Open { host, port, is_unread: false, cut: cut.clone() });
        Listed { egress: self, id, cut }
    }

    /// Notes a refusal; the one that is the longest ago is forgotten for it where there are too many.
    pub(super) fn note(&self, host: &str, port: u16, reason: DenialReason) {
        let mut denials = lock(&self.denials);
        let known = denials.iter().position(|it| it.host == host && it.port == port && it.reason == reason);
        let count = match known {
            Some(at) => denials.remove(at).count,
            None => 0,
        };
        if denials.len() == limits::MAX_DENIALS {
            denials.remove(0);
        }
        let host = host.to_owned();
        denials.push(Denial { host, port, reason, count: count.saturating_add(1), last_at_ms: now_ms() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress;

    #[test]
    fn denials_are_counted_and_the_oldest_are_forgotten() {
        let egress = Outbound::new(NetworkPolicy::default());
        for at in 0..limits::MAX_DENIALS + 5 {
            egress.note(&format!("host-{at}"), 443, DenialReason::HostNotAllowed);
        }
        egress.note("host-50", 443, DenialReason::HostNotAllowed);
        egress.note("host-50", 443, DenialReason::NotPublic);
        let denials = lock(&egress.denials).clone();
        assert_eq!(denials.len(), limits::MAX_DENIALS);
        assert_eq!((denials[0].host.as_str(), denials[0].count), ("host-6", 1));
        let last: Vec<_> =
            denials.iter().rev().take(2).map(|it| (it.host.as_str(), it.count, it.reason)).collect();
        let reasons = (DenialReason::NotPublic, DenialReason::HostNotAllowed);
        assert_eq!(last, [("host-50", 1, reasons.0), ("host-50", 2, reasons.1)]);
    }

    fn policy(mode: NetworkMode, allow: &[&str]) -> NetworkPolicy {
        let allow: Vec<String> = allow.iter().map(|text| (*text).to_owned()).collect();
        NetworkPolicy::from_texts(mode, &allow).unwrap()
    }

    #[test]
    fn a_change_of_policy_cuts_what_it_refuses_and_nothing_else() {
        let gate = Gate::new(egress::Settings::default(), Vec::new());
        let egress = Outbound::new(policy(NetworkMode::Default, &[]));
        let list = |host: &str| egress.list(Host::parse(host).unwrap(), 443);
        let (stays, goes) = (list("a.example"), list("b.example"));
        egress.set_policy(policy(NetworkMode::Allowlist, &["a.example"]));
        egress.cut_refused(&gate);
        assert!(!stays.cut.is_cancelled() && goes.cut.is_cancelled());
        drop((stays, goes));
        assert!(lock(&egress.open).is_empty());
    }

    #[test]
    fn what_nobody_looks_at_is_cut_where_a_list_begins_to_hold() {
        let gate = Gate::new(egress::Settings::default(), Vec::new());
        let egress = Outbound::new(policy(NetworkMode::Default, &[]));
        let list = || egress.list(Host::parse("a.example").unwrap(), 443);
        let (unread, being_made) = (list(), list());
        assert!(!unread.is_looked_at());
        egress.set_policy(policy(NetworkMode::Default, &["b.example:22"]));
        egress.cut_refused(&gate);
        assert!(!unread.cut.is_cancelled(), "nothing is looked at now either");
        egress.set_policy(policy(NetworkMode::Allowlist, &["a.example"]));
        egress.cut_refused(&gate);
        assert!(unread.cut.is_cancelled() && !being_made.cut.is_cancelled());
        assert!(being_made.is_looked_at(), "by the policy of when it is carried");
        egress.set_policy(policy(NetworkMode::Allowlist, &["a.example", "b.example"]));
        egress.cut_refused(&gate);
        assert!(!being_made.cut.is_cancelled());
    }
}
