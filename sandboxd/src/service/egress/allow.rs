//! Allowing a host that a sandbox was denied.

use std::time::Instant;

use sandbox_api::network::DenialReason;

use super::{Denial, Egress, Outbound};
use crate::egress;
use crate::model::network::Rule;
use crate::model::{Host, NetworkMode, Refusal, limits};
use crate::service::Error;
use crate::service::clock::now_ms;

/// Why a host cannot be allowed, whatever its name.
const NOT_PUBLIC: &str = "it has an address outside the public internet";

/// Result of allowing a denied host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// Host that was denied.
    pub host: String,
    /// Port that was denied.
    pub port: u16,
    /// Rule that allows them.
    pub rule: Rule,
    /// For one use: the latest time at which a connection can begin, in milliseconds since the Unix epoch.
    pub until_ms: Option<i64>,
}

impl Egress {
    /// The rule that allows a denied host. Returns an error if none can: the sandbox is to have no network, or the host
    /// has an address that no policy allows. Its addresses are checked again for each connection.
    pub(in crate::service) async fn rule_for(
        &self,
        outbound: &Outbound,
        denial: &Denial,
    ) -> Result<Rule, Error> {
        let host = Host::parse(&denial.host).ok();
        let name = host.as_ref().map_or_else(|| denial.host.clone(), |host| host.with_port(denial.port));
        let refused = |problem| Refusal::NotAllowable { host: name.clone(), problem };
        match outbound.policy().mode {
            NetworkMode::None => return Err(refused("the sandbox has the network mode `none`").into()),
            NetworkMode::Open => return Err(refused("the sandbox has the network mode `open`").into()),
            NetworkMode::Default | NetworkMode::Allowlist => {}
        }
        if denial.reason == DenialReason::NotPublic {
            return Err(refused(NOT_PUBLIC).into());
        }
        let host = host.filter(|_| denial.reason.can_be_allowed());
        let host = host.ok_or_else(|| refused("it was not denied by the list of allowed hosts"))?;
        match self.gate.check_addresses(&host, denial.port, &outbound.lookup_permits).await {
            Err(egress::Error::Denied { .. }) => Err(refused(NOT_PUBLIC).into()),
            // A name that cannot be resolved now may be known to the operator's proxy.
            _ => Ok(Rule::of(host, denial.port)),
        }
    }
}

impl Outbound {
    /// Allows a host for one use. Returns the latest time at which a connection can begin.
    pub(in crate::service) fn allow_once(&self, rule: Rule) -> i64 {
        self.passes.grant(rule, Instant::now());
        now_ms().saturating_add(limits::PASS_LIFETIME.as_millis() as i64)
    }
}
