//! Commands whose agent gets no processor time, and commands that multiply faster than they can be listed.

use std::time::{Duration, Instant};

use futures::StreamExt;
use sandbox_api::command::{EndReason, KillCommand, StartCommand};
use sandbox_api::sandbox::{CreateSandbox, Resources};
use sandboxd::model::limits;
use tokio::time::timeout;

use crate::support::harness::{Collected, Daemon, SOON, outcome, script, skipped_under_gvisor, until};
use crate::support::limits::python;
use crate::support::processes::stop_agent;

/// A command must have ended this soon after `:kill`, whatever it does.
const GONE: Duration = Duration::from_secs(5);

/// Timeout of a command beside busy processes.
const TIMEOUT: Duration = Duration::from_secs(4);

/// How long the restart of a container may take while its processes keep every processor busy.
const RESTART: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_enforces_a_timeout_that_the_agent_misses() {
    if skipped_under_gvisor("the agent is not a process of the host") {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let innocent = client.run(&sandbox, &script("sleep 60")).await.unwrap();
    let request = StartCommand { timeout_ms: Some(2000), ..script("sleep 61") };
    let streamed = client.run(&sandbox, &request).await.unwrap();
    let late = client.start(&sandbox, &request).await.unwrap().command_id;
    stop_agent(&sandbox).await;
    let began = Instant::now();
    // A command is inspected as soon as its end is reported.
    let late = async {
        let ended = client.wait(&sandbox, &late, None).await.unwrap();
        (ended, client.inspect(&sandbox, &late).await.unwrap())
    };
    let ((ended, inspected), streamed, innocent) = tokio::join!(late, outcome(streamed), outcome(innocent));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let reported = [(ended.reason, ended.killed_by), (streamed.reason, streamed.killed_by)];
    let restart = || Some("sandbox_restart".to_owned());
    // One of the two caused the restart, which ended the other.
    assert!(reported.contains(&(EndReason::Timeout, restart())), "{reported:?}");
    assert!(reported.iter().all(|(_, by)| *by == restart()), "{reported:?}");
    assert_eq!((innocent.reason, innocent.killed_by), (EndReason::Lost, restart()));
    assert_eq!((inspected.reason, inspected.killed_by), (Some(ended.reason), restart()));
    assert_eq!(daemon.output(&sandbox, "echo ok; pgrep sleep || true").await, "ok\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_that_needs_a_restart_reports_it() {
    if skipped_under_gvisor("the agent is not a process of the host") {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let command = client.start(&sandbox, &script("sleep 60")).await.unwrap().command_id;
    stop_agent(&sandbox).await;
    let killed = client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
    assert!(killed.restarted && !killed.already_ended, "{killed:?}");
    let ended = client.wait(&sandbox, &command, None).await.unwrap();
    assert_eq!((ended.reason, ended.exit_code), (EndReason::Killed, 137));
    assert_eq!(ended.killed_by.as_deref(), Some("sandbox_restart"));
    let other = client.start(&sandbox, &script("sleep 60")).await.unwrap().command_id;
    let killed = client.kill(&sandbox, &other, &KillCommand::default()).await.unwrap();
    assert!(!killed.restarted);
    daemon.stop().await;
}

/// Children that fork and exit, so that no listing of processes finds all of them. Those that have exited count until they are
/// reaped, so any fork may meet the limit.
const HOPPERS: &str = "
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def fork():
    while True:
        try:
            return os.fork()
        except OSError:
            pass
open('ready', 'w').close()
for _ in range(40):
    if fork() == 0:
        os.setsid()
        while True:
            if fork(): os._exit(0)
signal.pause()
";

/// Processes that only wait for the children that they start.
const VFORKS: &str = "
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open('ready', 'w').close()
while True:
    try:
        subprocess.Popen([sys.executable, '-c', sys.argv[1], sys.argv[1]])
    except OSError:
        pass
";

#[tokio::test(flavor = "multi_thread")]
async fn multiplying_processes_have_ended_soon_after_a_kill() {
    let daemon = Daemon::start().await;
    let python = |program: &str| StartCommand {
        cmd: Some("python3".into()),
        args: Some(vec!["-c".into(), program.into(), program.into()]),
        timeout_ms: Some(120_000),
        ..StartCommand::default()
    };
    let bombs = [
        ("fork bomb", 400, script("bomb() { bomb | bomb & }; touch ready; bomb 2> /dev/null; sleep 50")),
        ("fork hoppers", 40, python(HOPPERS)),
        ("vfork bomb", 100, python(VFORKS)),
    ];
    for (name, processes, bomb) in bombs {
        let request = CreateSandbox {
            session_key: name.into(),
            resources: Some(Resources::default()),
            ..CreateSandbox::default()
        };
        let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
        let command = daemon.client.start(&sandbox, &bomb).await.unwrap().command_id;
        let has_begun =
            async || daemon.client.read_file(&sandbox, "ready").await.is_ok_and(|it| it.is_some());
        until("the command has begun", has_begun).await;
        let many = async || daemon.client.get(&sandbox).await.unwrap().usage.unwrap().pids >= processes;
        until("there are many processes", many).await;
        let began = Instant::now();
        let killed = daemon.client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
        let took = began.elapsed();
        println!("kill | {name:<16} | gone after {took:.1?}, restarted {}", killed.restarted);
        assert!(took < GONE, "{name}: {took:?}");
        let count = async |states: &str| {
            let left = daemon.output(&sandbox, &format!("pgrep {states} -c . || true")).await;
            left.trim().parse::<u32>().unwrap()
        };
        let left = count("--runstates D,R,S,T,t").await;
        assert!(left < 8, "{name}: {left} processes left");
        // Processes that have ended are reaped a moment later.
        until("ended processes are reaped", || async { count("").await < 8 }).await;
        let ended = daemon.client.wait(&sandbox, &command, None).await.unwrap();
        let by_restart = ended.killed_by.as_deref() == Some("sandbox_restart");
        assert!(!by_restart || killed.restarted, "{name}: {ended:?}");
        daemon.client.delete(&sandbox).await.unwrap();
    }
    daemon.stop().await;
}

/// Tries to make the agent run after everything else, and then keeps every processor busy with 480 processes, which
/// begin when all of them exist. All of them end by themselves.
const BUSY: &str = "
import os, time
end = time.monotonic() + 60
for starve in (
    lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
    lambda: os.sched_setaffinity(1, {min(os.sched_getaffinity(0))}),
):
    try:
        starve()
        print('starved')
    except OSError:
        pass
wait, begin = os.pipe()
for child in range(480):
    if os.fork() == 0:
        os.close(begin)
        os.read(wait, 1)
        while time.monotonic() < end: pass
        os._exit(0)
os.close(begin)
print('busy', flush=True)
while time.monotonic() < end: time.sleep(0.1)
";

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_is_enforced_beside_480_busy_processes() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let request = StartCommand { timeout_ms: Some(120_000), ..script(&python(BUSY)) };
    let busy = client.start(&sandbox, &request).await.unwrap().command_id;
    let mut records = client.logs(&sandbox, &busy, 0, true).await.unwrap();
    let mut said = Collected::default();
    while !said.stdout.ends_with(b"\n") {
        said.take(timeout(SOON, records.next()).await.unwrap().unwrap().unwrap());
    }
    assert_eq!(String::from_utf8_lossy(&said.stdout), "busy\n", "the command could starve the agent");
    let began = Instant::now();
    let timed = StartCommand { timeout_ms: Some(TIMEOUT.as_millis() as u64), ..script("sleep 60") };
    let ended = outcome(client.run(&sandbox, &timed).await.unwrap()).await;
    assert_eq!((ended.exit_code, ended.reason), (124, EndReason::Timeout), "{ended:?}");
    let took = began.elapsed();
    println!(
        "timeout | of {TIMEOUT:?} beside 480 busy processes: over after {took:.1?}, {:?}",
        ended.killed_by
    );
    // The agent may miss the timeout. The daemon may not.
    let own = limits::TIMEOUT_GRACE + limits::UPKEEP_INTERVAL + limits::OVERDUE_WAIT + limits::OVERDUE_KILL;
    assert!(took < TIMEOUT + own + RESTART, "{took:?}");
    client.delete(&sandbox).await.unwrap();
    daemon.stop().await;
}
