//! A sandbox for workspace seeds, and helpers to inspect it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bash_tools::provider::{Docker, DockerOptions, Event, NetworkPolicy, Provider, SandboxId};
use bash_tools::seed::{GitCredentials, GitSeed, Result, Seed};
use bash_tools::session::{SessionLimits, Sessions};
use futures::StreamExt;
use test_daemon::{Daemon, Home};

use crate::fixture::key;
use test_git::NAME;

/// A script for a repository with branches, tags, and a commit without a name. It prints its first two commits.
pub(crate) const PROJECT: &str = "
  echo one >file; mkdir -p dir 'a b'; echo run >dir/tool; chmod +x dir/tool; ln -s dir/tool link; echo x >'a b/é'
  git add -A; git commit -qm one; git tag v1; git rev-parse HEAD
  echo two >file; git commit -qam two; git rev-parse HEAD
  echo three >file; git commit -qam three; git tag -a v3 -m v3
  git checkout -q -b feature/x v1; echo x >file; git commit -qam x; git update-ref refs/pull/7/head HEAD~
  git checkout -q main";

/// A repository on the story's git server.
pub(crate) fn git(path: &str) -> GitSeed {
    GitSeed {
        url: format!("https://{NAME}/{path}"),
        revision: None,
        credentials: None,
        allow_http: false,
        timeout: Duration::from_secs(60),
        max_bytes: 1 << 20,
    }
}

/// The same at a revision.
pub(crate) fn at(path: &str, revision: &str) -> Seed {
    Seed::Git(GitSeed { revision: Some(revision.into()), ..git(path) })
}

/// The same with a token.
pub(crate) fn with_token(path: &str, token: &str) -> Seed {
    Seed::Git(GitSeed { credentials: Some(GitCredentials::token(token.into())), ..git(path) })
}

/// A provider of sandboxes with a network.
pub(crate) struct SeedFixture {
    pub(crate) provider: Arc<dyn Provider>,
    /// Resources that must live as long.
    _daemon: Daemon,
}

impl SeedFixture {
    pub(crate) async fn in_home(home: Home) -> Self {
        let daemon = Daemon::start_in(home).await;
        let request = DockerOptions {
            runtime: "node24".into(),
            idle_ttl: Duration::from_secs(600),
            vcpus: 1,
            memory_mb: 512,
            network: NetworkPolicy::default(),
            ports: Vec::new(),
            checkpoints: None,
        };
        Self { provider: Arc::new(Docker::new(daemon.client.clone(), request)), _daemon: daemon }
    }

    /// Sessions of one app.
    pub(crate) fn sessions(&self, seed: &Seed) -> Sessions {
        let limits = SessionLimits { max_open: 2, idle_ttl: Duration::from_secs(600) };
        Sessions::new(Arc::clone(&self.provider), Some(seed.clone()), limits)
    }

    /// An empty sandbox.
    pub(crate) async fn sandbox(&self, chat: &str) -> SandboxId {
        self.provider.open(&key(chat)).await.unwrap().sandbox
    }

    pub(crate) async fn seed_workspace(&self, sandbox: &SandboxId, seed: &Seed) -> Result<()> {
        self.seed_with_steps(sandbox, seed).await.0
    }

    /// The result, and the reported steps.
    pub(crate) async fn seed_with_steps(
        &self,
        sandbox: &SandboxId,
        seed: &Seed,
    ) -> (Result<()>, Vec<String>) {
        let reported = Mutex::new(Vec::new());
        let report = |step| reported.lock().unwrap().push(step);
        let seeded = seed.seed_workspace(&*self.provider, sandbox, true, &report).await;
        (seeded, reported.into_inner().unwrap())
    }

    /// A script's standard output.
    pub(crate) async fn output(&self, sandbox: &SandboxId, script: &str) -> String {
        let command = bash_tools::provider::Command::new(script, Duration::from_secs(30));
        let mut events = self.provider.run(sandbox, command).await.unwrap();
        let mut output = Vec::new();
        while let Some(event) = events.next().await {
            if let Event::Stdout(bytes) = event.unwrap() {
                output.extend_from_slice(&bytes);
            }
        }
        String::from_utf8(output).unwrap()
    }

    /// The files that a model would find in the workspace.
    pub(crate) async fn files(&self, sandbox: &SandboxId) -> String {
        self.output(sandbox, "ls -A | grep -v '^.remcochat$' | tr '\\n' ' '").await
    }
}
