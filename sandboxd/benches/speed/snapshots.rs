//! Snapshots of a tree like that of a web project, compared with `tar`, `find` and `zstd` on the same tree in the sandbox.

use std::pin::pin;
use std::time::{Duration, Instant};

use sandbox_api::sandbox::{Checkpoints, CreateSandbox, WorkspaceSource};
use sandbox_api::snapshot::{ForkSandbox, MakeSnapshot, RestoreSnapshot, Snapshot};
use sandbox_api::{SandboxId, SnapshotId};
use sandbox_client::Client;
use test_daemon::{docker, outcome, script};
use tokio::time::sleep;

use crate::commands::agent_pid;
use crate::home::Home;
use crate::memory::{peak_kib, resident_kib};
use crate::table::{difference, heading, ratio, row, size};

const ROUNDS: usize = 5;
const CREATES: usize = 25;
const FORKS: usize = 50;

/// Rounds of another sandbox's commands: some while nothing else happens, and then for as long as a snapshot and a restore take.
const NEIGHBOUR_ROUNDS: usize = 10;
const NEIGHBOUR_COMMANDS: usize = 30;

/// Time after which the daemon has freed its temporary memory.
const SETTLE: Duration = Duration::from_secs(3);

/// `zstd -1`, which the image has in Node.
const ZSTD: &str = r#"node -e '
const zlib = require("zlib"), level = { [zlib.constants.ZSTD_c_compressionLevel]: 1 };
process.stdin.pipe(zlib.createZstdCompress({ params: level })).pipe(process.stdout)'"#;

/// Commands with and without checkpoints: blocks of each in turn. The pauses between them let checkpoints happen.
const CHECKPOINTED_BLOCKS: usize = 10;
const CHECKPOINTED_BLOCK: usize = 30;
const THINKING: Duration = Duration::from_millis(150);

/// About 21,000 files and 170 MB of text, in 2,100 directories.
const TREE: &str = r#"python3 - <<'END'
import os, random
random.seed(7)
words = [''.join(random.choices('abcdefghijklmnopqrstuvwxyz', k=random.randint(2, 9))) for _ in range(4000)]
for number in range(21000):
    path = f"tree/{number % 30}/{number % 70}/file{number}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    size = min(int(random.lognormvariate(8, 1.35)), 3_000_000)
    with open(path, 'w') as file:
        file.write(' '.join(random.choices(words, k=size // 6 + 1)))
END"#;

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let bench = Bench::new(home.client()).await;
    let (agent, daemon) = (agent_pid(&bench.sandbox).await, home.daemon_pid());
    sleep(SETTLE).await;
    let before = (resident_kib(agent), resident_kib(daemon));
    let (first, last) = bench.make_and_restore().await;
    bench.create_and_fork(&first, &last).await;
    bench.restore(&first.snapshot_id).await;
    bench.checkpoints().await;
    bench.neighbour(&first.snapshot_id).await;
    sleep(SETTLE).await;
    println!("\nmemory, more than before the first snapshot");
    let more = |now: u64, before: u64| now as f64 - before as f64;
    size("the agent at most", more(peak_kib(agent), before.0), "(goal: at most 32768)");
    size("the daemon at most", more(peak_kib(daemon), before.1), "");
    size("the daemon afterwards", more(resident_kib(daemon), before.1), "(goal: flat)");

    home.stop();
    home.start_with(&[("SANDBOXD_BASES_MB", "0")]).await;
    bench.create_copies(&first).await;
}

/// What is used of the file system with the engine's data, in KiB.
pub(crate) async fn engine_disk_kib() -> f64 {
    rustix::fs::sync();
    let root = docker().await.info().await.unwrap().docker_root_dir.unwrap();
    let disk = rustix::fs::statvfs(&*root).unwrap();
    ((disk.f_blocks - disk.f_bfree) * disk.f_frsize) as f64 / 1024.0
}

struct Bench {
    client: Client,
    sandbox: SandboxId,
}

impl Bench {
    async fn new(client: Client) -> Self {
        let request = CreateSandbox { session_key: "bench:snapshots".into(), ..CreateSandbox::default() };
        let sandbox = client.create_or_reconnect(&request).await.unwrap().sandbox_id;
        let bench = Self { client, sandbox };
        bench.run(TREE).await;
        bench
    }

    async fn run(&self, text: &str) -> Duration {
        let began = Instant::now();
        let ended = outcome(self.client.run(&self.sandbox, &script(text)).await.unwrap()).await;
        assert_eq!(ended.exit_code, 0, "{text}");
        began.elapsed()
    }

    async fn make(&self) -> (Snapshot, Duration) {
        let began = Instant::now();
        let made = self.client.make_snapshot(&self.sandbox, &MakeSnapshot::default()).await.unwrap();
        (made.snapshot, began.elapsed())
    }

    async fn restore(&self, snapshot: &SnapshotId) -> Duration {
        let body = RestoreSnapshot { snapshot_id: snapshot.clone(), force: Some(true) };
        let began = Instant::now();
        self.client.restore_snapshot(&self.sandbox, &body).await.unwrap();
        began.elapsed()
    }

    /// Returns the first snapshot, and one of an empty workspace.
    async fn make_and_restore(&self) -> (Snapshot, Snapshot) {
        self.run("tar c tree > /dev/null").await;
        let packed = self.run(&format!("tar c tree | {ZSTD} > ../.local/tmp/tree.tar.zst")).await;
        let (first, took) = self.make().await;
        heading("21,000 files, 170 MB");
        let packed = row("tar c | zstd -1", vec![packed]);
        let made = row("first snapshot", vec![took]);
        ratio("first snapshot / tar c | zstd -1", made.p50 / packed.p50, "at most 1.5");
        let (mut find, mut unchanged, mut ten) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            find.push(self.run("find . -printf '%p %s %T@\n' > /dev/null").await);
            unchanged.push(self.make().await.1);
            self.run(&format!("for i in 1 2 3 4 5 6 7 8 9 10; do echo {round} > tree/$i/$i/changed; done"))
                .await;
            ten.push(self.make().await.1);
        }
        let find = row("find -printf", find);
        let unchanged = row("snapshot, nothing changed", unchanged);
        let ten = row("snapshot, ten files changed", ten);
        ratio("nothing changed / find -printf", unchanged.p50 / find.p50, "at most 1.5");
        ratio("ten files changed / find -printf", ten.p50 / find.p50, "at most 2");
        self.restores(&first).await
    }

    async fn restores(&self, first: &Snapshot) -> (Snapshot, Snapshot) {
        let (mut ten, mut whole, mut unpacked) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            self.run("for i in 1 2 3 4 5 6 7 8 9 10; do echo x > tree/$i/$i/changed; done").await;
            ten.push(self.restore(&first.snapshot_id).await);
        }
        self.run("tar cf ../.local/tmp/tree.tar tree && rm -r tree").await;
        let empty = self.make().await.0;
        for _ in 0..3 {
            unpacked.push(self.run("tar xf ../.local/tmp/tree.tar && sync -f .").await);
            self.restore(&empty.snapshot_id).await;
            whole.push(self.restore(&first.snapshot_id).await);
            self.restore(&empty.snapshot_id).await;
        }
        row("restore of ten files (goal: 300 ms)", ten);
        let unpacked = row("tar x, sync", unpacked);
        let whole = row("restore to empty, with its checkpoint", whole);
        ratio("restore to empty / tar x", whole.p50 / unpacked.p50, "at most 1.5");
        (first.clone(), empty)
    }

    async fn create_and_fork(&self, first: &Snapshot, empty: &Snapshot) {
        let (mut plain, mut seeded, mut small) = (Vec::new(), Vec::new(), Vec::new());
        let base = vec![self.create("bench:base", Some(first)).await];
        for round in 0..CREATES {
            plain.push(self.create(&format!("bench:plain{round}"), None).await);
            small.push(self.create(&format!("bench:small{round}"), Some(empty)).await);
            seeded.push(self.create(&format!("bench:seeded{round}"), Some(first)).await);
        }
        heading("sandboxes with the files of a snapshot");
        let plain = row("create", plain);
        row("create from an empty snapshot", small);
        row("first create from 21,000 files", base);
        let seeded = row("create from 21,000 files", seeded);
        ratio("create from 21,000 files / create", seeded.p50 / plain.p50, "at most 1.2");
        self.fork("an empty workspace", &self.sandbox).await;
        let workspace = Some(WorkspaceSource::snapshot(first.snapshot_id.clone()));
        let request =
            CreateSandbox { session_key: "bench:forked".into(), workspace, ..CreateSandbox::default() };
        let large = self.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
        let forked = self.fork("21,000 files", &large).await;
        let usage = self.client.get(&self.sandbox).await.unwrap().usage.unwrap();
        let copy = usage.disk_bytes.unwrap() as f64 / 1024.0;
        ratio("disk of the forks / one copy", forked / copy, "at most 2");
        self.client.delete(&large).await.unwrap();
    }

    /// Creates sandboxes at a daemon without bases, each with a copy of the files.
    async fn create_copies(&self, first: &Snapshot) {
        let (mut plain, mut copied) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            plain.push(self.create(&format!("bench:plain{round}"), None).await);
            copied.push(self.create(&format!("bench:copied{round}"), Some(first)).await);
        }
        heading("without bases");
        let plain = row("create", plain);
        let copied = row("create from 21,000 files", copied);
        ratio("create from 21,000 files / create", copied.p50 / plain.p50, "none");
    }

    /// Commands of another sandbox, alone and while this one is changed, stored and restored.
    async fn neighbour(&self, first: &SnapshotId) {
        let request = CreateSandbox { session_key: "bench:neighbour".into(), ..CreateSandbox::default() };
        let sandbox = self.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
        let neighbour = Self { client: self.client.clone(), sandbox };
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..NEIGHBOUR_ROUNDS {
            for _ in 0..NEIGHBOUR_COMMANDS {
                alone.push(neighbour.run("true").await);
            }
            self.run("rm -r tree/1 && cp -r tree/2 tree/copy").await;
            let mut work = pin!(async {
                self.make().await;
                self.restore(first).await
            });
            loop {
                tokio::select! {
                    biased;
                    _ = &mut work => break,
                    took = neighbour.run("true") => beside.push(took),
                }
            }
        }
        heading("`bash -c true` in another sandbox");
        let alone = row("alone", alone);
        let beside = row("while a snapshot is made and restored", beside);
        ratio("p95 beside / alone", beside.p95 / alone.p95, "at most 2");
        self.client.delete(&neighbour.sandbox).await.unwrap();
    }

    /// Makes many forks. Returns what they take on the engine's disk, in KiB.
    async fn fork(&self, files: &str, sandbox: &SandboxId) -> f64 {
        let before = engine_disk_kib().await;
        let session_keys = (0..FORKS).map(|number| format!("bench:fork{number}")).collect();
        let began = Instant::now();
        let forked = self.client.fork(sandbox, &ForkSandbox { session_keys }).await.unwrap();
        row(&format!("{FORKS} forks of {files}, each"), vec![began.elapsed() / FORKS as u32]);
        let used = engine_disk_kib().await - before;
        size(&format!("disk of {FORKS} forks of {files}"), used, "");
        for fork in forked.sandboxes {
            self.client.delete(&fork.sandbox_id).await.unwrap();
        }
        used
    }

    /// The same sandbox with and without checkpoints, with 21,000 files. Commands follow each other at once, and after
    /// pauses in which a checkpoint begins.
    async fn checkpoints(&self) {
        let (mut without, mut with, mut spaced_without, mut spaced_with) =
            <(Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
        for _ in 0..CHECKPOINTED_BLOCKS {
            for (is_on, at_once, spaced) in
                [(false, &mut without, &mut spaced_without), (true, &mut with, &mut spaced_with)]
            {
                self.set_checkpoints(is_on).await;
                self.run("true").await;
                // The checkpoints so far must not be made beside the commands that are measured.
                sleep(SETTLE).await;
                for _ in 0..CHECKPOINTED_BLOCK {
                    at_once.push(self.run("true").await);
                }
                for _ in 0..CHECKPOINTED_BLOCK / 3 {
                    sleep(THINKING).await;
                    spaced.push(self.run("true").await);
                }
            }
        }
        self.set_checkpoints(false).await;
        heading("`bash -c true`, with a checkpoint of 21,000 files after each");
        let without = row("without checkpoints", without);
        let with = row("with checkpoints", with);
        let spaced_without = row("without, 150 ms after the previous one", spaced_without);
        let spaced_with = row("with, 150 ms after the previous one", spaced_with);
        difference("added to a command", with.p50 - without.p50, "at most 0.2");
        difference("added beside a checkpoint", spaced_with.p50 - spaced_without.p50, "");
    }

    async fn set_checkpoints(&self, is_on: bool) {
        let checkpoints = Checkpoints { after_command: Some(is_on), ..Checkpoints::default() };
        let request = CreateSandbox {
            session_key: "bench:snapshots".into(),
            checkpoints: Some(checkpoints),
            ..CreateSandbox::default()
        };
        self.client.create_or_reconnect(&request).await.unwrap();
    }

    async fn create(&self, session_key: &str, snapshot: Option<&Snapshot>) -> Duration {
        let workspace = snapshot.map(|snapshot| WorkspaceSource::snapshot(snapshot.snapshot_id.clone()));
        let request =
            CreateSandbox { session_key: session_key.into(), workspace, ..CreateSandbox::default() };
        let began = Instant::now();
        let created = self.client.create_or_reconnect(&request).await.unwrap();
        let took = began.elapsed();
        self.client.delete(&created.sandbox_id).await.unwrap();
        took
    }
}
