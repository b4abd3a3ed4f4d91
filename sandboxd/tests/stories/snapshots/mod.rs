//! Snapshots: made, compared, restored, forked and deleted.

mod agent_kills;
mod base_failures;
mod base_files;
mod bases;
mod basics;
mod checkpoints;
mod checks;
mod damaged_parents;
mod files;
mod forks;
mod full_disk;
mod killed;
mod large;
mod parked;
mod patches;
mod pauses;
mod races;
mod remote;
mod remote_checks;
mod remote_files;
mod restores;
mod values;

use std::path::{Path, PathBuf};

use sandbox_api::SandboxId;
use sandbox_api::snapshot::{MakeSnapshot, SnapshotMade};

use crate::support::harness::{Daemon, Home, SOON};

/// Everything that a snapshot keeps of a sandbox's files, as text: kinds, modes, times, links and contents. Temporary files
/// are skipped.
const FINGERPRINT: &str = r"
cd /vercel/sandbox
find workspace .local outputs -path .local/tmp -prune -o -printf '%p %y %m %T@ %l %n %s\n' | sort
find workspace .local outputs -path .local/tmp -prune -o -type f -print0 | sort -z | xargs -0r sha256sum";

async fn fingerprint(daemon: &Daemon, sandbox: &SandboxId) -> String {
    // A directory's size depends on its history.
    daemon
        .output(
            sandbox,
            &format!(
                "({FINGERPRINT}) | LC_ALL=C sed -E 's/^(.* d .*) [0-9]+$/\\1/' | LC_ALL=C tr -c '\\n -~' '?'"
            ),
        )
        .await
}

async fn snapshot(daemon: &Daemon, sandbox: &SandboxId) -> SnapshotMade {
    daemon.client.make_snapshot(sandbox, &MakeSnapshot::default()).await.unwrap()
}

/// A workspace with what a workspace can hold.
const FILL: &str = r#"
set -e
mkdir -p src/deep/er empty .git && chmod 700 .git
printf 'fn main() {}\n' > src/main.rs && chmod 755 src/main.rs
ln src/main.rs src/hard && ln -s main.rs src/soft && ln -s /nowhere/at/all dangling
head -c 300000 /dev/urandom > src/deep/er/random
truncate -s 1G sparse && printf data | dd of=sparse bs=1 seek=500000000 conv=notrunc status=none
mkfifo pipe
printf x > "$(printf 'not\377utf8')"
printf y > 'name with spaces and
a newline'
touch -d '2001-02-03 04:05:06.789' src/deep src/hard
chmod 000 empty
mkdir -p /vercel/sandbox/.local/bin && printf '#!/bin/sh\necho tool\n' > /vercel/sandbox/.local/bin/tool && chmod 755 /vercel/sandbox/.local/bin/tool
printf temporary > "$TMPDIR/left-out"
"#;

/// The packs in a daemon's store.
fn packs_of(home: &Home) -> Vec<PathBuf> {
    packs_in(&home.path().join("state"))
}

/// The packs in a state dir.
fn packs_in(state: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(state.join("snapshots/packs")).unwrap();
    let packs = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    packs.map(|pack| pack.unwrap().path()).collect()
}

/// Changes a byte in the middle of a pack, which is in a chunk.
fn damage(pack: &Path) {
    let mut bytes = std::fs::read(pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(pack, bytes).unwrap();
}

/// Runs the program with this daemon's URL in a directory of its own.
async fn program(daemon: &Daemon, args: &[&str]) -> (Option<i32>, String) {
    let args = [&args[..1], &["--url", &daemon.base], &args[1..]].concat();
    let output = daemon.home.program(&args).current_dir(daemon.home.path()).output();
    let output = tokio::time::timeout(SOON, output).await.expect("the program does not end").unwrap();
    let shown = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&shown).into_owned())
}
