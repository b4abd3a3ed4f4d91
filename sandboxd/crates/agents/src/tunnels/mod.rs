//! Streams of bytes between us and the loopback of a sandbox, over the wire to the agent and back.
//!
//! Inward we name a port; outward processes of the sandbox ask the agent's proxy, and we hear of it. Either way the
//! result is a [`Tunnel`]. This room decides nothing about what may be reached.

mod outgoing;
mod tunnel;
mod wire;

#[cfg(test)]
mod tests;

use std::time::Duration;

use agent_protocol::MAX_PART_BYTES;
use agent_protocol::v1::tunnel_part::Part;
use agent_protocol::v1::tunnels_client::TunnelsClient;
use agent_protocol::v1::{self, ConnectTo};

pub use outgoing::{Outgoing, OutgoingConnections};
pub use tunnel::Tunnel;

use self::wire::listening_port;
use super::command::within;
use super::link::LinkService;
use super::{AgentHandle, Error, ORIGIN};
use sandboxd_model::limits;
use sandboxd_model::port::ListeningPorts;

/// A part and the message around it; also what a whole list of listening sockets stays below.
const MAX_MESSAGE_BYTES: usize = MAX_PART_BYTES + 4096;

impl AgentHandle {
    /// What listens on TCP in the sandbox. The agent's own proxy is left out.
    pub async fn listening(&self) -> Result<ListeningPorts, Error> {
        let mut client = self.tunnels_client(limits::AGENT_ABSENCE).await?;
        let request = client.listening(v1::ListeningRequest {});
        let reply = within(limits::AGENT_CALL, request).await?.into_inner();
        let truncated = reply.truncated || reply.sockets.len() > limits::MAX_LISTENING;
        let sockets = reply.sockets.into_iter().take(limits::MAX_LISTENING);
        Ok(ListeningPorts { ports: sockets.map(listening_port).collect::<Result<_, _>>()?, truncated })
    }

    /// Connects to what listens on a port of the sandbox's loopback, 127.0.0.1 or else ::1. Errors:
    /// [`Refusal::PortClosed`](sandboxd_model::Refusal::PortClosed), [`Refusal::LimitReached`](sandboxd_model::Refusal::LimitReached).
    pub async fn connect_port(&self, port: u16) -> Result<Tunnel, Error> {
        let mut client = self.tunnels_client(limits::AGENT_ABSENCE).await?;
        let first = Part::Connect(ConnectTo { port: port.into() });
        Tunnel::open(first, async |parts| client.connect(parts).await).await
    }

    async fn tunnels_client(&self, within: Duration) -> Result<TunnelsClient<LinkService>, Error> {
        let service = self.current(within).await?.service;
        Ok(TunnelsClient::with_origin(service, ORIGIN.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES))
    }
}
