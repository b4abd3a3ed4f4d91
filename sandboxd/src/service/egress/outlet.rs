//! What the processes of one sandbox ask for, from the moment they ask until their connections end.
//!
//! One task hears them while the sandbox runs; each connection is a task within it, so all of them end with it.

use std::sync::Arc;

use futures::StreamExt;
use sandbox_api::network::DenialReason;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::DropGuard;
use tracing::debug;

use super::refusal::told;
use super::{Egress, Listed, Outbound};
use crate::agent::{AgentHandle, Outgoing};
use crate::egress::{self, Broken, Expected, Far, Gate, Meter, Tally, carry};
use crate::metrics::{Decision, Metrics};
use crate::model::{Host, limits};

impl Egress {
    /// Serves the outbound connections of a sandbox until the guard is dropped.
    pub(in crate::service) fn begin(&self, outbound: &Arc<Outbound>, agent: &AgentHandle) -> DropGuard {
        let outlet = Outlet {
            gate: Arc::clone(&self.gate),
            outbound: Arc::clone(outbound),
            tally: Arc::new(Tally::new(Arc::clone(&self.metrics), self.gate.max_bytes())),
            metrics: Arc::clone(&self.metrics),
        };
        let (stop, agent) = (self.tasks.closing().child_token(), agent.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(Arc::new(outlet).serve(agent)));
        stop.drop_guard()
    }
}

/// The way out of a sandbox that runs.
struct Outlet {
    gate: Arc<Gate>,
    outbound: Arc<Outbound>,
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
        let place = Arc::clone(&self.outbound.places).try_acquire_owned().ok();
        let is_in_time = self.outbound.rate.check().is_ok();
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
        let listed = self.outbound.list(host.clone(), port);
        let policy = self.outbound.policy();
        let connected = self.gate.connect(&policy, &host, port, &self.outbound.lookups);
        match listed.cut.run_until_cancelled(connected).await {
            Some(Ok(far)) => {
                self.metrics.egress_decided(Decision::Allowed);
                let expected = Expected { host, port };
                self.carry(outgoing, far, &expected, &listed).await;
            }
            Some(Err(error)) => self.refuse(outgoing, Some(&host), &error).await,
            // The policy was changed meanwhile, and not to its favour.
            None => {
                let policy = self.outbound.policy();
                let reason =
                    self.gate.judge(&policy, &host, port).err().unwrap_or(DenialReason::HostNotAllowed);
                self.refuse(outgoing, Some(&host), &egress::Error::Denied { reason }).await;
            }
        }
    }

    async fn carry(&self, outgoing: Outgoing, far: Far, expected: &Expected, listed: &Listed<'_>) {
        // Where it does not wait any more there is nothing to carry.
        let Ok(tunnel) = outgoing.accept().await else { return };
        let _counted = Counted::new(&self.metrics);
        let looked_at = listed.is_looked_at().then_some(expected);
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
        self.outbound.note(host, port, reason);
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
