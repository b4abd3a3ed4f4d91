//! The volume plugin: mounts a workspace over a shared read-only base.
//!
//! A volume is an overlay of two layers. The lower one is a *base*, an EROFS image that is mounted with the sandbox's
//! user as the owner of all files. The upper one is a directory of the sandbox's own disk, so the disk's size is the
//! quota. The program is a managed plugin of the Docker engine: [`config()`] says with which
//! rights.
//!
//! It only mounts and unmounts. It attaches no disk: the disks' helper has done that when the engine asks for a mount.
//! It changes nothing in the directory of disks and bases, which it sees read-only. Its only state are the
//! volumes' definitions (`definitions.rs`). Mounts are kept by the kernel when this process ends.

mod config;
mod definition;
mod definitions;
mod device;
mod fault;
mod idmap;
mod layers;
mod limits;
mod protocol;
mod reserve;
mod rights;
mod upper;
mod volumes;

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};

pub use config::{DIRECTORIES, DISKS_DIR, PROGRAM, VOLUMES_DIR, config, tag};

use self::layers::Places;
use self::volumes::Volumes;

/// The directory in which the engine looks for the sockets of plugins.
const SOCKETS_DIR: &str = "/run/docker/plugins";

/// Runs the program with these arguments, without its name. Returns when the engine stops it.
///
/// # Errors
///
/// The plugin cannot start. The error says which step failed.
pub fn run(arguments: &[String]) -> io::Result<()> {
    if arguments.iter().map(String::as_str).eq([idmap::HOLD]) {
        return idmap::hold();
    }
    rights::reduce()?;
    let places = Places {
        disks: config::DISKS_DIR.into(),
        volumes: config::VOLUMES_DIR.into(),
        private: config::PRIVATE_DIR.into(),
    };
    let volumes = Volumes::open(Path::new(config::STATE_DIR), places);
    let volumes = volumes.map_err(|fault| io::Error::other(fault::one_line(&fault)))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(limits::WORKERS)
        .build()?;
    runtime.block_on(serve(Arc::new(volumes)))
}

async fn serve(volumes: Arc<Volumes>) -> io::Result<()> {
    let socket = Path::new(SOCKETS_DIR).join(config::SOCKET);
    // A killed process leaves its socket.
    match std::fs::remove_file(&socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&socket)?;
    // The program is PID 1 of its container, which no signal ends unless it is handled.
    let mut stop = signal(SignalKind::terminate())?;
    tokio::select! {
        served = axum::serve(listener, protocol::router(volumes)) => served,
        _ = stop.recv() => Ok(()),
    }
}
