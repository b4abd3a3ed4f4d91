//! An empty provider, and the tools of one chat.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use bash_tools::provider::{Docker, DockerOptions, NetworkMode, NetworkPolicy, Provider};
use bash_tools::session::{ChatKey, SessionLimits, Sessions};
use bash_tools::tools::{BashInput, BashOutput, FLUSH_PAUSE, OutputLimits, ToolLimits, Toolkit};
use futures::{Stream, StreamExt};
use sandbox_client::Client;
use test_daemon::Daemon;
use tokio_util::sync::CancellationToken;

use crate::vercel_fake::Fake;

/// The provider of one story.
pub(crate) struct Fixture {
    pub(crate) provider: Arc<dyn Provider>,
    /// Resources that must live as long.
    _home: Box<dyn Any + Send + Sync>,
}

impl Fixture {
    /// Uses sandboxd, through its client.
    pub(crate) async fn docker() -> Self {
        Self::of(Daemon::start().await)
    }

    pub(crate) fn of(daemon: Daemon) -> Self {
        let provider = sandboxd(daemon.client.clone());
        Self { provider, _home: Box::new(daemon) }
    }

    /// Uses the fake of Vercel's API.
    pub(crate) async fn vercel() -> Self {
        let fake = Fake::start().await;
        Self { provider: Arc::new(fake.provider()), _home: Box::new(fake) }
    }

    pub(crate) fn sessions(&self, max_open: usize) -> Sessions {
        let limits = SessionLimits { max_open, idle_ttl: Duration::from_secs(600) };
        Sessions::new(Arc::clone(&self.provider), None, limits)
    }

    pub(crate) fn tools(&self, chat: &str) -> Toolkit {
        Toolkit::new(self.sessions(2), key(chat), limits())
    }
}

/// Small sandboxes of sandboxd.
pub(crate) fn sandboxd(client: Client) -> Arc<dyn Provider> {
    Arc::new(Docker::new(client, small()))
}

/// Options of a small sandbox of sandboxd.
pub(crate) fn small() -> DockerOptions {
    DockerOptions {
        runtime: "node24".into(),
        idle_ttl: Duration::from_secs(600),
        vcpus: 1,
        memory_mb: 512,
        network: NetworkPolicy::new(NetworkMode::None, [""; 0]),
        ports: vec![3000],
        checkpoints: None,
    }
}

pub(crate) fn key(chat: &str) -> ChatKey {
    ChatKey::chat(chat).unwrap()
}

/// Small limits, so that stories reach them.
pub(crate) fn limits() -> ToolLimits {
    ToolLimits {
        timeout: Duration::from_secs(20),
        output: OutputLimits { max_stdout_chars: 1000, max_stderr_chars: 500 },
        ports: vec![3000],
        pause: FLUSH_PAUSE,
    }
}

pub(crate) fn command(command: &str) -> BashInput {
    BashInput { command: command.into(), ..BashInput::default() }
}

/// All values of a command.
pub(crate) async fn values(tools: &Toolkit, script: &str) -> Vec<BashOutput> {
    let values = tools.bash(command(script), CancellationToken::new());
    all(values).await
}

pub(crate) async fn all(
    values: impl Stream<Item = bash_tools::tools::Result<BashOutput>>,
) -> Vec<BashOutput> {
    values.map(Result::unwrap).collect().await
}

/// The last value of a command.
pub(crate) async fn run(tools: &Toolkit, script: &str) -> BashOutput {
    values(tools, script).await.pop().unwrap()
}

/// Turns each story into a test for each provider.
macro_rules! over_each_provider {
    ($($story:ident),* $(,)?) => {
        mod with_sandboxd {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $story() {
                super::$story(&$crate::fixture::Fixture::docker().await).await;
            })*
        }

        mod with_vercel {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $story() {
                super::$story(&$crate::fixture::Fixture::vercel().await).await;
            })*
        }
    };
}
pub(crate) use over_each_provider;
