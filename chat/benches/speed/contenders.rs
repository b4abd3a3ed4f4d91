//! The same command without the chat app.

use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::command::Record;
use sandbox_client::Client;
use test_daemon::{Daemon, docker, script};

/// sandboxd through its own client.
pub(crate) struct Bare<'a> {
    client: &'a Client,
    sandbox: &'a SandboxId,
}

/// The engine's exec in the same container: what a chat app with only Docker does.
pub(crate) struct Engine {
    docker: Docker,
    container: String,
}

impl<'a> Bare<'a> {
    pub(crate) fn new(daemon: &'a Daemon, sandbox: &'a SandboxId) -> Self {
        Self { client: &daemon.client, sandbox }
    }

    /// Time until the output arrives. The stream is read to its end.
    pub(crate) async fn echo(&self) -> Duration {
        let began = Instant::now();
        let mut records = self.client.run(self.sandbox, &script("echo hi")).await.unwrap();
        let mut first = None;
        while let Some(record) = records.next().await {
            if matches!(record.unwrap(), Record::Stdout(_)) {
                first.get_or_insert_with(|| began.elapsed());
            }
        }
        first.unwrap()
    }
}

impl Engine {
    pub(crate) async fn new(sandbox: &SandboxId) -> Self {
        Self { docker: docker().await, container: format!("remcochat-sandbox-{sandbox}") }
    }

    /// Time until the output arrives. The stream is read to its end.
    pub(crate) async fn echo(&self) -> Duration {
        let began = Instant::now();
        let config = ExecConfig {
            cmd: Some(["bash", "-c", "echo hi"].map(String::from).to_vec()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..ExecConfig::default()
        };
        let id = self.docker.create_exec(&self.container, config).await.unwrap().id;
        let StartExecResults::Attached { mut output, .. } = self.docker.start_exec(&id, None).await.unwrap()
        else {
            panic!("the exec is not attached");
        };
        let first = output.next().await.unwrap().unwrap();
        let latency = began.elapsed();
        assert_eq!(first.into_bytes(), "hi\n");
        while output.next().await.is_some() {}
        latency
    }
}
