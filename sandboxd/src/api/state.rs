//! State of the handlers.

use std::sync::Arc;

use listen::throttle::Throttle;
use tokio::sync::Semaphore;

use super::connections::TokenConnections;
use super::hosts::Hosts;
use crate::model::{AdminToken, Instance, Principal, ToolTokens, limits};
use crate::preview::WRONG_TOKENS;
use crate::service::{Connections, Service};

/// Shared state of the handlers.
#[derive(Debug, Clone)]
pub struct ApiState {
    pub(super) service: Arc<Service>,
    pub(super) token: AdminToken,
    /// Principal of this token.
    pub(super) operator: Arc<Principal>,
    /// Tokens that may only use surfaces.
    pub(super) tool_tokens: ToolTokens,
    pub(super) connections: Arc<TokenConnections>,
    pub(super) hosts: Arc<Hosts>,
    pub(super) throttle: Arc<Throttle>,
    /// Memory for request bodies that are not small, one permit per KiB.
    pub(super) bodies: Arc<Semaphore>,
}

impl ApiState {
    /// Creates the state. Clients must use one of the `allowed_hosts` (lower case) and the `token`, or one of the
    /// `tool_tokens` for surfaces.
    pub fn new(
        service: Arc<Service>,
        instance: &Instance,
        token: AdminToken,
        tool_tokens: ToolTokens,
        allowed_hosts: Vec<String>,
    ) -> Self {
        let connections = Arc::new(TokenConnections::default());
        let ended: Arc<dyn Connections> = connections.clone();
        let operator = Principal::operator(instance.operator_fingerprint(&token));
        service.projects().set_connections(Arc::downgrade(&ended));
        service.projects().set_keys(vec![operator.root.clone()]);
        let bodies = Arc::new(Semaphore::new(limits::MAX_BODIES_BYTES / 1024));
        Self {
            service,
            token,
            operator: Arc::new(operator),
            tool_tokens,
            connections,
            hosts: Arc::new(Hosts::new(allowed_hosts)),
            throttle: Arc::new(Throttle::new(WRONG_TOKENS)),
            bodies,
        }
    }
}
