//! Standard input and output.

use futures::future::BoxFuture;
use rmcp::ServiceExt;
use sandbox_client::Client;
use toolbox::{HostRoot, Memory, Namespace, NamespaceError, Profile, Toolbox};

use crate::pipe::Pipe;
use crate::seal::Seal;
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

/// What the server offers.
#[derive(Debug)]
pub struct Options {
    /// Session whose sandbox all calls without a handle use.
    pub session: String,
    /// Set of tools.
    pub profile: Profile,
    /// Directory of this machine from and to which files may be copied.
    pub root: Option<HostRoot>,
}

/// Serves one host until it closes standard input. The future is boxed so that only this crate compiles the server.
pub fn stdio(client: Client, options: Options) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(serve(client, options))
}

async fn serve(client: Client, options: Options) -> Result<(), Error> {
    let Options { session, profile, root } = options;
    Namespace::check(&session)?;
    let memory = Memory::default();
    let mut toolbox = Toolbox::new(client, Namespace::new("stdio")?, memory.clone()).with_profile(profile);
    if let Some(root) = root {
        toolbox = toolbox.with_root(root);
    }
    let server = Server::new(Source::Fixed { toolbox, session }, memory, Watches::default(), Seal::random());
    let (input, output) = rmcp::transport::stdio();
    // A dynamic service shares rmcp's code with that of `wrap`.
    let serve = server.into_dyn().serve(Pipe::new(input, output));
    let running = serve.await.map_err(|error| Error::Handshake(Box::new(error)))?;
    running.waiting().await.map(drop).map_err(Error::Failed)
}
