//! Outbound connections of sandboxes, and the hosts that were denied.
//!
//! A connection is registered before its policy is checked, and a change of policy checks all registered connections
//! afterwards. So no connection is missed. The inspection of a connection cannot begin in the middle of it. Therefore a
//! connection that is not inspected is cut when an allowlist takes effect. Open connections do not count as use of the
//! sandbox, but the commands that hold them do.

mod allow;
mod denials;
mod passes;
mod refusal;
mod serve;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use sandbox_api::DenialId;
use sandbox_api::network::DenialReason;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use self::allow::Allowed;
pub use self::denials::{Denial, DenialEvent, DenialStream};

use self::denials::Denials;
use self::passes::{PassId, Passes};
use super::audit::Audit;
use super::tasks::Tasks;
use super::{Context, Error};
use crate::egress::{BlockedPort, Gate, PublishedAt};
use crate::git::{PackageRelay, Relay};
use crate::metrics::Metrics;
use crate::model::network::NetworkRequest;
use crate::model::secret::redacted_host;
use crate::model::{Host, NetworkMode, NetworkPolicy, Secret, limits};

/// Serves the sandboxes' outbound connections.
#[derive(Debug)]
pub(in crate::service) struct Egress {
    audit: Arc<Audit>,
    gate: Arc<Gate>,
    metrics: Arc<Metrics>,
    tasks: Tasks,
}

impl Egress {
    pub(in crate::service) fn new(context: &Context, audit: &Arc<Audit>) -> Self {
        let setup = &context.setup;
        Self {
            audit: Arc::clone(audit),
            gate: Arc::new(Gate::new(setup.egress.clone(), setup.own_ports.clone())),
            metrics: Arc::clone(&context.metrics),
            tasks: context.tasks.clone(),
        }
    }

    /// Applies a changed policy to open connections.
    pub(in crate::service) fn apply_policy(&self, outbound: &Outbound) {
        outbound.cut_denied(&self.gate);
    }

    /// The gate, for requests of the daemon itself.
    pub(in crate::service) fn gate(&self) -> &Arc<Gate> {
        &self.gate
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
    denials: Denials,
    /// Hosts that are allowed beyond the policy.
    passes: Passes,
    open: Mutex<HashMap<u64, Open>>,
    next: AtomicU64,
    connection_permits: Arc<Semaphore>,
    lookup_permits: Arc<Semaphore>,
    rate: DefaultDirectRateLimiter,
    /// Values that are replaced in names of hosts before they are recorded or logged.
    secrets: OnceLock<Vec<Secret>>,
    /// Reached whatever the policy is, as long as the fetch that owns it lasts.
    relay: Mutex<Weak<Relay>>,
    /// As [`Self::relay`], for packages.
    package_relay: Mutex<Weak<PackageRelay>>,
}

/// What a sandbox that fetches something connects to.
#[derive(Debug)]
enum AnyRelay {
    Repository(Arc<Relay>),
    Packages(Arc<PackageRelay>),
}

/// A connection that is being opened or is open.
#[derive(Debug)]
struct Open {
    host: Host,
    port: u16,
    /// Whether it is open and not inspected.
    is_uninspected: bool,
    /// What allows it, if not the policy.
    pass: Option<PassId>,
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
        let open = lock(&self.egress.open).remove(&self.id);
        if let Some(pass) = open.and_then(|open| open.pass) {
            self.egress.passes.leave(pass, Instant::now());
        }
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
            denials: Denials::default(),
            passes: Passes::default(),
            open: Mutex::default(),
            next: AtomicU64::new(0),
            connection_permits: Arc::new(Semaphore::new(limits::MAX_EGRESS_CONNECTIONS)),
            lookup_permits: Arc::new(Semaphore::new(limits::MAX_LOOKUPS_EACH)),
            rate: RateLimiter::direct(Quota::per_second(per_second.unwrap_or(std::num::NonZeroU32::MIN))),
            secrets: OnceLock::new(),
            relay: Mutex::default(),
            package_relay: Mutex::default(),
        })
    }

    /// Sets the secret values, which are fixed when a sandbox is created.
    pub(in crate::service) fn set_secrets(&self, secrets: Vec<Secret>) {
        let _ = self.secrets.set(secrets);
    }

    /// Lets the sandbox fetch one repository, until the caller drops the relay.
    pub(in crate::service) fn set_relay(&self, relay: &Arc<Relay>) {
        *lock(&self.relay) = Arc::downgrade(relay);
    }

    /// Lets the sandbox resolve packages, until the caller drops the relay.
    pub(in crate::service) fn set_package_relay(&self, relay: &Arc<PackageRelay>) {
        *lock(&self.package_relay) = Arc::downgrade(relay);
    }

    /// The relay, if a connection is for one that the sandbox has.
    fn relay_at(&self, host: &str, port: u16) -> Option<AnyRelay> {
        match (host, port) {
            (Relay::HOST, Relay::PORT) => lock(&self.relay).upgrade().map(AnyRelay::Repository),
            (PackageRelay::HOST, PackageRelay::PORT) => {
                lock(&self.package_relay).upgrade().map(AnyRelay::Packages)
            }
            _ => None,
        }
    }

    /// Returns the name of a host as it may be recorded and logged.
    pub(super) fn redacted(&self, host: &str) -> String {
        redacted_host(host, self.secrets.get().map_or(&[], Vec::as_slice))
    }

    /// Sets the policy after a change of the record.
    pub(in crate::service) fn set_policy(&self, policy: NetworkPolicy) {
        *lock(&self.policy) = policy;
    }

    pub(super) fn policy(&self) -> NetworkPolicy {
        lock(&self.policy).clone()
    }

    /// Policy for a connection. It has a rule for the connection's host if the host is allowed for one use.
    pub(super) fn policy_for(
        &self,
        gate: &Gate,
        registration: &Registration<'_>,
        host: &Host,
        port: u16,
    ) -> NetworkPolicy {
        let policy = self.policy();
        let is_allowable = gate.judge(&policy, host, port).is_err_and(DenialReason::is_allowable);
        match is_allowable.then(|| self.passes.enter(host, port, Instant::now())).flatten() {
            None => policy,
            Some((pass, rule)) => {
                if let Some(open) = lock(&self.open).get_mut(&registration.id) {
                    open.pass = Some(pass);
                }
                policy.with(&NetworkRequest::adding(rule))
            }
        }
    }

    /// Returns the latest denials since this daemon knows the sandbox, newest first.
    pub(in crate::service) fn denials(&self) -> Vec<Denial> {
        self.denials.newest_first()
    }

    /// The denial with the id, if it is among the latest.
    pub(in crate::service) fn denial(&self, id: &DenialId) -> Option<Denial> {
        self.denials.find(id)
    }

    /// Returns how many connections were denied since this daemon knows the sandbox.
    pub(in crate::service) fn denied_attempts(&self) -> u64 {
        self.denials.attempts()
    }

    /// Streams the latest denials, oldest first, and then those that happen.
    pub(in crate::service) fn follow_denials(&self) -> Result<DenialStream, Error> {
        self.denials.follow()
    }

    /// Ends all streams of denials, because the sandbox is deleted.
    pub(in crate::service) fn close_denials(&self) {
        self.denials.close();
    }

    /// Ends what was allowed for one use. To close its connections too, apply the policy afterwards.
    pub(in crate::service) fn revoke_passes(&self) {
        self.passes.revoke();
    }

    /// Cuts the connections that the policy denies, or allows only with inspection.
    fn cut_denied(&self, gate: &Gate) {
        let policy = self.policy();
        for open in lock(&self.open).values() {
            let is_uninspected = open.is_uninspected && policy.mode == NetworkMode::Allowlist;
            let is_allowed = match gate.judge(&policy, &open.host, open.port) {
                Ok(()) => true,
                Err(reason) => reason.is_allowable() && open.pass.is_some_and(|pass| self.passes.has(pass)),
            };
            if is_uninspected || !is_allowed {
                open.cut.cancel();
            }
        }
    }

    /// Adds a connection to the list.
    pub(super) fn register(&self, host: Host, port: u16) -> Registration<'_> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let cut = CancellationToken::new();
        lock(&self.open).insert(id, Open { host, port, is_uninspected: false, pass: None, cut: cut.clone() });
        Registration { egress: self, id, cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::EgressSettings;
    use crate::model::network::Rule;

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

    #[test]
    fn a_connection_that_is_allowed_for_one_use_survives_other_rules_but_not_another_policy() {
        let gate = Gate::new(EgressSettings::default(), Vec::new());
        let egress = Outbound::new(policy(NetworkMode::Allowlist, &["b.example"]));
        let host = Host::parse("a.example").unwrap();
        let judged = |registration: &Registration<'_>| {
            gate.judge(&egress.policy_for(&gate, registration, &host, 443), &host, 443)
        };
        let denied = egress.register(host.clone(), 443);
        assert!(judged(&denied).is_err());
        egress.passes.grant(Rule::of(host.clone(), 443), Instant::now());
        let allowed = egress.register(host.clone(), 443);
        assert_eq!(judged(&allowed), Ok(()));
        egress.set_policy(policy(NetworkMode::Allowlist, &["b.example", "c.example"]));
        egress.cut_denied(&gate);
        assert!(denied.cut.is_cancelled() && !allowed.cut.is_cancelled());
        egress.revoke_passes();
        egress.cut_denied(&gate);
        assert!(allowed.cut.is_cancelled());
        assert!(judged(&egress.register(host.clone(), 443)).is_err());
    }
}
