//! Repositories that are kept already, beside plain commands and empty sandboxes. The git server is on this machine.

use std::time::{Duration, Instant};

use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;
use sandbox_api::repository::RunInRepository;
use sandbox_api::sandbox::{CreateSandbox, RepositorySource, WorkspaceSource};
use sandbox_client::Client;
use test_git::{GitServer, NAME};

use crate::home::Home;
use crate::snapshots::engine_disk_kib;
use crate::table::{heading, ratio, row, size};

const WARM_UP: usize = 10;
const COMMANDS: usize = 200;
const CREATES: usize = 10;

/// Sandboxes of one repository that are there at the same time.
const SANDBOXES: usize = 50;

/// 20,000 files in 200 directories.
const FILES: &str = "for dir in $(seq 200); do mkdir $dir; for file in $(seq 100); do
    echo \"$dir $file $RANDOM$RANDOM$RANDOM\" >$dir/$file; done; done; git add .; git commit -qm x; git rev-parse HEAD";

struct Bench {
    client: Client,
    commit: String,
}

pub(crate) async fn measure() {
    let Some(server) = GitServer::start().await else { return };
    let commit = server.repository("owner/name", FILES).await.trim().to_owned();
    let mut home = Home::new();
    let settings = server.settings();
    let forge = format!("https://{NAME}");
    let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
    // As many sandboxes as are measured, and the one of commands.
    let more = [("SANDBOXD_GIT_FORGE", forge.as_str()), ("SANDBOXD_MAX_CONCURRENT", "64")];
    home.start_with(&settings.chain(more).collect::<Vec<_>>()).await;
    let bench = Bench { client: home.client(), commit };

    heading("a repository of 20,000 files");
    row("first command, with the fetch", vec![bench.run().await]);
    bench.commands().await;
    bench.creates().await;
    bench.disk().await;
}

impl Bench {
    async fn commands(&self) {
        let sandbox = self.create("bench:plain", false).await.0;
        let (mut known, mut read_only, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..WARM_UP + COMMANDS {
            let times =
                (self.run().await, self.run_read_only(&sandbox).await, self.run_plain(&sandbox).await);
            if round >= WARM_UP {
                known.push(times.0);
                read_only.push(times.1);
                plain.push(times.2);
            }
        }
        let known = row("command at a known commit (goal: 50 ms)", known);
        row("read-only command", read_only);
        let plain = row("plain command", plain);
        ratio("known commit / plain command", known.p50 / plain.p50, "at most 1.3");
        self.client.delete(&sandbox).await.unwrap();
    }

    async fn creates(&self) {
        let (mut over, mut empty) = (Vec::new(), Vec::new());
        for round in 0..CREATES {
            for (is_of_repository, times) in [(true, &mut over), (false, &mut empty)] {
                let (sandbox, took) = self.create(&format!("bench:{round}"), is_of_repository).await;
                times.push(took);
                self.client.delete(&sandbox).await.unwrap();
            }
        }
        let over = row("create with the repository", over);
        let empty = row("create, empty", empty);
        ratio("with the repository / empty", over.p50 / empty.p50, "at most 1.2");
    }

    async fn disk(&self) {
        let before = engine_disk_kib().await;
        let mut sandboxes = Vec::new();
        for number in 0..SANDBOXES {
            sandboxes.push(self.create(&format!("bench:many{number}"), true).await.0);
        }
        let of_all = engine_disk_kib().await - before;
        let plain = self.create("bench:copy", false).await.0;
        let before = engine_disk_kib().await;
        let request =
            StartCommand { script: Some(FILES.replace("git add", "git init -q; git add")), ..script() };
        self.read(&plain, &request).await;
        let of_one = engine_disk_kib().await - before;
        size(&format!("disk of {SANDBOXES} sandboxes with the repository"), of_all, "");
        size("disk of one checkout", of_one, "");
        ratio("sandboxes / checkout", of_all / of_one, "at most 2");
        for sandbox in sandboxes {
            self.client.delete(&sandbox).await.unwrap();
        }
    }

    async fn run(&self) -> Duration {
        let request = RunInRepository {
            repository: "owner/name".into(),
            git_ref: Some(self.commit.clone()),
            command: "true".into(),
            ..RunInRepository::default()
        };
        let began = Instant::now();
        self.client.run_in_repository(&request).await.unwrap();
        began.elapsed()
    }

    async fn run_plain(&self, sandbox: &SandboxId) -> Duration {
        let request = StartCommand { script: Some("true".into()), ..script() };
        let began = Instant::now();
        self.read(sandbox, &request).await;
        began.elapsed()
    }

    async fn run_read_only(&self, sandbox: &SandboxId) -> Duration {
        let request = StartCommand { script: Some("true".into()), read_only: Some(true), ..script() };
        let began = Instant::now();
        self.read(sandbox, &request).await;
        began.elapsed()
    }

    async fn read(&self, sandbox: &SandboxId, request: &StartCommand) {
        let mut records = self.client.run(sandbox, request).await.unwrap();
        while let Some(record) = records.next().await {
            record.unwrap();
        }
    }

    async fn create(&self, session_key: &str, is_of_repository: bool) -> (SandboxId, Duration) {
        let source = RepositorySource {
            repository: "owner/name".into(),
            git_ref: Some(self.commit.clone()),
            ..RepositorySource::default()
        };
        let workspace = is_of_repository.then_some(WorkspaceSource::Repository(source));
        let request =
            CreateSandbox { session_key: session_key.into(), workspace, ..CreateSandbox::default() };
        let began = Instant::now();
        let created = self.client.create_or_reconnect(&request).await.unwrap();
        (created.sandbox_id, began.elapsed())
    }
}

fn script() -> StartCommand {
    StartCommand { timeout_ms: Some(300_000), ..StartCommand::default() }
}
