//! Memory used as files: tmpfs mounts of a fixed size, and files that no size limits.

use sandbox_api::command::EndReason;
use sandbox_api::sandbox::Resources;

use crate::support::harness::until;
use crate::support::host_view::HostView;
use crate::support::limits::small;
use crate::support::limits::{MIB, Scene, errno, python, run_for, value_of};

/// The tmpfs mounts and their sizes in MiB.
const PLACES: [(&str, u64); 3] = [("/tmp", 40), ("/var/tmp", 16), ("/dev/shm", 32)];

/// Fills each mount with empty files with long names, and then with data.
const FILL: &str = "
import os
for place in ('/tmp', '/var/tmp', '/dev/shm'):
    files, size = 0, 0
    try:
        while True:
            os.close(os.open(f'{place}/{files:0240}', os.O_CREAT | os.O_WRONLY))
            files += 1
    except OSError as error:
        print(place, 'files', files)
        print(place, 'files-errno', error.errno)
    big = os.open(f'{place}/{0:0240}', os.O_WRONLY)
    try:
        while True:
            size += os.write(big, bytes(65536))
    except OSError as error:
        print(place, 'bytes', size)
        print(place, 'bytes-errno', error.errno)
try:
    os.open('/run/file', os.O_CREAT | os.O_WRONLY)
except OSError as error:
    print('run', error.errno)
";

#[tokio::test(flavor = "multi_thread")]
async fn full_tmpfs_mounts_leave_the_smallest_sandbox_usable() {
    let scene = Scene::with(small()).await;
    let host = HostView::of(&scene.attacker).await;
    let said = scene.attack("/tmp /var/tmp /dev/shm", scene.python(FILL)).await;
    for (place, mib) in PLACES {
        assert_eq!(value_of::<u64>(&said, &format!("{place} bytes")), mib * MIB, "{place}");
        assert_eq!(value_of::<i32>(&said, &format!("{place} bytes-errno")), errno::ENOSPC);
        assert!(value_of::<u64>(&said, &format!("{place} files")) < 16_384);
        assert_eq!(value_of::<i32>(&said, &format!("{place} files-errno")), errno::ENOSPC);
    }
    assert_eq!(value_of::<i32>(&said, "run"), 13, "/run is root's");

    let used = host.number("memory", "memory.usage_in_bytes", "memory.current");
    println!("limits | full memory-backed places take {} MiB of 256", used / MIB as i64);
    // The files cannot be reclaimed. The remaining memory is enough for the heaviest program of the image.
    for program in ["echo ok", "python3 -c 'print(\"ok\")'", "node -e 'console.log(\"ok\")'"] {
        assert_eq!(scene.daemon.output(&scene.attacker, program).await, "ok\n");
    }
    assert_eq!(host.oom_kills(), 0);
    scene.daemon.output(&scene.attacker, "find /tmp /var/tmp /dev/shm -type f -delete").await;
    assert_eq!(scene.daemon.output(&scene.attacker, "echo ok > /tmp/f; cat /tmp/f").await, "ok\n");
    scene.end().await;
}

/// A process that keeps the sandbox's memory full of anonymous files and is itself too small for the OOM killer. It
/// leaves its command's group and session.
const HOLD: &str = "
import os, time
if os.fork() == 0:
    os.setsid()
    held, size = [], 0
    while size < 240:
        held.append(os.memfd_create('held'))
        for _ in range(8):
            size += os.write(held[-1], bytes(1 << 20)) >> 20
    open('is-full', 'w').close()
    time.sleep(600)
while not os.path.exists('is-full'):
    time.sleep(0.05)
";

#[tokio::test(flavor = "multi_thread")]
async fn memory_in_anonymous_files_is_freed_with_the_command_or_by_parking() {
    let scene = Scene::with(small()).await;
    let (daemon, attacker) = (&scene.daemon, &scene.attacker);
    let host = HostView::of(attacker).await;
    let used = |host: &HostView| host.number("memory", "memory.usage_in_bytes", "memory.current") as u64;
    let limit = std::time::Duration::from_secs(4);
    let attack = async {
        let filled = scene.run(&python(HOLD)).await;
        // The remaining memory is not enough for this command. It may be slow or be killed, and it ends.
        let heavy = run_for(daemon, attacker, "node -e 'console.log(\"ok\")'", limit).await;
        (filled, heavy)
    };
    let (filled, heavy) = scene.attack("memory in nameless files", attack).await;
    assert_eq!(filled.reason, EndReason::Exited);
    assert!(used(&host) > 230 * MIB, "{}", used(&host));
    println!("limits | node in a sandbox full of nameless files: {:?}", heavy.reason);
    assert!([EndReason::Exited, EndReason::Timeout, EndReason::Oom].contains(&heavy.reason), "{heavy:?}");
    assert!(heavy.duration_ms < 20_000, "{heavy:?}");

    // The command has ended, so its leftover process belongs to no command. A new container does not have it.
    daemon.client.park(attacker, true).await.unwrap();
    let node = daemon.output(attacker, "ls is-full; node -e 'console.log(\"ok\")'").await;
    assert_eq!(node, "is-full\nok\n");
    let host = HostView::of(attacker).await;
    until("the memory is free", || async { used(&host) < 150 * MIB }).await;

    // A process that belongs to a running command ends with it.
    daemon.output(attacker, "rm is-full").await;
    let begun = format!("{}\nsleep 600", python(HOLD));
    let request = crate::support::harness::script(&begun);
    let command = daemon.client.start(attacker, &request).await.unwrap().command_id;
    until("the memory is full", || async { used(&host) > 230 * MIB }).await;
    daemon.client.kill(attacker, &command, &Default::default()).await.unwrap();
    until("the memory is free", || async { used(&host) < 150 * MIB }).await;
    scene.end().await;
}

/// Creates as many objects of each kind as the kernel allows.
const SYSTEM_V: &str = "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def count(name, make):
    made = 0
    while make() >= 0:
        made += 1
    print(name, made)
    print(name + '-errno', ctypes.get_errno())
count('queues', lambda: libc.msgget(0, 0o1600))
count('semaphores', lambda: libc.semget(0, 32, 0o1600))
count('segments', lambda: libc.shmget(0, 1 << 20, 0o1600))
";

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_outlive_their_process_are_limited() {
    let scene = Scene::with(Resources::default()).await;
    let said = scene.attack("System V objects", scene.python(SYSTEM_V)).await;
    for (name, made) in [("queues", 16), ("semaphores", 64), ("segments", 32)] {
        assert_eq!(value_of::<u64>(&said, name), made, "{name}");
        assert_eq!(value_of::<i32>(&said, &format!("{name}-errno")), errno::ENOSPC, "{name}");
    }
    scene.end().await;
}
