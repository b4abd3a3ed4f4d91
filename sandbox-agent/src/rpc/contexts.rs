//! Contexts: decode, call, encode.

use agent_protocol::fault::to_status;
use agent_protocol::v1;
use agent_protocol::v1::contexts_server::Contexts;
use futures::StreamExt;
use tonic::{Request, Response};

use super::service::{Events, Reply, Service};

#[tonic::async_trait]
impl Contexts for Service {
    type RunStream = Events<v1::RunEvent>;

    async fn open(&self, request: Request<v1::OpenContextRequest>) -> Reply<v1::ContextStatus> {
        let context = self.contexts.open(request.into_inner()).await.map_err(to_status)?;
        Ok(Response::new(context.status()))
    }

    async fn list(&self, _: Request<v1::ListContextsRequest>) -> Reply<v1::ListContextsReply> {
        let contexts = self.contexts.all().iter().map(|context| context.status()).collect();
        Ok(Response::new(v1::ListContextsReply { contexts }))
    }

    async fn inspect(&self, request: Request<v1::ContextRef>) -> Reply<v1::ContextStatus> {
        let context = self.contexts.get(&request.get_ref().context_id).map_err(to_status)?;
        Ok(Response::new(context.status()))
    }

    async fn run(&self, request: Request<v1::RunCodeRequest>) -> Reply<Self::RunStream> {
        let events = self.contexts.run(request.into_inner()).await.map_err(to_status)?;
        Ok(Response::new(events.map(Ok).boxed()))
    }

    async fn interrupt(&self, request: Request<v1::ContextRef>) -> Reply<v1::InterruptReply> {
        let context = self.contexts.get(&request.get_ref().context_id).map_err(to_status)?;
        Ok(Response::new(v1::InterruptReply { interrupted: context.interrupt() }))
    }

    async fn restart(&self, request: Request<v1::ContextRef>) -> Reply<v1::ContextStatus> {
        let context = self.contexts.get(&request.get_ref().context_id).map_err(to_status)?;
        context.restart().await.map_err(to_status)?;
        Ok(Response::new(context.status()))
    }

    async fn list_tools(&self, request: Request<v1::ContextRef>) -> Reply<v1::ListToolsReply> {
        let context = self.contexts.get(&request.get_ref().context_id).map_err(to_status)?;
        Ok(Response::new(v1::ListToolsReply { tools: context.tools() }))
    }

    async fn answer_tool_call(&self, request: Request<v1::ToolAnswer>) -> Reply<v1::AnswerToolCallReply> {
        self.contexts.answer(request.into_inner()).map_err(to_status)?;
        Ok(Response::new(v1::AnswerToolCallReply {}))
    }

    async fn close(&self, request: Request<v1::ContextRef>) -> Reply<v1::CloseContextReply> {
        self.contexts.close(&request.get_ref().context_id).await.map_err(to_status)?;
        Ok(Response::new(v1::CloseContextReply {}))
    }
}
