//! Behaviour specific to Vercel: machines that stop, connections that break, and API errors.

mod commands;
mod files;
mod machines;
mod refusals;

use std::time::Duration;

use bash_tools::provider::{
    Command, End, EndReason, Error, Event, Provider, Running, SandboxId, Vercel, VercelOptions,
};
use futures::StreamExt;
use test_daemon::until;

use crate::fixture::key;
use crate::vercel_fake::{Fake, request};

/// A Vercel API with one sandbox.
struct Story {
    fake: Fake,
    vercel: Vercel,
    sandbox: SandboxId,
}

/// Output and end of a command.
#[derive(Debug, Default)]
struct Collected {
    stdout: String,
    stderr: String,
    end: Option<End>,
}

impl Story {
    async fn begin() -> Self {
        Self::with(request()).await
    }

    async fn with(request: VercelOptions) -> Self {
        let fake = Fake::start().await;
        let vercel = fake.provider_of(request);
        let sandbox = vercel.open(&key("1")).await.unwrap().sandbox;
        Self { fake, vercel, sandbox }
    }

    async fn start(&self, script: &str, seconds: u64) -> Result<Running, Error> {
        let command = Command::new(script, Duration::from_secs(seconds));
        self.vercel.run(&self.sandbox, command).await
    }

    async fn run(&self, script: &str) -> Collected {
        collect(self.start(script, 20).await.unwrap()).await
    }

    async fn output(&self, script: &str) -> String {
        let received = self.run(script).await;
        assert_eq!(received.end.map(|end| end.exit_code), Some(0), "{script}: {received:?}");
        received.stdout
    }

    async fn nothing_runs(&self, seconds: &str) {
        until("all processes of the command have ended", || async {
            self.output(&format!("pgrep -fx 'sleep {seconds}' || true")).await.is_empty()
        })
        .await;
    }
}

async fn collect(mut running: Running) -> Collected {
    let mut received = Collected::default();
    assert_eq!(running.next().await.unwrap().unwrap(), Event::Started);
    while let Some(event) = running.next().await {
        match event.unwrap() {
            Event::Stdout(bytes) => received.stdout += std::str::from_utf8(&bytes).unwrap(),
            Event::Stderr(bytes) => received.stderr += std::str::from_utf8(&bytes).unwrap(),
            Event::Ended(end) => received.end = Some(end),
            other => panic!("{other:?}"),
        }
    }
    received
}

const SUCCESS: Option<End> = Some(End { exit_code: 0, reason: EndReason::Exited });
