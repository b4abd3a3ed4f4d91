//! Wrapped servers over streamable HTTP, each at a path of its own.

use std::sync::Arc;

use axum::Router;
use sha2::{Digest, Sha256};
use surface_caller::Callers;
use tokio_util::sync::CancellationToken;

use super::handler::Wrapped;
use super::registrations::Registrations;
use super::upstreams::Upstreams;
use crate::streamable;

/// Creates the route `/mcp/{sandbox}/{name}`. Its requests must be authenticated, and their bodies read.
pub(crate) fn http(callers: Arc<dyn Callers>, key: [u8; 32], shutdown: CancellationToken) -> Router {
    // The ids of other sessions mean nothing here.
    let key = Sha256::digest([&key[..], b"wrapped"].concat()).into();
    let upstreams = Upstreams::default();
    upstreams.stop_at(shutdown.clone());
    let registrations = Registrations::Daemon { callers: Arc::clone(&callers), upstreams };
    let create = move || Wrapped::new(registrations.clone());
    streamable::route("/mcp/{sandbox}/{name}", callers, key, shutdown, create)
}
