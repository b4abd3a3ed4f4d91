//! Serves the outbound connections of one sandbox, from the request to the end of the connection.
//!
//! One task receives the requests while the sandbox runs. Each connection is a task in its `JoinSet`, so all of them end with
//! it.

use std::sync::Arc;

use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::network::DenialReason;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::DropGuard;
use tracing::debug;

use super::refusal::reply_for;
use super::{AnyRelay, Egress, Outbound, Registration};
use crate::agent::{AgentHandle, Outgoing};
use crate::egress::{self, Broken, Budget, Expected, Gate, Meter, RemoteEndpoint, Tally, carry};
use crate::metrics::{Decision, Direction, Metrics};
use crate::model::{Host, Owner, limits};
use crate::service::audit::Audit;

impl Egress {
    /// Serves the outbound connections of a sandbox until the guard is dropped. `budget` is that of its project.
    pub(in crate::service) fn begin(
        &self,
        sandbox: &SandboxId,
        owner: &Owner,
        outbound: &Arc<Outbound>,
        agent: &AgentHandle,
        budget: Arc<Budget>,
    ) -> DropGuard {
        let server = OutboundServer {
            sandbox: sandbox.clone(),
            owner: owner.clone(),
            audit: Arc::clone(&self.audit),
            gate: Arc::clone(&self.gate),
            outbound: Arc::clone(outbound),
            tally: Arc::new(Tally::new(Arc::clone(&self.metrics), self.gate.max_bytes(), budget)),
            metrics: Arc::clone(&self.metrics),
        };
        let (stop, agent) = (self.tasks.closing().child_token(), agent.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(Arc::new(server).serve(agent)));
        stop.drop_guard()
    }
}

/// Server of a running sandbox's outbound connections.
struct OutboundServer {
    sandbox: SandboxId,
    owner: Owner,
    audit: Arc<Audit>,
    gate: Arc<Gate>,
    outbound: Arc<Outbound>,
    metrics: Arc<Metrics>,
    tally: Arc<Tally>,
}

impl OutboundServer {
    async fn serve(self: Arc<Self>, agent: AgentHandle) {
        let mut connections = JoinSet::new();
        let mut pause = *limits::EGRESS_RETRY.start();
        while !agent.is_closed() {
            let mut requests = agent.outgoing();
            while let Some(Ok(outgoing)) = requests.next().await {
                pause = *limits::EGRESS_RETRY.start();
                while connections.try_join_next().is_some() {}
                self.accept(outgoing, &mut connections).await;
            }
            sleep(pause).await;
            pause = (pause * 2).min(*limits::EGRESS_RETRY.end());
        }
    }

    /// Begins a connection. A request over a limit is denied before the next one is received, which slows its sender down.
    async fn accept(self: &Arc<Self>, outgoing: Outgoing, connections: &mut JoinSet<()>) {
        let permit = Arc::clone(&self.outbound.connection_permits).try_acquire_owned().ok();
        let is_in_time = self.outbound.rate.check().is_ok();
        match permit.filter(|_| is_in_time && !self.tally.is_over()) {
            Some(permit) => drop(connections.spawn(Arc::clone(self).connect(outgoing, permit))),
            None => self.refuse(outgoing, None, &egress::Error::Denied { reason: DenialReason::Limit }).await,
        }
    }

    async fn connect(self: Arc<Self>, outgoing: Outgoing, _permit: OwnedSemaphorePermit) {
        let port = outgoing.port;
        if let Some(relay) = self.outbound.relay_at(&outgoing.host, port) {
            return self.serve_relay(outgoing, relay).await;
        }
        let Ok(host) = Host::parse(&outgoing.host) else {
            let invalid = egress::Error::Denied { reason: DenialReason::Invalid };
            return self.refuse(outgoing, None, &invalid).await;
        };
        let registration = self.outbound.register(host.clone(), port);
        let policy = self.outbound.policy_for(&self.gate, &registration, &host, port);
        let connected = self.gate.connect(&policy, &host, port, &self.outbound.lookup_permits);
        match registration.cut.run_until_cancelled(connected).await {
            Some(Ok(far)) => {
                self.metrics.egress_decided(Decision::Allowed);
                let expected = Expected { host, port };
                self.carry(outgoing, far, &expected, &registration).await;
            }
            Some(Err(error)) => self.refuse(outgoing, Some(&host), &error).await,
            // The policy changed in the meantime and denies the connection.
            None => {
                let policy = self.outbound.policy();
                let reason =
                    self.gate.judge(&policy, &host, port).err().unwrap_or(DenialReason::HostNotAllowed);
                self.refuse(outgoing, Some(&host), &egress::Error::Denied { reason }).await;
            }
        }
    }

    /// Serves a connection to the relay of the sandbox. Its bytes count like those of other connections.
    async fn serve_relay(&self, outgoing: Outgoing, relay: AnyRelay) {
        let Ok(tunnel) = outgoing.accept().await else { return };
        let _counted = OpenGauge::new(&self.metrics);
        let meter = Arc::new(Meter::new(Arc::clone(&self.tally), limits::EGRESS_SILENCE));
        let moved = {
            let meter = Arc::clone(&meter);
            move |bytes| meter.moved(Direction::In, bytes)
        };
        let served = async {
            match relay {
                AnyRelay::Repository(relay) => relay.serve(tunnel, moved).await,
                AnyRelay::Packages(relay) => relay.serve(tunnel, moved).await,
            }
        };
        tokio::select! {
            () = served => {}
            () = meter.over() => {}
        }
    }

    async fn carry(
        &self,
        outgoing: Outgoing,
        far: RemoteEndpoint,
        expected: &Expected,
        registration: &Registration<'_>,
    ) {
        // If the process no longer waits, there is nothing to carry.
        let Ok(tunnel) = outgoing.accept().await else { return };
        let _counted = OpenGauge::new(&self.metrics);
        let inspected = registration.must_inspect().then_some(expected);
        let meter = Meter::new(Arc::clone(&self.tally), limits::EGRESS_SILENCE);
        let carried = registration.cut.run_until_cancelled(carry(tunnel, far, inspected, &meter)).await;
        let reason = match carried {
            Some(Err(Broken::Mismatch)) => DenialReason::NameMismatch,
            Some(Err(Broken::Spent)) => DenialReason::Limit,
            Some(Ok(()) | Err(Broken::Silent | Broken::Reset { .. })) | None => return,
        };
        self.denied(Some(&expected.host), &expected.host.to_string(), expected.port, reason);
    }

    async fn refuse(&self, outgoing: Outgoing, host: Option<&Host>, error: &egress::Error) {
        let (text, port) = (host.map_or_else(|| outgoing.host.clone(), ToString::to_string), outgoing.port);
        let (reason, mut message) = reply_for(error, &text, port);
        message.truncate(message.floor_char_boundary(limits::MAX_REFUSAL_BYTES));
        match error {
            egress::Error::Denied { reason } => self.denied(host, &text, port, *reason),
            failed => {
                self.metrics.egress_decided(Decision::Failed);
                let host = self.outbound.redacted(&text);
                debug!(host, port, error = failed as &dyn std::error::Error, "an outbound connection failed");
            }
        }
        // Fails if the process no longer waits.
        let _ = outgoing.refuse(reason, message).await;
    }

    fn denied(&self, host: Option<&Host>, text: &str, port: u16, reason: DenialReason) {
        self.metrics.egress_decided(Decision::Denied(reason));
        let shown = self.outbound.redacted(text);
        // The name of a host with a secret is not kept, so it cannot be allowed.
        let allowable = reason.is_allowable()
            && shown == text
            && host.is_some_and(|host| self.gate.may_allow(host, port));
        self.audit.count_denial(&self.sandbox, &self.owner, &shown, port, reason);
        self.outbound.denials.record(&shown, port, reason, allowable);
        debug!(host = shown, port, ?reason, "an outbound connection was denied");
    }
}

/// Counts an open connection in the metrics until it is dropped.
struct OpenGauge<'a>(&'a Metrics);

impl<'a> OpenGauge<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        metrics.egress_opened(1);
        Self(metrics)
    }
}

impl Drop for OpenGauge<'_> {
    fn drop(&mut self) {
        self.0.egress_opened(-1);
    }
}
