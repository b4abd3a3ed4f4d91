//! Tunnels: streams of bytes between the daemon and a sandbox's loopback interface.
//!
//! For an inbound tunnel, the daemon names a port. For an outbound one, a process of the sandbox connects to the
//! agent's proxy, which reports the connection. Both are a [`Tunnel`]. This module does not decide what may be
//! reached.

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

/// Maximum size of a message: a part and its envelope. A list of listening sockets stays below it too.
const MAX_MESSAGE_BYTES: usize = MAX_PART_BYTES + 4096;

impl AgentHandle {
    /// The listening TCP ports of the sandbox, without those of the agent's own proxy.
    pub async fn listening(&self) -> Result<ListeningPorts, Error> {
        let mut client = self.tunnels_client(limits::AGENT_ABSENCE).await?;
        let request = client.listening(v1::ListeningRequest {});
        let reply = within(limits::AGENT_CALL, request).await?.into_inner();
        let truncated = reply.truncated || reply.sockets.len() > limits::MAX_LISTENING;
        let sockets = reply.sockets.into_iter().take(limits::MAX_LISTENING);
        Ok(ListeningPorts { ports: sockets.map(listening_port).collect::<Result<_, _>>()?, truncated })
    }

    /// Connects to a port of the sandbox's loopback interface, on 127.0.0.1 or else ::1. Errors:
    /// [`Refusal::PortClosed`](sandboxd_model::Refusal::PortClosed),
    /// [`Refusal::LimitReached`](sandboxd_model::Refusal::LimitReached).
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
