//! Outbound connections that processes of a sandbox request.

use std::fmt;
use std::pin::Pin;

use agent_protocol::v1::tunnel_part::Part;
use agent_protocol::v1::tunnels_client::TunnelsClient;
use agent_protocol::v1::{self, AcceptConnection, OutgoingConnection, OutgoingRequest, Refused, TunnelPart};
use futures::{Stream, StreamExt, TryStreamExt};
use tonic::Streaming;

use super::super::command::within;
use super::super::link::LinkService;
use super::super::{AgentHandle, Error};
use super::tunnel::Tunnel;
use super::wire::port_number;
use sandboxd_model::limits;
use sandboxd_model::port::{RefusedReason, Via};

/// The outbound connections that a sandbox requests. The stream ends with the agent's connection, or when it is
/// requested again. The new stream then repeats the connections that were not taken.
pub type OutgoingConnections = Pin<Box<dyn Stream<Item = Result<Outgoing, Error>> + Send>>;

/// A process of a sandbox that waits for a connection. It waits a minute, and then assumes that the host does not
/// respond.
pub struct Outgoing {
    client: TunnelsClient<LinkService>,
    id: u64,
    /// Name or address as the process wrote it, without brackets and not resolved: 1 to [`limits::MAX_HOST_BYTES`]
    /// bytes without white space and control characters, otherwise unchecked.
    pub host: String,
    /// From 1.
    pub port: u16,
    /// How the process requested the connection.
    pub via: Via,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, host, port, via, .. } = self;
        f.debug_struct("Outgoing")
            .field("id", id)
            .field("host", host)
            .field("port", port)
            .field("via", via)
            .finish_non_exhaustive()
    }
}

impl AgentHandle {
    /// The outbound connections that the sandbox's processes request. Only one caller at a time receives them.
    pub fn outgoing(&self) -> OutgoingConnections {
        let agent = self.clone();
        let open = async move {
            let mut client = agent.tunnels_client(limits::AGENT_ABSENCE).await?;
            let call = client.outgoing(OutgoingRequest {});
            let requested = within(limits::AGENT_CALL, call).await?.into_inner();
            Ok::<_, Error>(futures::stream::try_unfold((requested, client), next))
        };
        futures::stream::once(open).try_flatten().boxed()
    }
}

type AcceptStream = (Streaming<OutgoingConnection>, TunnelsClient<LinkService>);

/// Nothing follows an error.
async fn next((mut requested, client): AcceptStream) -> Result<Option<(Outgoing, AcceptStream)>, Error> {
    let next = requested.message().await?;
    let next = next.map(|wire| Outgoing::from_wire(&client, wire)).transpose()?;
    Ok(next.map(|next| (next, (requested, client))))
}

impl Outgoing {
    fn from_wire(client: &TunnelsClient<LinkService>, wire: OutgoingConnection) -> Result<Self, Error> {
        let via = match wire.via() {
            v1::Via::Connect => Via::Connect,
            v1::Via::Http => Via::Http,
            v1::Via::Socks => Via::Socks,
            v1::Via::Unspecified => return Err(Error::Malformed { missing: "via" }),
        };
        let foreign = |char: char| char.is_control() || char.is_whitespace();
        let host = wire.host;
        if host.is_empty() || host.len() > limits::MAX_HOST_BYTES || host.contains(foreign) {
            return Err(Error::Malformed { missing: "host" });
        }
        Ok(Self { client: client.clone(), id: wire.id, host, port: port_number(wire.port)?, via })
    }

    /// Reports to the process that its connection is open, and returns the tunnel to it. Fails with
    /// [`Refusal::NotFound`](sandboxd_model::Refusal::NotFound) if the process no longer waits.
    pub async fn accept(mut self) -> Result<Tunnel, Error> {
        let first = Part::Accept(AcceptConnection { id: self.id, refused: None });
        Tunnel::open(first, async |parts| self.client.accept(parts).await).await
    }

    /// Reports to the process why there is no connection. `text` is one line of at most 512 bytes for the user of
    /// the process. It is empty if the reason says everything. Fails like [`accept`](Self::accept).
    pub async fn refuse(mut self, reason: RefusedReason, text: impl Into<String>) -> Result<(), Error> {
        let refused = Refused { reason: to_wire(reason).into(), text: text.into() };
        let only = Part::Accept(AcceptConnection { id: self.id, refused: Some(refused) });
        let parts = futures::stream::iter([TunnelPart { part: Some(only) }]);
        within(limits::AGENT_CALL, self.client.accept(parts)).await?;
        Ok(())
    }
}

fn to_wire(reason: RefusedReason) -> v1::RefusedReason {
    match reason {
        RefusedReason::Policy => v1::RefusedReason::Policy,
        RefusedReason::NameNotFound => v1::RefusedReason::NameNotFound,
        RefusedReason::Unreachable => v1::RefusedReason::Unreachable,
        RefusedReason::ByPeer => v1::RefusedReason::ByPeer,
        RefusedReason::Timeout => v1::RefusedReason::Timeout,
        RefusedReason::Limit => v1::RefusedReason::Limit,
        RefusedReason::Invalid => v1::RefusedReason::Invalid,
    }
}
