//! Routes each call to one of the agent's services.

use std::convert::Infallible;
use std::task::{Context, Poll};

use agent_protocol::MAX_MESSAGE_BYTES;
use agent_protocol::v1::agent_server::AgentServer;
use agent_protocol::v1::contexts_server::{ContextsServer, SERVICE_NAME as CONTEXTS};
use agent_protocol::v1::files_server::{FilesServer, SERVICE_NAME as FILES};
use agent_protocol::v1::snapshots_server::{SERVICE_NAME as SNAPSHOTS, SnapshotsServer};
use agent_protocol::v1::terminals_server::{SERVICE_NAME as TERMINALS, TerminalsServer};
use agent_protocol::v1::tunnels_server::{SERVICE_NAME as TUNNELS, TunnelsServer};
use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use tonic::body::Body;

use super::service::Service;

/// A gRPC path is `/<service>/<call>`. A call of an unknown service gets the "unknown call" response of the first
/// one.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    agent: AgentServer<Service>,
    contexts: ContextsServer<Service>,
    files: FilesServer<Service>,
    snapshots: SnapshotsServer<Service>,
    terminals: TerminalsServer<Service>,
    tunnels: TunnelsServer<Service>,
}

impl Services {
    pub(crate) fn new(service: &Service) -> Self {
        Self {
            agent: AgentServer::new(service.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            contexts: ContextsServer::new(service.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            files: FilesServer::new(service.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            snapshots: SnapshotsServer::new(service.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            terminals: TerminalsServer::new(service.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            tunnels: TunnelsServer::new(service.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
        }
    }
}

impl tower::Service<Request<Incoming>> for Services {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        match request.uri().path().split('/').nth(1) {
            Some(CONTEXTS) => self.contexts.call(request),
            Some(FILES) => self.files.call(request),
            Some(SNAPSHOTS) => self.snapshots.call(request),
            Some(TERMINALS) => self.terminals.call(request),
            Some(TUNNELS) => self.tunnels.call(request),
            _ => self.agent.call(request),
        }
    }
}
