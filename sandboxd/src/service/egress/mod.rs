//! Outbound connections of sandboxes, and the hosts that were denied.
//!
//! A connection is registered before its policy is checked, and a change of policy checks all registered connections
//! afterwards. So no connection is missed. The inspection of a connection cannot begin in the middle of it. Therefore a
//! connection that is not inspected is cut when an allowlist takes effect. Open connections do not count as use of the
//! sandbox, but the commands that hold them do.

mod refusal;
mod serve;

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
use crate::egress::{BlockedPort, Gate, PublishedAt};
use crate::metrics::Metrics;
use crate::model::{Host, NetworkMode, NetworkPolicy, limits};

/// A host and port that a sandbox was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The host in the form that was compared. An invalid one, as the process wrote it.
    pub host: String,
    /// Port, from 1.
    pub port: u16,
    /// Why.
    pub reason: DenialReason,
    /// Number of attempts.
    pub count: u64,
    /// Time of the last attempt, in milliseconds since the Unix epoch.
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

    /// Applies a changed policy to open connections.
    pub(in crate::service) fn apply_policy(&self, outbound: &Outbound) {
        outbound.cut_denied(&self.gate);
    }

    /// Blocks a published port for sandboxes until the guard is dropped.
    pub(in crate::service) fn block_port(&self, at: PublishedAt) -> BlockedPort {
        self.gate.block_port(at)
    }
}

/// The outbound connections of one sandbox, for as long as the daemon knows the sandbox.
#[derive(Debug)]
pub(in crate::service) struct Outbound {
    /// Same as in the sandbox's record.
    policy: Mutex<NetworkPolicy>,
    denials: Mutex<Vec<Denial>>,
    open: Mutex<HashMap<u64, Open>>,
    next: AtomicU64,
    connection_permits: Arc<Semaphore>,
    lookup_permits: Arc<Semaphore>,
    rate: DefaultDirectRateLimiter,
}

/// A connection that is being opened or is open.
#[derive(Debug)]
struct Open {
    host: Host,
    port: u16,
    /// Whether it is open and not inspected.
    is_uninspected: bool,
    cut: CancellationToken,
}

/// Registration of a connection. Dropping it removes the connection from the list.
pub(super) struct Registration<'a> {
    egress: &'a Outbound,
    id: u64,
    /// Cancelled when the policy no longer allows the connection.
    cut: CancellationToken,
}

impl Registration<'_> {
    /// Whether the sent data must be inspected until the connection ends. Call it when the connection begins to carry data.
    pub(super) fn must_inspect(&self) -> bool {
        // The policy is read while the list is locked, so that a later change of policy sees the right value.
        let mut open = lock(&self.egress.open);
        let must_inspect = self.egress.policy().mode == NetworkMode::Allowlist;
        if let Some(open) = open.get_mut(&self.id) {
            open.is_uninspected = !must_inspect;
        }
        must_inspect
    }
}

impl Drop for Registration<'_> {
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
            connection_permits: Arc::new(Semaphore::new(limits::MAX_EGRESS_CONNECTIONS)),
            lookup_permits: Arc::new(Semaphore::new(limits::MAX_LOOKUPS_EACH)),
            rate: RateLimiter::direct(Quota::per_second(per_second.unwrap_or(std::num::NonZeroU32::MIN))),
        })
    }

    /// Sets the policy after a change of the record.
    pub(in crate::service) fn set_policy(&self, policy: NetworkPolicy) {
        *lock(&self.policy) = policy;
    }

    pub(super) fn policy(&self) -> NetworkPolicy {
        lock(&self.policy).clone()
    }

    /// Returns the latest denials since this daemon knows the sandbox, newest first.
    pub(in crate::service) fn denials(&self) -> Vec<Denial> {
        let mut denials = lock(&self.denials).clone();
        denials.reverse();
        denials
    }

    /// Cuts the connections that the policy denies, or allows only with inspection.
    fn cut_denied(&self, gate: &Gate) {
        let policy = self.policy();
        for open in lock(&self.open).values() {
            let is_uninspected = open.is_uninspected && policy.mode == NetworkMode::Allowlist;
            if is_uninspected || gate.judge(&policy, &open.host, open.port).is_err() {
                open.cut.cancel();
            }
        }
    }

    /// Adds a connection to the list.
    pub(super) fn register(&self, host: Host, port: u16) -> Registration<'_> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let cut = CancellationToken::new();
        lock(&self.open).insert(id, Open { host, port, is_uninspected: false, cut: cut.clone() });
        Registration { egress: self, id, cut }
    }

    /// Records a denial. Drops the oldest one at the maximum.
    pub(super) fn record_denial(&self, host: &str, port: u16, reason: DenialReason) {
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
    use crate::model::EgressSettings;

    #[test]
    fn denials_are_counted_and_the_oldest_are_forgotten() {
        let egress = Outbound::new(NetworkPolicy::default());
        for at in 0..limits::MAX_DENIALS + 5 {
            egress.record_denial(&format!("host-{at}"), 443, DenialReason::HostNotAllowed);
        }
        egress.record_denial("host-50", 443, DenialReason::HostNotAllowed);
        egress.record_denial("host-50", 443, DenialReason::NotPublic);
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
    fn a_change_of_policy_cuts_only_denied_connections() {
        let gate = Gate::new(EgressSettings::default(), Vec::new());
        let egress = Outbound::new(policy(NetworkMode::Default, &[]));
        let register = |host: &str| egress.register(Host::parse(host).unwrap(), 443);
        let (stays, goes) = (register("a.example"), register("b.example"));
        egress.set_policy(policy(NetworkMode::Allowlist, &["a.example"]));
        egress.cut_denied(&gate);
        assert!(!stays.cut.is_cancelled() && goes.cut.is_cancelled());
        drop((stays, goes));
        assert!(lock(&egress.open).is_empty());
    }

    #[test]
    fn an_uninspected_connection_is_cut_when_an_allowlist_takes_effect() {
        let gate = Gate::new(EgressSettings::default(), Vec::new());
        let egress = Outbound::new(policy(NetworkMode::Default, &[]));
        let register = || egress.register(Host::parse("a.example").unwrap(), 443);
        let (uninspected, opening) = (register(), register());
        assert!(!uninspected.must_inspect());
        egress.set_policy(policy(NetworkMode::Default, &["b.example:22"]));
        egress.cut_denied(&gate);
        assert!(!uninspected.cut.is_cancelled(), "the new policy inspects nothing either");
        egress.set_policy(policy(NetworkMode::Allowlist, &["a.example"]));
        egress.cut_denied(&gate);
        assert!(uninspected.cut.is_cancelled() && !opening.cut.is_cancelled());
        assert!(opening.must_inspect(), "the policy counts at the time the connection opens");
        egress.set_policy(policy(NetworkMode::Allowlist, &["a.example", "b.example"]));
        egress.cut_denied(&gate);
        assert!(!opening.cut.is_cancelled());
    }
}
