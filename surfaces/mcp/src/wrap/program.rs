//! A wrapped server on standard input and output: `sandboxd mcp --wrap`.

use std::sync::Arc;

use futures::future::BoxFuture;
use rmcp::ServiceExt;
use sandbox_client::Client;

use super::handler::Wrapped;
use super::registrations::Registrations;
use super::single::{WrapError, WrapOptions, prepare};
use crate::pipe::Pipe;

/// Serves a wrapped server to one host until it closes standard input. The future is boxed so that only this crate
/// compiles the server.
pub fn wrap(client: Client, options: WrapOptions) -> BoxFuture<'static, Result<(), WrapError>> {
    Box::pin(serve(client, options))
}

async fn serve(client: Client, options: WrapOptions) -> Result<(), WrapError> {
    let single = prepare(client, options).await?;
    let (input, output) = rmcp::transport::stdio();
    let upstream = single.upstream();
    let server = Wrapped::new(Registrations::Single(Arc::new(single)));
    // A dynamic service shares rmcp's code with that of `stdio`.
    let serve = server.into_dyn().serve(Pipe::new(input, output));
    let running = serve.await.map_err(|error| WrapError::Handshake(Box::new(error)))?;
    let ended = running.waiting().await.map(drop).map_err(WrapError::Failed);
    upstream.stop().await;
    ended
}
