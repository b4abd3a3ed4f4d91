//! Network policies and denied connections.

use http::Method;
use sandbox_api::network::{AllowDenied, AllowScope, DenialAllowed, DenialList, DenialRecord};
use sandbox_api::sandbox::Network;
use sandbox_api::{DenialId, SandboxId};

use crate::deadlines::ACT;
use crate::records::RecordStream;
use crate::request::{json, send_for_stream};
use crate::{Client, Error};

impl Client {
    /// Changes the network policy of a sandbox. Absent fields keep their value. Returns the new policy. Safe to
    /// repeat.
    pub async fn change_network(&self, sandbox: &SandboxId, body: &Network) -> Result<Network, Error> {
        let request = self.request(Method::PATCH, &format!("/v1/sandboxes/{sandbox}/network"));
        json(request.json(body), ACT).await
    }

    /// Returns the latest hosts that a sandbox requested and was denied, newest first.
    pub async fn denials(&self, sandbox: &SandboxId) -> Result<DenialList, Error> {
        json(self.request(Method::GET, &format!("/v1/sandboxes/{sandbox}/network/denials")), ACT).await
    }

    /// Streams the latest denials of a sandbox, oldest first, and then those that happen. Neither wakes the sandbox nor
    /// counts as use.
    pub async fn follow_denials(&self, sandbox: &SandboxId) -> Result<Denials, Error> {
        let path = format!("/v1/sandboxes/{sandbox}/network/denials?follow=true");
        let response = send_for_stream(self.request(Method::GET, &path)).await?;
        Ok(RecordStream::new(response, |record| matches!(record, DenialRecord::Gone | DenialRecord::Lost)))
    }

    /// Allows a host that a sandbox was denied. Safe to repeat.
    pub async fn allow_denied(
        &self,
        sandbox: &SandboxId,
        denial: &DenialId,
        scope: AllowScope,
    ) -> Result<DenialAllowed, Error> {
        let path = format!("/v1/sandboxes/{sandbox}/network/denials/{denial}:allow");
        json(self.post(&path, &AllowDenied { scope }), ACT).await
    }
}

/// Denials in order. The last record is [`DenialRecord::Gone`] or [`DenialRecord::Lost`].
pub type Denials = RecordStream<DenialRecord>;
