//! Terminals: decode, call, encode.

use agent_protocol::fault::to_status;
use agent_protocol::v1;
use agent_protocol::v1::terminals_server::Terminals;
use futures::StreamExt;
use tonic::{Request, Response};

use super::service::{Events, Reply, Service};

#[tonic::async_trait]
impl Terminals for Service {
    type ViewStream = Events<v1::TerminalEvent>;

    async fn open(&self, request: Request<v1::OpenTerminalRequest>) -> Reply<v1::TerminalStatus> {
        let terminal = self.terminals.open(request.into_inner()).await.map_err(to_status)?;
        Ok(Response::new(terminal.status(false)))
    }

    async fn list(&self, _: Request<v1::ListTerminalsRequest>) -> Reply<v1::ListTerminalsReply> {
        let terminals = self.terminals.all().iter().map(|terminal| terminal.status(false)).collect();
        Ok(Response::new(v1::ListTerminalsReply { terminals }))
    }

    async fn inspect(&self, request: Request<v1::TerminalRef>) -> Reply<v1::TerminalStatus> {
        let terminal = self.terminals.get(&request.into_inner().terminal_id).map_err(to_status)?;
        Ok(Response::new(terminal.status(true)))
    }

    async fn resize(&self, request: Request<v1::ResizeTerminalRequest>) -> Reply<v1::ResizeTerminalReply> {
        self.terminals.resize(request.get_ref()).map_err(to_status)?;
        Ok(Response::new(v1::ResizeTerminalReply {}))
    }

    async fn input(&self, request: Request<v1::TerminalInputRequest>) -> Reply<v1::TerminalInputReply> {
        self.terminals.input(request.get_ref()).await.map_err(to_status)?;
        Ok(Response::new(v1::TerminalInputReply {}))
    }

    async fn close(&self, request: Request<v1::TerminalRef>) -> Reply<v1::CloseTerminalReply> {
        self.terminals.close(&request.get_ref().terminal_id).await.map_err(to_status)?;
        Ok(Response::new(v1::CloseTerminalReply {}))
    }

    async fn view(&self, request: Request<v1::ViewTerminalRequest>) -> Reply<Self::ViewStream> {
        let viewer = self.terminals.view(request.get_ref()).map_err(to_status)?;
        Ok(Response::new(viewer.events().boxed()))
    }
}
