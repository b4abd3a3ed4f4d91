//! State of the handlers.

use std::sync::Arc;

use listen::throttle::Throttle;
use tokio::sync::Semaphore;

use super::connections::TokenConnections;
use super::front::Front;
use super::hosts::Hosts;
use super::pace::Pace;
use super::rates::Rates;
use super::tickets::Tickets;
use crate::model::front::FrontSettings;
use crate::model::principal::Root;
use crate::model::rates::RateSettings;
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
    pub(super) front: Option<Arc<Front>>,
    /// Whether the admin page is served.
    pub(super) admin_page: bool,
    pub(super) rates: Arc<Rates>,
    pub(super) pace: Arc<Pace>,
    pub(super) tickets: Arc<Tickets>,
    pub(super) connections: Arc<TokenConnections>,
    pub(super) hosts: Arc<Hosts>,
    pub(super) throttle: Arc<Throttle>,
    /// Memory for request bodies that are not small, one permit per KiB.
    pub(super) bodies: Arc<Semaphore>,
}

/// Who may send requests, and how many.
#[derive(Debug, Default)]
pub struct Clients {
    /// Tokens that may only use surfaces.
    pub tool_tokens: ToolTokens,
    /// A trusted front.
    pub front: Option<FrontSettings>,
    /// Whether the admin page is served.
    pub admin_page: bool,
    /// Limits on the number of requests.
    pub rates: RateSettings,
    /// Host names that requests may use, in lower case.
    pub allowed_hosts: Vec<String>,
}

impl ApiState {
    /// Creates the state. The operator's token is `token`.
    pub fn new(service: Arc<Service>, instance: &Instance, token: AdminToken, clients: Clients) -> Self {
        let connections = Arc::new(TokenConnections::default());
        let ended: Arc<dyn Connections> = connections.clone();
        let operator = Principal::operator(instance.operator_fingerprint(&token));
        let front = clients.front.map(|settings| {
            let fingerprint = instance.front_fingerprint(&settings.key);
            Arc::new(Front { settings, fingerprint })
        });
        let of_front = front.iter().map(|front| Root::Front(front.fingerprint));
        service.projects().set_connections(Arc::downgrade(&ended));
        service.projects().set_keys(of_front.chain([operator.root.clone()]).collect());
        let bodies = Arc::new(Semaphore::new(limits::MAX_BODIES_BYTES / 1024));
        Self {
            service,
            token,
            operator: Arc::new(operator),
            tool_tokens: clients.tool_tokens,
            front,
            admin_page: clients.admin_page,
            rates: Arc::new(Rates::new(clients.rates)),
            pace: Arc::default(),
            tickets: Arc::default(),
            connections,
            hosts: Arc::new(Hosts::new(clients.allowed_hosts)),
            throttle: Arc::new(Throttle::new(WRONG_TOKENS)),
            bodies,
        }
    }
}
