//! Open files, and what the kernel counts per user: watches and queues. Also core dumps, which are off.

use sandbox_api::sandbox::Resources;

use crate::support::harness::{script, until};
use crate::support::host_view::HostView;
use crate::support::limits::{Scene, errno, python, value_of};

const OPEN_FILES: u64 = 4096;

#[tokio::test(flavor = "multi_thread")]
async fn open_files_end_at_the_limit() {
    let scene = Scene::with(Resources::default()).await;
    let program = "
import os, resource
held = []
try:
    while True:
        held.append(os.open('/dev/null', os.O_RDONLY))
except OSError as error:
    print('last', held[-1])
    print('errno', error.errno)
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
except ValueError as error:
    print('raise', error)
";
    let said = scene.attack("open files", scene.python(program)).await;
    assert_eq!(value_of::<u64>(&said, "last"), OPEN_FILES - 1);
    assert_eq!(value_of::<i32>(&said, "errno"), errno::EMFILE);
    assert!(said.contains("raise not allowed"), "{said}");
    assert_eq!(HostView::of(&scene.attacker).await.limit("Max open files"), (OPEN_FILES, OPEN_FILES));
    scene.end().await;
}

/// Creates inotify instances until there are no more, and then watches until there are no more.
const WATCH: &str = "
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
files = []
for folder, _, names in os.walk('/usr'):
    files += [os.path.join(folder, name).encode() for name in names]
    if len(files) > 4000:
        break
instances, watches = [], 0
while (instance := libc.inotify_init1(0)) >= 0:
    instances.append(instance)
print('instances', len(instances))
print('instances-errno', ctypes.get_errno())
def watch():
    made = 0
    for instance in instances:
        for file in files:
            if libc.inotify_add_watch(instance, file, 2) < 0:
                return made
            made += 1
    return made
print('watches', watch())
print('watches-errno', ctypes.get_errno())
print('ready', flush=True)
while not os.path.exists('go'):
    time.sleep(0.05)
";

#[tokio::test(flavor = "multi_thread")]
async fn one_users_inotify_watches_are_not_taken_from_another() {
    let scene = Scene::with(Resources::default()).await;
    let most: u64 = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances")
        .map_or(128, |text| text.trim().parse().unwrap());
    let neighbours = "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
instance = libc.inotify_init1(0)
print('watch', libc.inotify_add_watch(instance, b'/usr', 2))
";
    let attack = async {
        let client = &scene.daemon.client;
        let request = script(&python(WATCH).replacen("<<'END'", "<<'END' > said", 1));
        let command = client.start(&scene.attacker, &request).await.unwrap().command_id;
        let is_full = async || scene.run("grep -q ready said").await.exit_code == 0;
        let is_over = async || client.inspect(&scene.attacker, &command).await.unwrap().ended_at.is_some();
        until("the attacker has all watches", || async { is_full().await || is_over().await }).await;
        // The attacker still holds everything that its user may have.
        let neighbour = scene.daemon.output(&scene.bystander, &python(neighbours)).await;
        assert!(!is_over().await, "the attacker ended too soon");
        scene.run("touch go").await;
        client.wait(&scene.attacker, &command, None).await.unwrap();
        (neighbour, scene.daemon.output(&scene.attacker, "cat said").await)
    };
    let (neighbour, said) = scene.attack("inotify instances and watches", attack).await;
    assert_eq!(neighbour, "watch 1\n");
    let (instances, watches): (u64, u64) = (value_of(&said, "instances"), value_of(&said, "watches"));
    println!("limits | {instances} inotify instances and {watches} watches for one user");
    assert!(instances <= most && instances > 0);
    assert_eq!(value_of::<i32>(&said, "instances-errno"), errno::EMFILE);
    assert_eq!(value_of::<i32>(&said, "watches-errno"), errno::ENOSPC);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_posix_message_queues() {
    let scene = Scene::with(Resources::default()).await;
    let program = "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print('queue', libc.mq_open(b'/queue', 0o102, 0o600, None))
print('errno', ctypes.get_errno())
";
    let said = scene.attack("message queues", scene.python(program)).await;
    assert_eq!((value_of::<i32>(&said, "queue"), value_of::<i32>(&said, "errno")), (-1, errno::EMFILE));
    assert_eq!(HostView::of(&scene.attacker).await.limit("Max msgqueue size"), (0, 0));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_dumps_core() {
    let scene = Scene::with(Resources::default()).await;
    let crash = "ulimit -c unlimited 2>/dev/null; ulimit -c; \
                 python3 -c 'import os; os.abort()'; echo ended $?; ls -A";
    let outcome = scene.attack("core dumps", scene.run(crash)).await;
    assert_eq!(outcome.text(), "0\nended 134\n");
    assert_eq!(HostView::of(&scene.attacker).await.limit("Max core file size"), (0, 0));
    scene.end().await;
}
