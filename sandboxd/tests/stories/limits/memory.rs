//! Memory: the size that a sandbox gets, and the end of commands that exceed it.

use sandbox_api::command::EndReason;

use crate::support::harness::script;
use crate::support::host_view::HostView;
use crate::support::limits::{HOG, MEMORY_MB, small};
use crate::support::limits::{MIB, Scene, errno, value_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_exceeds_the_memory_limit_ends_as_oom() {
    let scene = Scene::with(small()).await;
    let host = HostView::of(&scene.attacker).await;
    let before = host.oom_kills();
    let hog = scene.attack("a command that allocates a gigabyte", scene.run(HOG)).await;
    assert_eq!((hog.exit_code, hog.reason, hog.signal.as_deref()), (137, EndReason::Oom, Some("SIGKILL")));
    assert_eq!(host.oom_kills(), before + 1);

    // This command has no reader. Its end is reported in three other ways.
    let client = &scene.daemon.client;
    let command = client.start(&scene.attacker, &script(HOG)).await.unwrap().command_id;
    let ended = client.wait(&scene.attacker, &command, None).await.unwrap();
    assert_eq!((ended.exit_code, ended.reason), (137, EndReason::Oom));
    assert_eq!(client.inspect(&scene.attacker, &command).await.unwrap().reason, Some(EndReason::Oom));
    let listed = client.commands(&scene.attacker, 10).await.unwrap().commands;
    let reasons: Vec<_> = listed.iter().map(|command| command.reason).collect();
    assert_eq!(reasons, [Some(EndReason::Oom), Some(EndReason::Oom)]);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reported_memory_matches_the_cgroup_and_there_is_no_swap() {
    let scene = Scene::with(small()).await;
    let posture = scene.attacker_now().await.posture.unwrap();
    let limit = (MEMORY_MB * MIB) as i64;
    assert_eq!((posture.memory_bytes, posture.swap_bytes), (Some(limit), Some(0)));
    let host = HostView::of(&scene.attacker).await;
    assert_eq!(host.number("memory", "memory.limit_in_bytes", "memory.max"), limit);
    let with_swap = host.number("memory", "memory.memsw.limit_in_bytes", "memory.swap.max");
    assert!([0, limit].contains(&with_swap), "{with_swap}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_continues_after_its_childs_oom_death() {
    let scene = Scene::with(small()).await;
    let attack = async {
        (
            scene.run(&format!("{HOG}; echo after $?")).await,
            scene.run(&format!("{HOG} & wait $!; exit $?")).await,
        )
    };
    let (continues, passes_on) = scene.attack("a shell's child", attack).await;
    assert_eq!((continues.exit_code, continues.reason), (0, EndReason::Exited));
    assert_eq!(continues.text(), "after 137\n");
    assert_eq!((passes_on.exit_code, passes_on.reason), (137, EndReason::Oom));
    assert_eq!(passes_on.signal, None);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_processes_share_the_same_limit() {
    let scene = Scene::with(small()).await;
    let host = HostView::of(&scene.attacker).await;
    // Each child holds its memory until the last one has its own or was killed. They start one after the other,
    // because the kernel kills the largest process, which must not be their parent.
    let program = "
import os
go, release = os.pipe()
children = []
for _ in range(60):
    ready, report = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(release)
        held = bytearray(8 << 20)
        os.write(report, b'+')
        os.read(go, 1)
        os._exit(0)
    os.close(report)
    os.read(ready, 1)
    children.append(child)
os.close(release)
for child in children:
    print('ended', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";
    let said = scene.attack("60 processes of 8 MiB", scene.python(program)).await;
    let ended = |code: &str| said.lines().filter(|line| *line == format!("ended {code}")).count();
    assert!(ended("-9") > 0 && ended("0") > 0 && ended("-9") + ended("0") == 60, "{said}");
    assert!(host.oom_kills() >= ended("-9") as u64);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn little_memory_can_be_locked() {
    let scene = Scene::with(small()).await;
    let program = "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for size in (32 << 10, 1 << 20):
    memory = ctypes.create_string_buffer(size)
    print('locked', size, libc.mlock(memory, size), ctypes.get_errno())
print('all', libc.mlockall(3), ctypes.get_errno())
";
    let said = scene.attack("locked memory", scene.python(program)).await;
    assert!(said.contains(&format!("locked {} 0 0\n", 32 << 10)), "{said}");
    assert!(said.contains(&format!("locked {} -1 {}\n", 1 << 20, errno::ENOMEM)), "{said}");
    assert!(value_of::<String>(&said, "all").starts_with("-1"), "{said}");
    assert_eq!(HostView::of(&scene.attacker).await.limit("Max locked memory"), (64 << 10, 64 << 10));
    scene.end().await;
}
