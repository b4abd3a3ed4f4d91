//! Standard input and output.

use rmcp::ServiceExt;
use sandbox_client::Client;
use toolbox::{Memory, Namespace, NamespaceError, Toolbox};

use crate::pipe::Pipe;
use crate::server::{Server, Source};
use crate::subscriptions::Watches;

/// Why the server on standard input and output has ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The session cannot be used.
    #[error("the session {0}")]
    Session(#[from] NamespaceError),
    /// The host did not complete the handshake.
    #[error("the host did not open an MCP connection")]
    Handshake(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server's task has failed.
    #[error("the server failed")]
    Failed(#[source] tokio::task::JoinError),
}

/// Serves one host until it closes standard input. All calls without a handle use the sandbox of `session`.
pub async fn stdio(client: Client, session: String) -> Result<(), Error> {
    Namespace::check(&session)?;
    let memory = Memory::default();
    let toolbox = Toolbox::new(client, Namespace::new("stdio")?, memory.clone());
    let server = Server::new(Source::Fixed { toolbox, session }, memory, Watches::default());
    let (input, output) = rmcp::transport::stdio();
    let serve = server.serve(Pipe::new(input, output));
    let running = serve.await.map_err(|error| Error::Handshake(Box::new(error)))?;
    running.waiting().await.map(drop).map_err(Error::Failed)
}
