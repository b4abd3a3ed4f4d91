//! Network policies and denied connections.

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::Method;
use sandbox_api::network::{AllowDenied, AllowScope, DenialAllowed, DenialList, DenialRecord};
use sandbox_api::sandbox::Network;
use sandbox_api::{DenialId, SandboxId};
use tokio::time::timeout;

use crate::deadlines::{ACT, SILENCE};
use crate::lines::Lines;
use crate::request::{broken, json, send_for_stream};
use crate::{BoxError, Client, Error};

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
        let body = send_for_stream(self.request(Method::GET, &path)).await?.into_body().into_pieces();
        Ok(Denials { body: Box::pin(body), lines: Lines::default(), done: false })
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

/// Denials in order. The last record is [`DenialRecord::Gone`] or [`DenialRecord::Lost`]. A stream that ends without
/// either returns an error.
pub struct Denials {
    body: BoxStream<'static, Result<Bytes, BoxError>>,
    lines: Lines,
    done: bool,
}

impl Denials {
    /// Returns the next record. Loses nothing if it is dropped while it waits.
    pub async fn next(&mut self) -> Option<Result<DenialRecord, Error>> {
        if self.done {
            return None;
        }
        let record = self.read().await;
        self.done = matches!(record, Err(_) | Ok(DenialRecord::Gone | DenialRecord::Lost));
        Some(record)
    }

    async fn read(&mut self) -> Result<DenialRecord, Error> {
        loop {
            if let Some(line) = self.lines.next()? {
                return serde_json::from_slice(&line).map_err(Error::BadLine);
            }
            match timeout(SILENCE, self.body.next()).await {
                Ok(Some(Ok(bytes))) => self.lines.push(&bytes),
                Ok(Some(Err(error))) => return Err(broken(error)),
                Ok(None) => return Err(Error::Cut),
                Err(_) => return Err(Error::Silent { after: SILENCE }),
            }
        }
    }
}

impl std::fmt::Debug for Denials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Denials").field("done", &self.done).finish_non_exhaustive()
    }
}
