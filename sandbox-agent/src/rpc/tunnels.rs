//! Tunnels: decode, call, encode.

use agent_protocol::fault::to_status;
use agent_protocol::v1::tunnel_part::Part;
use agent_protocol::v1::tunnels_server::Tunnels;
use agent_protocol::v1::{self, TunnelPart};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::service::{Events, Reply, Service};
use crate::commands::invalid;
use crate::tunnels::pending::NearEnd;
use crate::tunnels::relay::relay;

#[tonic::async_trait]
impl Tunnels for Service {
    type ConnectStream = Events<TunnelPart>;
    type OutgoingStream = Events<v1::OutgoingConnection>;
    type AcceptStream = Events<TunnelPart>;

    async fn listening(&self, _: Request<v1::ListeningRequest>) -> Reply<v1::ListeningReply> {
        Ok(Response::new(self.tunnels.listening().await))
    }

    async fn connect(&self, request: Request<Streaming<TunnelPart>>) -> Reply<Self::ConnectStream> {
        let mut parts = request.into_inner();
        let Some(Part::Connect(v1::ConnectTo { port })) = first(&mut parts).await? else {
            return Err(to_status(invalid("part", "must be `connect` first".into())));
        };
        let (socket, permit) = self.tunnels.connect(port).await.map_err(to_status)?;
        Ok(Response::new(relay(socket, Bytes::new(), parts, Some(permit)).boxed()))
    }

    async fn outgoing(&self, _: Request<v1::OutgoingRequest>) -> Reply<Self::OutgoingStream> {
        Ok(Response::new(self.tunnels.pending.requests_for_responder().map(Ok).boxed()))
    }

    async fn accept(&self, request: Request<Streaming<TunnelPart>>) -> Reply<Self::AcceptStream> {
        let mut parts = request.into_inner();
        let Some(Part::Accept(accept)) = first(&mut parts).await? else {
            return Err(to_status(invalid("part", "must be `accept` first".into())));
        };
        let answer = match self.tunnels.accept(&accept).await.map_err(to_status)? {
            None => futures::stream::empty().boxed(),
            Some(NearEnd::Client(client, early)) => relay(client, early, parts, None).boxed(),
            Some(NearEnd::Http(socket)) => relay(socket, Bytes::new(), parts, None).boxed(),
        };
        Ok(Response::new(answer))
    }
}

async fn first(
    parts: &mut (impl Stream<Item = Result<TunnelPart, Status>> + Unpin),
) -> Result<Option<Part>, Status> {
    Ok(parts.next().await.transpose()?.and_then(|first| first.part))
}
