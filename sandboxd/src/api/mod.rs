//! The HTTP layer: decodes requests, calls the service and encodes responses.
//!
//! Owns routes, authentication, the shape of errors and the request log. Makes no decisions about sandboxes. Every
//! route except health and readiness returns 401 before any other check, even if the path is unknown.

mod auth;
mod batch;
mod body;
mod command;
mod decode;
mod docs;
mod docs_assets;
mod error;
mod files;
mod health;
mod hosts;
mod json_text;
mod metrics;
mod ndjson;
mod network;
mod openapi;
mod orphan;
mod params;
mod port;
mod race;
mod request_log;
mod router;
mod sandbox;
mod server;
mod stdin;
mod terminal;
mod terminal_socket;
mod verb;

use std::sync::Arc;

use axum::http::HeaderValue;
use tokio::sync::Semaphore;

pub use router::router;
pub use server::serve;

use self::hosts::Hosts;
use crate::model::{AdminToken, limits};
use crate::preview::WRONG_TOKENS;
use crate::service::Service;
use listen::throttle::Throttle;

/// Content type of every JSON response.
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// Shared state of the handlers.
#[derive(Debug, Clone)]
pub struct ApiState {
    service: Arc<Service>,
    token: AdminToken,
    hosts: Arc<Hosts>,
    throttle: Arc<Throttle>,
    /// Memory for request bodies that are not small, one permit per KiB.
    bodies: Arc<Semaphore>,
}

impl ApiState {
    /// Creates the state. Clients must use one of the `allowed_hosts` (lower case) and the `token`.
    pub fn new(service: Arc<Service>, token: AdminToken, allowed_hosts: Vec<String>) -> Self {
        let bodies = Arc::new(Semaphore::new(limits::MAX_BODIES_BYTES / 1024));
        Self {
            service,
            token,
            hosts: Arc::new(Hosts::new(allowed_hosts)),
            throttle: Arc::new(Throttle::new(WRONG_TOKENS)),
            bodies,
        }
    }
}
