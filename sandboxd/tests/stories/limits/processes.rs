//! Processes, threads and queued signals.

use sandbox_api::ErrorCode;
use sandbox_api::command::{EndReason, StartCommand};
use sandbox_api::sandbox::Resources;
use sandboxd::model::limits;

use crate::support::files::{file, write};
use crate::support::harness::{script, until};
use crate::support::host_view::HostView;
use crate::support::limits::{Scene, errno, python, sandbox_with, value_of};

const PIDS: u64 = 64;

/// Those of the sandbox, and shells that wait for commands.
const ALL: u64 = PIDS + limits::SHELL_PROCESSES as u64;

fn few_processes() -> Resources {
    Resources { pids: Some(PIDS), ..Resources::default() }
}

/// Forks until the kernel rejects it, and prints the number of forks.
const FORK: &str = "
import os, signal, time
children = []
try:
    while True:
        child = os.fork()
        if child == 0:
            time.sleep(60)
        children.append(child)
except OSError as error:
    print('forks', len(children))
    print('errno', error.errno)
open('is-full', 'w').close()
while not os.path.exists('go'):
    time.sleep(0.05)
for child in children:
    os.kill(child, signal.SIGKILL)
";

/// Other tasks in the sandbox: the agent with its threads, and the program itself.
const OTHERS: u64 = 8;

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_stops_at_the_limit_of_its_own_sandbox() {
    let scene = Scene::with(few_processes()).await;
    let client = &scene.daemon.client;
    let request = StartCommand {
        timeout_ms: Some(60_000),
        ..script("bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 50")
    };
    let attack = async {
        let command = client.start(&scene.attacker, &request).await.unwrap().command_id;
        let refused = async || match client.start(&scene.attacker, &script("true")).await {
            Err(error) => error.code() == Some(ErrorCode::CapacityExhausted),
            Ok(_) => false,
        };
        until("the sandbox is full of processes", refused).await;
        // The number of processes varies.
        let is_reported =
            async || (PIDS - OTHERS..=ALL).contains(&scene.attacker_now().await.usage.unwrap().pids);
        until("usage counts them", is_reported).await;
        client.kill(&scene.attacker, &command, &Default::default()).await.unwrap();
        client.wait(&scene.attacker, &command, None).await.unwrap()
    };
    assert_eq!(scene.attack("fork bomb", attack).await.reason, EndReason::Killed);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sandboxes_full_of_processes_do_not_count_against_each_other() {
    let scene = Scene::with(few_processes()).await;
    let second = sandbox_with(&scene.daemon, "chat:second", few_processes()).await;
    let fork = python(FORK);
    let client = &scene.daemon.client;
    // Both are full before either ends.
    let end_both = async {
        for sandbox in [&scene.attacker, &second] {
            let is_full = async || client.read_file(sandbox, "is-full").await.unwrap().is_some();
            until("the sandbox is full of processes", is_full).await;
        }
        for sandbox in [&scene.attacker, &second] {
            write(&scene.daemon, sandbox, [file("go", "")]).await.unwrap();
        }
    };
    let attack = async { tokio::join!(scene.python(FORK), scene.daemon.run(&second, &fork), end_both) };
    let (one, two, ()) = scene.attack("processes of two users", attack).await;
    for said in [one, two.text()] {
        let forks: u64 = value_of(&said, "forks");
        assert!((PIDS - OTHERS..PIDS).contains(&forks), "{forks} forks");
        assert_eq!(value_of::<i32>(&said, "errno"), errno::EAGAIN);
    }
    assert_eq!(scene.attacker_now().await.posture.unwrap().pids_limit, Some(ALL as i64));
    let host = HostView::of(&scene.attacker).await;
    assert_eq!(host.number("pids", "pids.max", "pids.max"), ALL as i64);
    assert_eq!(host.limit("Max processes"), (ALL, ALL));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_count_as_processes() {
    let scene = Scene::with(few_processes()).await;
    let program = "
import threading, time
threads = 0
try:
    while True:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        threads += 1
except RuntimeError as error:
    print('threads', threads)
    print(error)
";
    let said = scene.attack("threads", scene.python(program)).await;
    let threads: u64 = value_of(&said, "threads");
    assert!((PIDS - OTHERS..PIDS).contains(&threads), "{said}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_signals_are_limited_per_user() {
    let scene = Scene::with(Resources::default()).await;
    let program = "
import ctypes, os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
libc = ctypes.CDLL(None, use_errno=True)
queued = 0
while libc.sigqueue(os.getpid(), signal.SIGRTMIN, None) == 0:
    queued += 1
print('queued', queued)
print('errno', ctypes.get_errno())
";
    let said = scene.attack("queued signals", scene.python(program)).await;
    let queued: u64 = value_of(&said, "queued");
    assert!((1000..=1024).contains(&queued), "{queued}");
    assert_eq!(value_of::<i32>(&said, "errno"), errno::EAGAIN);
    assert_eq!(HostView::of(&scene.attacker).await.limit("Max pending signals"), (1024, 1024));
    scene.end().await;
}
