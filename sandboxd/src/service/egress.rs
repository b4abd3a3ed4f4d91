//! What each sandbox reaches of the world, and what it was refused.
//!
//! While a sandbox runs, one task hears what its processes ask for; each connection is a task of its own within it, so all of
//! them end with the container. A connection is on the list before the policy is looked at, and whoever changes the policy
//! goes through the list afterwards: so none is missed. Open connections do not count as use of the sandbox; the
//! commands that hold them do.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use sandbox_api::SandboxId;
use sandbox_api::network::DenialReason;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::debug;

use super::activity::now_ms;
use super::order::{Running, State};
use super::registry::Sandbox;
use super::{Changes, Error, Service};
use crate::agent::{AgentHandle, Outgoing};
use crate::egress::{self, Broken, Expected, Far, Gate, Meter, Tally, carry};
use crate::metrics::{Decision, Metrics};
use crate::model::network::NetworkWish;
use crate::model::port::RefusedReason;
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

/// One sandbox's way out, as long as the daemon knows the sandbox.
#[derive(Debug)]
pub(super) struct Egress {
    /// As in the sandbox's record.
    policy: Mutex<NetworkPolicy>,
    denials: Mutex<Vec<Denial>>,
    open: Mutex<HashMap<u64, Open>>,
    next: AtomicU64,
    places: Arc<Semaphore>,
    lookups: Semaphore,
    rate: DefaultDirectRateLimiter,
}

/// A connection that is being made or carried.
#[derive(Debug)]
struct Open {
    host: Host,
    port: u16,
    cut: CancellationToken,
}

/// Takes a connection off the list.
struct Listed<'a> {
    egress: &'a Egress,
    id: u64,
    cut: CancellationToken,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        lock(&self.egress.open).remove(&self.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Egress {
    pub(super) fn new(policy: NetworkPolicy) -> Arc<Self> {
        let per_second = std::num::NonZeroU32::new(limits::EGRESS_CONNECTIONS_PER_SECOND);
        Arc::new(Self {
            policy: Mutex::new(policy),
            denials: Mutex::default(),
            open: Mutex::default(),
            next: AtomicU64::new(0),
            places: Arc::new(Semaphore::new(limits::MAX_EGRESS_CONNECTIONS)),
            lookups: Semaphore::new(limits::MAX_LOOKUPS_EACH),
            rate: RateLimiter::direct(Quota::per_second(per_second.unwrap_or(std::num::NonZeroU32::MIN))),
        })
    }

    /// Follows a change of the record.
    pub(super) fn set_policy(&self, policy: NetworkPolicy) {
        *lock(&self.policy) = policy;
    }

    fn policy(&self) -> NetworkPolicy {
        lock(&self.policy).clone()
    }

    /// Cuts the connections that the policy does not let.
    fn cut_refused(&self, gate: &Gate) {
        let policy = self.policy();
        for open in lock(&self.open).values() {
            if gate.judge(&policy, &open.host, open.port).is_err() {
                open.cut.cancel();
            }
        }
    }

    fn list(&self, host: Host, port: u16) -> Listed<'_> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let cut = CancellationToken::new();
        lock(&self.open).insert(id, Open { host, port, cut: cut.clone() });
        Listed { egress: self, id, cut }
    }

    /// Notes a refusal; the one that is the longest ago is forgotten for it where there are too many.
    fn note(&self, host: &str, port: u16, reason: DenialReason) {
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

impl Service {
    /// Serves what a sandbox asks for until the guard is dropped.
    pub(super) fn begin_egress(&self, sandbox: &Sandbox, agent: &AgentHandle) -> DropGuard {
        let metrics = self.engine.shared_metrics();
        let outlet = Outlet {
            gate: Arc::clone(&self.gate),
            egress: Arc::clone(&sandbox.egress),
            tally: Arc::new(Tally::new(Arc::clone(&metrics), self.gate.max_bytes())),
            metrics,
        };
        let (stop, agent) = (self.watching.child_token(), agent.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(Arc::new(outlet).serve(agent)));
        stop.drop_guard()
    }

    /// Changes what a sandbox may reach, and cuts what it may not reach any more. Neither wakes it nor counts as use.
    pub async fn change_network(
        self: &Arc<Self>,
        id: &SandboxId,
        wish: NetworkWish,
    ) -> Result<NetworkPolicy, Error> {
        let sandbox = self.find(id)?;
        let state = sandbox.order.shared().await;
        if !matches!(&*state, State::Running(Running { .. }) | State::Parked) {
            return Err(Error::NotFound { resource: "sandbox" });
        }
        self.apply(&sandbox, &Changes { network: Some(wish), ..Changes::default() }).await?;
        Ok(sandbox.labels().spec.network)
    }

    /// Makes a sandbox's connections follow its policy, which was changed.
    pub(super) fn follow_policy(&self, sandbox: &Sandbox) {
        sandbox.egress.cut_refused(&self.gate);
    }

    /// What a sandbox was refused since this daemon knows it, the newest first.
    pub fn denials(&self, id: &SandboxId) -> Result<Vec<Denial>, Error> {
        let mut denials = lock(&self.find(id)?.egress.denials).clone();
        denials.reverse();
        Ok(denials)
    }
}

/// The way out of a sandbox that runs.
struct Outlet {
    gate: Arc<Gate>,
    egress: Arc<Egress>,
    metrics: Arc<Metrics>,
    tally: Arc<Tally>,
}

impl Outlet {
    async fn serve(self: Arc<Self>, agent: AgentHandle) {
        let mut connections = JoinSet::new();
        let mut pause = *limits::EGRESS_RETRY.start();
        while !agent.is_over() {
            let mut wanted = agent.outgoing();
            while let Some(Ok(outgoing)) = wanted.next().await {
                pause = *limits::EGRESS_RETRY.start();
                while connections.try_join_next().is_some() {}
                self.take(outgoing, &mut connections).await;
            }
            sleep(pause).await;
            pause = (pause * 2).min(*limits::EGRESS_RETRY.end());
        }
    }

    /// Begins with what is wanted. Whoever wants too much waits for the answer before more of it is heard.
    async fn take(self: &Arc<Self>, outgoing: Outgoing, connections: &mut JoinSet<()>) {
        let place = Arc::clone(&self.egress.places).try_acquire_owned().ok();
        let is_in_time = self.egress.rate.check().is_ok();
        match place.filter(|_| is_in_time && !self.tally.is_over()) {
            Some(place) => drop(connections.spawn(Arc::clone(self).connect(outgoing, place))),
            None => self.refuse(outgoing, None, &egress::Error::Denied { reason: DenialReason::Limit }).await,
        }
    }

    async fn connect(self: Arc<Self>, outgoing: Outgoing, _place: OwnedSemaphorePermit) {
        let port = outgoing.port;
        let Ok(host) = Host::parse(&outgoing.host) else {
            let invalid = egress::Error::Denied { reason: DenialReason::Invalid };
            return self.refuse(outgoing, None, &invalid).await;
        };
        let listed = self.egress.list(host.clone(), port);
        let policy = self.egress.policy();
        let connected = self.gate.connect(&policy, &host, port, &self.egress.lookups);
        match listed.cut.run_until_cancelled(connected).await {
            Some(Ok(far)) => {
                self.metrics.egress_decided(Decision::Allowed);
                let expected = Expected { host, port };
                self.carry(outgoing, far, &policy, &expected, &listed).await;
            }
            Some(Err(error)) => self.refuse(outgoing, Some(&host), &error).await,
            // The policy was changed meanwhile, and not to its favour.
            None => {
                let policy = self.egress.policy();
                let reason =
                    self.gate.judge(&policy, &host, port).err().unwrap_or(DenialReason::HostNotAllowed);
                self.refuse(outgoing, Some(&host), &egress::Error::Denied { reason }).await;
            }
        }
    }

    async fn carry(
        &self,
        outgoing: Outgoing,
        far: Far,
        policy: &NetworkPolicy,
        expected: &Expected,
        listed: &Listed<'_>,
    ) {
        // Where it does not wait any more there is nothing to carry.
        let Ok(tunnel) = outgoing.accept().await else { return };
        let _counted = Counted::new(&self.metrics);
        let looked_at = (policy.mode == NetworkMode::Allowlist).then_some(expected);
        let meter = Meter::new(Arc::clone(&self.tally), limits::EGRESS_SILENCE);
        let carried = listed.cut.run_until_cancelled(carry(tunnel, far, looked_at, &meter)).await;
        let reason = match carried {
            Some(Err(Broken::Mismatch)) => DenialReason::NameMismatch,
            Some(Err(Broken::Spent)) => DenialReason::Limit,
            Some(Ok(()) | Err(Broken::Silent | Broken::Reset { .. })) | None => return,
        };
        self.denied(&expected.host.to_string(), expected.port, reason);
    }

    async fn refuse(&self, outgoing: Outgoing, host: Option<&Host>, error: &egress::Error) {
        let (host, port) = (host.map_or_else(|| outgoing.host.clone(), ToString::to_string), outgoing.port);
        let (reason, mut words) = told(error, &host, port);
        words.truncate(words.floor_char_boundary(limits::MAX_REFUSAL_BYTES));
        match error {
            egress::Error::Denied { reason } => self.denied(&host, port, *reason),
            failed => {
                self.metrics.egress_decided(Decision::Failed);
                debug!(
                    host,
                    port,
                    error = failed as &dyn std::error::Error,
                    "a connection of a sandbox failed"
                );
            }
        }
        // It may have left.
        let _ = outgoing.refuse(reason, words).await;
    }

    fn denied(&self, host: &str, port: u16, reason: DenialReason) {
        self.metrics.egress_decided(Decision::Denied(reason));
        self.egress.note(host, port, reason);
        debug!(host, port, ?reason, "a connection of a sandbox was refused");
    }
}

/// One that is open.
struct Counted<'a>(&'a Metrics);

impl<'a> Counted<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        metrics.egress_opened(1);
        Self(metrics)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.egress_opened(-1);
    }
}

/// What a process is told: the kind, and a line for whoever reads what the process shows.
fn told(error: &egress::Error, host: &str, port: u16) -> (RefusedReason, String) {
    match error {
        egress::Error::Denied { reason } => (refused(*reason), words(*reason, host, port)),
        egress::Error::NotFound { .. } => (RefusedReason::NameNotFound, String::new()),
        egress::Error::Unreachable { .. } => (RefusedReason::Unreachable, String::new()),
        egress::Error::ByPeer { .. } => (RefusedReason::ByPeer, String::new()),
        egress::Error::Timeout => (RefusedReason::Timeout, String::new()),
        egress::Error::Upstream { status } => {
            let words = format!("{host}:{port}: the proxy of this machine's network answered {status}");
            (RefusedReason::Unreachable, words)
        }
    }
}

fn refused(reason: DenialReason) -> RefusedReason {
    match reason {
        DenialReason::Limit => RefusedReason::Limit,
        DenialReason::Invalid => RefusedReason::Invalid,
        _ => RefusedReason::Policy,
    }
}

fn words(reason: DenialReason, host: &str, port: u16) -> String {
    match reason {
        DenialReason::Off => {
            format!(
                "{host}:{port} is refused: this sandbox has no network; do not retry, ask for the network to be allowed"
            )
        }
        DenialReason::HostNotAllowed => {
            format!(
                "{host}:{port} is refused: this sandbox may reach named hosts only; do not retry, ask for {host} to be allowed"
            )
        }
        DenialReason::PortNotAllowed => {
            format!(
                "{host}:{port} is refused: without a rule only ports 80 and 443 may be reached; ask for {host}:{port} to be allowed"
            )
        }
        DenialReason::AddressNotAllowed => {
            format!(
                "{host}:{port} is refused: addresses may be reached only where they are named; use the host's name, or ask for {host} to be allowed"
            )
        }
        DenialReason::NotPublic => {
            format!(
                "{host}:{port} is refused: it is not on the public internet, or not only; no retry and no other spelling helps"
            )
        }
        // What a sandbox sends is not answered by us.
        DenialReason::NameMismatch | DenialReason::Limit => String::new(),
        DenialReason::Invalid => {
            format!("{host}:{port} is no host: write a name, or an address as four decimal numbers")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denials_are_counted_and_the_oldest_are_forgotten() {
        let egress = Egress::new(NetworkPolicy::default());
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

    #[test]
    fn a_change_of_policy_cuts_what_it_refuses_and_nothing_else() {
        let policy = |mode, allow: &[&str]| {
            let allow: Vec<String> = allow.iter().map(|text| (*text).to_owned()).collect();
            NetworkPolicy::from_texts(mode, &allow).unwrap()
        };
        let gate = Gate::new(egress::Settings::default(), Vec::new());
        let egress = Egress::new(policy(NetworkMode::Default, &[]));
        let list = |host: &str| egress.list(Host::parse(host).unwrap(), 443);
        let (stays, goes) = (list("a.example"), list("b.example"));
        egress.set_policy(policy(NetworkMode::Allowlist, &["a.example"]));
        egress.cut_refused(&gate);
        assert!(!stays.cut.is_cancelled() && goes.cut.is_cancelled());
        drop((stays, goes));
        assert!(lock(&egress.open).is_empty());
    }

    #[test]
    fn a_process_is_told_in_one_line_what_it_asked_for() {
        let told_by_the_agent = [DenialReason::Limit, DenialReason::NameMismatch];
        for reason in DenialReason::ALL.into_iter().filter(|reason| !told_by_the_agent.contains(reason)) {
            let words = words(reason, "a.example", 443);
            assert!(words.starts_with("a.example:443 is") && !words.contains('\n'), "{reason:?}: {words}");
        }
    }
}
