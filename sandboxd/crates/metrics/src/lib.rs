//! The daemon's metrics, for Prometheus.
//!
//! One [`Metrics`] belongs to one daemon. There is no global state, because several daemons run in one test process.
//! Every label has a closed set of values: routes come from the router, methods and kinds from enums. Nothing that
//! a caller sends becomes a label. Otherwise any client could fill the memory with time series.

mod labels;
mod process;

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::Method;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use sandbox_api::sandbox::SandboxState;

use self::labels::{
    BuildLabels, CallLabels, DecisionLabels, DirectionLabels, EngineErrorLabels, ReasonLabels, RepairLabels,
    RequestLabels, RouteLabels, StateLabels, StreamLabels,
};
pub use self::labels::{Decision, Direction, Repair};
use self::process::Process;
use sandboxd_model::{Ended, command};

/// Content type of [`Metrics::to_text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the histogram of requests, in seconds: from a request that touches nothing to the longest call.
const REQUEST_BUCKETS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0];
/// Upper bounds of the histogram of commands, in seconds.
const COMMAND_BUCKETS: [f64; 10] = [0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0];
/// Upper bounds of the histogram of calls to the engine, in seconds.
const ENGINE_BUCKETS: [f64; 10] = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0, 60.0];

/// Upper bounds of the histograms of snapshots and restores, in seconds.
const SNAPSHOT_BUCKETS: [f64; 9] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The metrics of one daemon.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_time: Histograms<RouteLabels>,
    command_time: Histograms<ReasonLabels>,
    stream_bytes: Family<StreamLabels, Counter>,
    engine_time: Histograms<CallLabels>,
    engine_errors: Family<EngineErrorLabels, Counter>,
    sandboxes: Family<StateLabels, Gauge>,
    pool: Gauge,
    pool_taken: Counter,
    repairs: Family<RepairLabels, Counter>,
    auth_failures: Counter,
    history_dropped: Counter,
    egress_decisions: Family<DecisionLabels, Counter>,
    egress_bytes: Family<DirectionLabels, Counter>,
    egress_open: Gauge,
    snapshot_time: Histogram,
    restore_time: Histogram,
    snapshot_new: Counter,
    snapshot_shared: Counter,
    checkpoint_failures: Counter,
    checkpoints_pending: Gauge,
    snapshots_stored: Gauge,
    bases: Counter,
    copies: Counter,
    disk_free: Gauge,
    disk_total: Gauge,
    process: Process,
}

impl Metrics {
    /// Creates all metrics at zero.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("sandboxd"),
            requests: Family::default(),
            request_time: Family::new_with_constructor(|| Histogram::new(REQUEST_BUCKETS)),
            command_time: Family::new_with_constructor(|| Histogram::new(COMMAND_BUCKETS)),
            stream_bytes: Family::default(),
            engine_time: Family::new_with_constructor(|| Histogram::new(ENGINE_BUCKETS)),
            engine_errors: Family::default(),
            sandboxes: Family::default(),
            pool: Gauge::default(),
            pool_taken: Counter::default(),
            repairs: Family::default(),
            auth_failures: Counter::default(),
            history_dropped: Counter::default(),
            egress_decisions: Family::default(),
            egress_bytes: Family::default(),
            egress_open: Gauge::default(),
            snapshot_time: Histogram::new(SNAPSHOT_BUCKETS),
            restore_time: Histogram::new(SNAPSHOT_BUCKETS),
            snapshot_new: Counter::default(),
            snapshot_shared: Counter::default(),
            checkpoint_failures: Counter::default(),
            checkpoints_pending: Gauge::default(),
            snapshots_stored: Gauge::default(),
            bases: Counter::default(),
            copies: Counter::default(),
            disk_free: Gauge::default(),
            disk_total: Gauge::default(),
            process: Process::default(),
        };
        metrics.register_requests();
        metrics.register_work();
        metrics.register_egress();
        metrics.register_snapshots();
        metrics.register_daemon();
        metrics
    }

    fn register_requests(&mut self) {
        let registry = &mut self.registry;
        registry.register("requests", "Requests by route, method and status", self.requests.clone());
        registry.register_with_unit(
            "request",
            "Time from the head of a request to the head of its response",
            Unit::Seconds,
            self.request_time.clone(),
        );
        registry.register(
            "auth_failures",
            "Requests without the right token, including rate-limited ones",
            self.auth_failures.clone(),
        );
    }

    fn register_work(&mut self) {
        let registry = &mut self.registry;
        registry.register_with_unit(
            "command",
            "Commands from start to end",
            Unit::Seconds,
            self.command_time.clone(),
        );
        registry.register_with_unit(
            "stream",
            "Output of commands sent to readers",
            Unit::Bytes,
            self.stream_bytes.clone(),
        );
        registry.register_with_unit(
            "engine_call",
            "Calls to the engine",
            Unit::Seconds,
            self.engine_time.clone(),
        );
        registry.register(
            "engine_errors",
            "Calls to the engine that failed; `absent` and `conflict` are often expected",
            self.engine_errors.clone(),
        );
        registry.register("sandboxes", "Sandboxes by state", self.sandboxes.clone());
        registry.register("pool", "Started sandboxes that wait for a session", self.pool.clone());
        registry.register(
            "pool_taken",
            "Sandboxes that a session got from the pool of those that waited",
            self.pool_taken.clone(),
        );
        registry.register(
            "reconcile_repairs",
            "Deviations from the expected state that were repaired",
            self.repairs.clone(),
        );
        registry.register(
            "history_dropped",
            "Records of commands that the history dropped under load",
            self.history_dropped.clone(),
        );
    }

    fn register_egress(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "egress_decisions",
            "Outbound connections that sandboxes requested, by outcome",
            self.egress_decisions.clone(),
        );
        registry.register("egress_open", "Open outbound connections of sandboxes", self.egress_open.clone());
        registry.register_with_unit(
            "egress",
            "Bytes that sandboxes sent and received over outbound connections",
            Unit::Bytes,
            self.egress_bytes.clone(),
        );
    }

    fn register_snapshots(&mut self) {
        let registry = &mut self.registry;
        registry.register_with_unit(
            "snapshot",
            "Snapshots that were made",
            Unit::Seconds,
            self.snapshot_time.clone(),
        );
        registry.register(
            "checkpoint_failures",
            "Automatic snapshots that could not be made",
            self.checkpoint_failures.clone(),
        );
        registry.register(
            "checkpoints_pending",
            "Parked sandboxes whose last files the remote store of snapshots may not have",
            self.checkpoints_pending.clone(),
        );
        registry.register_with_unit(
            "snapshot_stored",
            "Size of all stored snapshots",
            Unit::Bytes,
            self.snapshots_stored.clone(),
        );
        registry.register("bases_made", "Bases that were made", self.bases.clone());
        registry.register(
            "base_copies",
            "New sandboxes that got a copy of a large snapshot's files instead of a base",
            self.copies.clone(),
        );
        registry.register_with_unit("restore", "Restores in place", Unit::Seconds, self.restore_time.clone());
        registry.register_with_unit(
            "snapshot_new",
            "Compressed bytes that snapshots added to the store",
            Unit::Bytes,
            self.snapshot_new.clone(),
        );
        registry.register_with_unit(
            "snapshot_shared",
            "Bytes of files that snapshots share with their parents",
            Unit::Bytes,
            self.snapshot_shared.clone(),
        );
    }

    fn register_daemon(&mut self) {
        let version = BuildLabels { version: env!("CARGO_PKG_VERSION") };
        self.registry.register("build", "Version of the daemon", Info::new(version));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.registry.register_with_unit(
            "start_time",
            "Start time of the daemon since the Unix epoch",
            Unit::Seconds,
            ConstGauge::new(now.as_secs_f64()),
        );
        let disk = [("disk_free", "free", &self.disk_free), ("disk_total", "in all", &self.disk_total)];
        for (name, what, gauge) in disk {
            let help =
                format!("Bytes of the file system that workspaces' disks are in, {what}; 0 without disks");
            self.registry.register_with_unit(name, help, Unit::Bytes, gauge.clone());
        }
        self.process.register(&mut self.registry);
    }

    /// Counts a request that was answered. `route` is the router's template.
    pub fn request(&self, route: &str, method: &Method, status: u16, took: Duration) {
        let labels = RequestLabels { route: route.into(), method: labels::method(method), status };
        self.requests.get_or_create(&labels).inc();
        let labels = RouteLabels { route: route.into() };
        self.request_time.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Counts a snapshot that added `new_bytes` to the store, and of whose files `shared_bytes` were there before.
    pub fn snapshot_made(&self, took: Duration, new_bytes: u64, shared_bytes: u64) {
        self.snapshot_time.observe(took.as_secs_f64());
        self.snapshot_new.inc_by(new_bytes);
        self.snapshot_shared.inc_by(shared_bytes);
    }

    /// Counts an automatic snapshot that could not be made.
    pub fn checkpoint_failed(&self) {
        self.checkpoint_failures.inc();
    }

    /// Counts a base that was made.
    pub fn base_made(&self) {
        self.bases.inc();
    }

    /// Counts a new sandbox that got a copy of a large snapshot's files.
    pub fn copied_instead_of_base(&self) {
        self.copies.inc();
    }

    /// Counts a restore.
    pub fn restored(&self, took: Duration) {
        self.restore_time.observe(took.as_secs_f64());
    }

    /// Counts a request without a token, or with a wrong one.
    pub fn auth_failed(&self) {
        self.auth_failures.inc();
    }

    /// Counts a command that ended.
    pub fn command_ended(&self, ended: &Ended) {
        let labels = ReasonLabels { reason: labels::reason(ended.reason) };
        self.command_time.get_or_create(&labels).observe(ended.duration.as_secs_f64());
    }

    /// Counts output that was sent to a reader.
    pub fn output(&self, records: &[command::Record]) {
        for record in records {
            let labels = StreamLabels { stream: labels::stream(record.stream) };
            self.stream_bytes.get_or_create(&labels).inc_by(record.data.len() as u64);
        }
    }

    /// Counts a call to the engine.
    pub fn engine_call(&self, call: &'static str, took: Duration, error: Option<&'static str>) {
        self.engine_time.get_or_create(&CallLabels { call }).observe(took.as_secs_f64());
        if let Some(kind) = error {
            self.engine_errors.get_or_create(&EngineErrorLabels { call, kind }).inc();
        }
    }

    /// Counts a repair.
    pub fn repaired(&self, what: Repair) {
        self.repairs.get_or_create(&RepairLabels { kind: what.as_str() }).inc();
    }

    /// Counts a sandbox's request for an outbound connection.
    pub fn egress_decided(&self, decision: Decision) {
        self.egress_decisions.get_or_create(&decision.labels()).inc();
    }

    /// Counts an outbound connection that was opened or, with -1, has ended.
    pub fn egress_opened(&self, change: i64) {
        self.egress_open.inc_by(change);
    }

    /// Counts bytes to or from the outside.
    pub fn egress_moved(&self, direction: Direction, bytes: u64) {
        let labels = DirectionLabels { direction: direction.as_str() };
        self.egress_bytes.get_or_create(&labels).inc_by(bytes);
    }

    /// Counts a sandbox that a session got from the pool.
    pub fn taken_from_pool(&self) {
        self.pool_taken.inc();
    }

    /// Sets the number of sandboxes that wait for a session.
    pub fn set_pool(&self, sandboxes: usize) {
        self.pool.set(i64::try_from(sandboxes).unwrap_or(i64::MAX));
    }

    /// Sets the number of entries that the history has dropped.
    pub fn set_history_dropped(&self, notes: u64) {
        self.history_dropped.inner().store(notes, Ordering::Relaxed);
    }

    /// Sets the size of all stored snapshots.
    pub fn set_snapshots_stored(&self, bytes: u64) {
        self.snapshots_stored.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Sets the number of parked sandboxes whose last files the remote store of snapshots may not have.
    pub fn set_checkpoints_pending(&self, sandboxes: usize) {
        self.checkpoints_pending.set(i64::try_from(sandboxes).unwrap_or(i64::MAX));
    }

    /// Sets the free and total space of the engine's disk.
    pub fn set_disk_room(&self, free_bytes: u64, total_bytes: u64) {
        self.disk_free.set(i64::try_from(free_bytes).unwrap_or(i64::MAX));
        self.disk_total.set(i64::try_from(total_bytes).unwrap_or(i64::MAX));
    }

    /// All metrics in the OpenMetrics text format. `count` is the number of sandboxes in each state.
    pub fn to_text(&self, count: impl Fn(SandboxState) -> usize) -> String {
        for state in labels::STATES {
            let labels = StateLabels { state: labels::state(state) };
            self.sandboxes.get_or_create(&labels).set(i64::try_from(count(state)).unwrap_or(i64::MAX));
        }
        self.process.measure();
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("a String takes whatever is written to it");
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_method_has_no_label_of_its_own() {
        let metrics = Metrics::new();
        for name in ["BREW", "PROPFIND"] {
            let method = Method::from_bytes(name.as_bytes()).unwrap();
            metrics.request("-", &method, 405, Duration::ZERO);
        }
        let text = metrics.to_text(|_| 0);
        let line = r#"sandboxd_requests_total{route="-",method="other",status="405"} 2"#;
        assert!(text.lines().any(|found| found == line), "{text}");
    }

    #[test]
    fn two_daemons_have_separate_counters() {
        let (one, two) = (Metrics::new(), Metrics::new());
        one.auth_failed();
        let count = |metrics: &Metrics| metrics.to_text(|_| 0).contains("sandboxd_auth_failures_total 1");
        assert!(count(&one) && !count(&two));
    }
}
