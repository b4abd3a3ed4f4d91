//! The workspace's disk: bytes, files, and the size of one file.

use sandbox_api::command::EndReason;
use sandbox_api::files::{FileToWrite, WriteFiles};
use sandbox_api::sandbox::Resources;
use sandbox_api::{ErrorCode, SandboxId};

use crate::support::harness::{Daemon, Home};
use crate::support::host_view::HostView;
use crate::support::limits::{MIB, Scene, errno, value_of};

const DISK_MB: u64 = 64;

fn small_disk() -> Resources {
    Resources { disk_mb: Some(DISK_MB), ..Resources::default() }
}

async fn can_write(daemon: &Daemon, sandbox: &SandboxId) {
    assert_eq!(daemon.output(sandbox, "echo written > probe; cat probe; rm probe").await, "written\n");
}

/// Writes until an error, in files that are each within the limit of one file.
const WRITE: &str = "
import os
size = 0
try:
    for part in range(4):
        with open(f'part{part}', 'wb', buffering=0) as file:
            for _ in range(60):
                size += file.write(bytes(1 << 20))
except OSError as error:
    print('bytes', size)
    print('errno', error.errno)
";

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_ends_at_its_quota() {
    let scene = Scene::with(small_disk()).await;
    let client = &scene.daemon.client;
    let said = scene.attack("writing to the end", scene.python(WRITE)).await;
    let written: u64 = value_of(&said, "bytes");
    assert!((50 * MIB..DISK_MB * MIB).contains(&written), "{written}");
    assert_eq!(value_of::<i32>(&said, "errno"), errno::ENOSPC);

    let seen = scene.attacker_now().await;
    assert_eq!(seen.posture.unwrap().disk_quota_bytes, Some(DISK_MB * MIB));
    let taken = seen.usage.unwrap().disk_bytes.unwrap();
    assert!((written..=DISK_MB * MIB).contains(&taken), "{taken}");
    let file = FileToWrite { path: "f".into(), content_base64: "QUFB".repeat(1 << 19), mode: None };
    let refused = client.write_files(&scene.attacker, &WriteFiles { files: vec![file] }).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::InsufficientStorage));

    let fallocate = scene.run("rm part*; fallocate -l 63M big").await;
    assert_ne!(fallocate.exit_code, 0);
    assert!(String::from_utf8_lossy(&fallocate.stderr).contains("No space left"), "{fallocate:?}");
    scene.daemon.output(&scene.attacker, "rm -f big").await;
    can_write(&scene.daemon, &scene.attacker).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_but_open_files_count() {
    let scene = Scene::with(small_disk()).await;
    let program = "
import os
held, size = [], 0
try:
    while True:
        file = open('hidden', 'wb', buffering=0)
        os.unlink('hidden')
        held.append(file)
        for _ in range(16):
            size += file.write(bytes(1 << 20))
except OSError as error:
    print('bytes', size)
    print('errno', error.errno)
try:
    open('more', 'wb', buffering=0).write(bytes(1 << 20))
except OSError as error:
    print('more', error.errno)
";
    let said = scene.attack("deleted and open", scene.python(program)).await;
    assert!(value_of::<u64>(&said, "bytes") < DISK_MB * MIB, "{said}");
    assert_eq!(
        (value_of::<i32>(&said, "errno"), value_of::<i32>(&said, "more")),
        (errno::ENOSPC, errno::ENOSPC)
    );
    can_write(&scene.daemon, &scene.attacker).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_files_end_at_the_number_of_inodes() {
    let scene = Scene::with(small_disk()).await;
    let program = "
import os
os.mkdir('many')
made = 0
try:
    while True:
        os.close(os.open(f'many/{made}', os.O_CREAT | os.O_WRONLY))
        made += 1
except OSError as error:
    print('files', made)
    print('errno', error.errno)
print('free', os.statvfs('.').f_ffree)
";
    let said = scene.attack("empty files", scene.python(program)).await;
    let files: u64 = value_of(&said, "files");
    assert!((7000..10_000).contains(&files), "{files}");
    assert_eq!((value_of::<i32>(&said, "errno"), value_of::<u64>(&said, "free")), (errno::ENOSPC, 0));
    scene.daemon.output(&scene.attacker, "rm -r many").await;
    can_write(&scene.daemon, &scene.attacker).await;
    scene.end().await;
}

/// Creates files larger than the limit.
const TOO_LARGE: &str = "
import os
with open('sparse', 'wb') as file:
    for name, grow in (
        ('truncate', lambda: os.truncate(file.fileno(), 1 << 40)),
        ('fallocate', lambda: os.posix_fallocate(file.fileno(), 0, 1 << 30)),
        ('write', lambda: os.pwrite(file.fileno(), b'x', 1 << 30)),
    ):
        try:
            grow()
        except OSError as error:
            print(name, error.errno)
print('size', os.stat('sparse').st_size)
";

#[tokio::test(flavor = "multi_thread")]
async fn no_file_is_larger_than_the_disk_not_even_a_sparse_one() {
    for quota in ["required", "off"] {
        let daemon = Daemon::start_in(Home::new().set("SANDBOXD_DISK_QUOTA", quota)).await;
        let scene = Scene::on(daemon, small_disk()).await;
        let said = scene.attack(&format!("sparse files, quota {quota}"), scene.python(TOO_LARGE)).await;
        for way in ["truncate", "fallocate", "write"] {
            assert_eq!(value_of::<i32>(&said, way), errno::EFBIG, "{way}");
        }
        assert_eq!(value_of::<u64>(&said, "size"), 0);
        // The kernel's signal ends a program that does not ignore it.
        let outcome = scene.run("truncate -s 1T sparse").await;
        assert_eq!((outcome.exit_code, outcome.reason), (153, EndReason::Killed), "{outcome:?}");
        let most = DISK_MB * MIB;
        assert_eq!(HostView::of(&scene.attacker).await.limit("Max file size"), (most, most));
        scene.daemon.output(&scene.attacker, "rm sparse").await;
        scene.end().await;
    }
}
