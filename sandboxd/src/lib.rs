//! sandboxd: a hardened container with a real bash for every chat session.
//!
//! In reading order:
//!
//! - [`config`]: settings from the environment; [`state_dir`]: the instance's key and token on disk
//! - [`api`]: the HTTP API; [`preview`]: the gateway for visitors of previews; [`listen`]: HTTP connections of both
//! - [`content`]: content of files as HTTP responses of both
//! - [`service`]: every decision
//! - [`egress`]: outbound connections of sandboxes; [`git`]: requests to git servers and package registries
//! - [`audit`]: the audit record, a chain of lines
//! - [`schemas`]: JSON schemas of the tools of contexts
//! - [`engine`]: Docker; [`agent`]: the process inside each sandbox; [`store`]: state that outlives the daemon;
//!   [`packs`]: chunks of snapshots; [`sealed`]: a remote store for them, encrypted
//! - [`model`]: values and their checks
//! - [`program`]: arguments, settings, exit codes; [`cli`]: the command line; [`telemetry`]: logging; [`metrics`]: counters
//!
//! Only [`run`] creates them and connects them.

pub mod api;
mod content;
mod memory;
pub mod preview;
pub mod program;
pub mod service;
pub mod telemetry;

pub use sandboxd_agents as agent;
pub use sandboxd_audit as audit;
pub use sandboxd_bases as bases;
pub use sandboxd_cli as cli;
pub use sandboxd_config as config;
pub use sandboxd_egress as egress;
pub use sandboxd_engine as engine;
pub use sandboxd_git as git;
pub use sandboxd_jwt as jwt;
pub use sandboxd_metrics as metrics;
pub use sandboxd_model as model;
pub use sandboxd_packs as packs;
pub use sandboxd_schemas as schemas;
pub use sandboxd_sealed as sealed;
pub use sandboxd_seam as seam;
pub use sandboxd_state_dir as state_dir;
pub use sandboxd_store as store;

use std::fs::{DirBuilder, File, Permissions};
use std::ops::RangeInclusive;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use rustix::fs::{FlockOperation, flock};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::api::{ApiState, Clients, Surfaces};
use crate::config::Config;
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::model::{AdminToken, Instance, limits};
use crate::service::{Service, Setup};
use crate::state_dir::StateDir;
use crate::store::Store;

/// Why the daemon could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The state dir is not usable.
    #[error("the state dir cannot be used")]
    StateDir(#[from] state_dir::Error),
    /// The run dir is not usable.
    #[error("the run dir {} cannot be used", path.display())]
    RunDir {
        /// Its path.
        path: std::path::PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Another daemon of this instance runs here, with another state dir.
    #[error("another sandboxd with this instance key uses {}; one of the two state dirs is a copy", path.display())]
    RunDirInUse {
        /// The run dir.
        path: std::path::PathBuf,
    },
    /// The engine is not usable.
    #[error("the engine cannot be used")]
    Engine(#[from] engine::Error),
    /// The preview gateway's address is not usable.
    #[error("SANDBOXD_PREVIEW_BIND: cannot listen on {address}")]
    PreviewBind {
        /// The address in the setting.
        address: std::net::SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The store is not usable.
    #[error("the store cannot be used")]
    Store(#[from] store::Error),
    /// A prerequisite of every sandbox is missing.
    #[error("cannot create sandboxes on this host")]
    Prepare(#[source] service::Error),
}

/// Serves the API on `listener` until `shutdown`. Sandboxes keep running, and the next start restores them.
///
/// Boxed, because the code of an async function is generated in the crate that polls it: each test would compile the daemon.
pub fn run(
    config: Config,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), Error>> {
    run_with(config, listener, shutdown, api::surfaces)
}

/// Serves like [`run`], with other surfaces.
pub fn run_with(
    config: Config,
    listener: TcpListener,
    shutdown: CancellationToken,
    surfaces: Surfaces,
) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(serve(config, listener, shutdown, surfaces))
}

async fn serve(
    config: Config,
    listener: TcpListener,
    shutdown: CancellationToken,
    surfaces: Surfaces,
) -> Result<(), Error> {
    let state_dir = StateDir::open(&config.state_dir)?;
    let instance = Arc::new(state_dir.instance()?);
    let token = match &config.admin_token {
        Some(token) => AdminToken::new(token),
        None => AdminToken::new(&state_dir.token()?),
    };
    let run_dir = create_run_dir(&config, &instance)?;
    let _run_dir_lock = lock_run_dir(&run_dir)?;
    let metrics = Arc::new(Metrics::new());
    let runtime = config.oci_runtime.clone();
    let engine = Engine::new(config.engine.clone(), Arc::clone(&instance), runtime, Arc::clone(&metrics))?;
    let previews = TcpListener::bind(config.preview.bind)
        .await
        .map_err(|source| Error::PreviewBind { address: config.preview.bind, source })?;
    let tasks = TaskTracker::new();
    let store = Store::open(&config.state_dir).await?;
    let mut setup = setup_of(&config, run_dir, state_dir.holder()?);
    setup.own_ports = own_ports(&config, &[&listener, &previews]);
    // With port 0, the system has chosen one.
    setup.preview.bind = previews.local_addr().unwrap_or(setup.preview.bind);
    let service = Service::new(engine, store, metrics, Arc::clone(&instance), setup, tasks.clone())
        .await
        .map_err(Error::Prepare)?;

    let clients = Clients {
        tool_tokens: config.tool_tokens.clone(),
        front: config.front.clone(),
        rates: config.rates.clone(),
        admin_page: config.admin_page,
        allowed_hosts: config.allowed_hosts.clone(),
    };
    let state = ApiState::new(Arc::clone(&service), &instance, token.clone(), clients);
    let router = api::router(state, &instance, shutdown.clone(), surfaces);
    let serve = api::serve(listener, router, shutdown.clone());
    info!(host = config.bind_host.text, port = config.port, engine = %config.engine, "serving");

    let prepare = async {
        let prepared = service.prepare().await;
        if prepared.is_err() {
            shutdown.cancel();
        }
        prepared
    };
    let keep = service.run_upkeep(shutdown.clone());
    let rates = Arc::new(config.rates.clone());
    let gateway = preview::serve(previews, Arc::clone(&service), token, rates, shutdown.clone());
    let (prepared, (), (), ()) = tokio::join!(unless_shut_down(prepare, &shutdown), serve, gateway, keep);
    service.stop();
    tasks.close();
    if timeout(limits::DRAIN, tasks.wait()).await.is_err() {
        warn!("the grace period ended; work on sandboxes was cut off, and the next start continues it");
    }
    service.close().await;
    prepared.unwrap_or(Ok(())).map_err(Error::Prepare)
}

async fn unless_shut_down<T>(work: impl Future<Output = T>, shutdown: &CancellationToken) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = shutdown.cancelled() => None,
    }
}

/// Creates this instance's directory in the run dir. Nothing else uses it, so the instance may remove anything in it.
fn create_run_dir(config: &Config, instance: &Instance) -> Result<PathBuf, Error> {
    let path = config.run_dir.join(instance.id());
    let create = || {
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        // Every user may open the sockets in it, so other users must not enter the directory.
        std::fs::set_permissions(&path, Permissions::from_mode(0o700))
    };
    create().map_err(|source| Error::RunDir { path: path.clone(), source })?;
    Ok(path)
}

/// Locks the run dir, because a copy of the state dir has the same run dir as its original.
fn lock_run_dir(path: &Path) -> Result<File, Error> {
    let dir = File::open(path).map_err(|source| Error::RunDir { path: path.to_owned(), source })?;
    flock(&dir, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| Error::RunDirInUse { path: path.to_owned() })?;
    Ok(dir)
}

fn setup_of(config: &Config, run_dir: PathBuf, holder: String) -> Setup {
    Setup {
        limits: config.limits,
        state_dir: config.state_dir.clone(),
        remote_store: config.remote_store.clone(),
        audit: config.audit.clone(),
        run_dir,
        holder,
        image: config.image.clone(),
        adopt_original: config.adopt_original,
        disk_quota: config.disk_quota,
        allowed_images: config.allowed_images.clone(),
        image_source: config.image_source.clone().filter(|_| config.autobuild),
        agent_program: config.agent_program.clone(),
        waiting_shells: config.waiting_shells,
        transport: config.transport,
        preview: config.preview.clone(),
        proxy_image: config.proxy_image.clone(),
        network_name: config.network_name.clone(),
        open_network: config.open_network,
        project_quotas: config.project_quotas.clone(),
        egress: config.egress.clone(),
        repositories: config.repositories.clone(),
        packages: config.packages.clone(),
        jwt: config.jwt.clone(),
        own_ports: Vec::new(),
    }
}

/// Ports of the daemon's and the engine's listeners. No sandbox may reach them, whatever its policy allows.
fn own_ports(config: &Config, listeners: &[&TcpListener]) -> Vec<RangeInclusive<u16>> {
    let listening = listeners.iter().filter_map(|listener| listener.local_addr().ok());
    let listening = listening.map(|address| address.port());
    let engine = config.engine.tcp_port();
    let single = listening.chain(engine).map(|port| port..=port);
    single.chain([config.preview.link_ports.clone()]).collect()
}
