//! A wrapped server on standard input and output: `sandboxd mcp --wrap`.

use std::sync::Arc;

use rmcp::ServiceExt;
use sandbox_client::Client;

use super::handler::Wrapped;
use super::registrations::Registrations;
use super::single::{WrapError, WrapOptions, prepare};
use crate::pipe::Pipe;

/// Serves a wrapped server to one host until it closes standard input.
pub async fn wrap(client: Client, options: WrapOptions) -> Result<(), WrapError> {
    let single = prepare(client, options).await?;
    let (input, output) = rmcp::transport::stdio();
    let upstream = single.upstream();
    let server = Wrapped::new(Registrations::Single(Arc::new(single)));
    let serve = server.serve(Pipe::new(input, output));
    let running = serve.await.map_err(|error| WrapError::Handshake(Box::new(error)))?;
    let ended = running.waiting().await.map(drop).map_err(WrapError::Failed);
    upstream.stop().await;
    ended
}
