//! Commands that are hard to kill: hidden processes, processes without a main thread, races.

use std::time::Duration;

use sandbox_api::command::{EndReason, KillCommand, StartCommand};
use sandbox_api::files::WriteFiles;
use sandbox_api::sandbox::{CreateSandbox, Resources};
use sandbox_api::{CommandId, SandboxId};

use crate::support::harness::{Daemon, outcome, script, until};

/// Ignores TERM, starts a thread, and ends its main thread: the process has state Z and keeps running.
const WITHOUT_MAIN_THREAD: &str = "
import ctypes, platform, signal, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def work():
    while '\tZ (zombie)' not in open('/proc/self/status').read():
        time.sleep(0.01)
    open('ready', 'w').close()
    while True:
        time.sleep(0.05)
        open('alive', 'w').close()
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall(60 if platform.machine() == 'x86_64' else 93, 0)
";

fn python(program: &str) -> StartCommand {
    StartCommand {
        cmd: Some("python3".into()),
        args: Some(vec!["-c".into(), program.into()]),
        ..StartCommand::default()
    }
}

async fn started(daemon: &Daemon, sandbox: &SandboxId, request: &StartCommand) -> CommandId {
    let command = daemon.client.start(sandbox, request).await.unwrap().command_id;
    until("the command is ready", || async { daemon.run(sandbox, "[ -e ready ]").await.exit_code == 0 })
        .await;
    command
}

async fn processes(daemon: &Daemon, sandbox: &SandboxId, name: &str) -> String {
    daemon.run(sandbox, &format!("pgrep {name}")).await.text()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_main_thread_has_ended_is_ended_by_a_kill() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let command = started(&daemon, &sandbox, &python(WITHOUT_MAIN_THREAD)).await;
    assert!(processes(&daemon, &sandbox, "python3").await.lines().count() == 1);
    let killed = daemon.client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
    assert!(!killed.already_ended);
    assert_eq!(processes(&daemon, &sandbox, "python3").await, "", "the response means that it has ended");
    let ended = daemon.client.wait(&sandbox, &command, None).await.unwrap();
    assert_eq!((ended.exit_code, ended.reason), (137, EndReason::Killed));
    assert_eq!(ended.signal.as_deref(), Some("SIGKILL"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_process_whose_main_thread_has_ended_is_ended_by_a_timeout() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon
        .client
        .write_files(
            &sandbox,
            &WriteFiles { files: vec![crate::support::files::file("program.py", WITHOUT_MAIN_THREAD)] },
        )
        .await
        .unwrap();
    let request = StartCommand {
        timeout_ms: Some(5000),
        ..script("env -u SANDBOX_COMMAND_ID setsid -f python3 program.py; sleep 60")
    };
    let command = started(&daemon, &sandbox, &request).await;
    let ended = daemon.client.wait(&sandbox, &command, None).await.unwrap();
    assert_eq!((ended.exit_code, ended.reason), (124, EndReason::Timeout));
    assert_eq!(processes(&daemon, &sandbox, "python3").await, "");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_hide_their_environment_are_ended_with_their_command() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    // ssh-agent runs in the background and is not dumpable, so its environment cannot be read.
    let request = script("ssh-agent > /dev/null; env -i setsid -f sleep 77; touch ready; sleep 78");
    let command = started(&daemon, &sandbox, &request).await;
    assert_ne!(processes(&daemon, &sandbox, "ssh-agent").await, "");
    daemon.client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
    assert_eq!(processes(&daemon, &sandbox, "'ssh-agent|sleep'").await, "");

    daemon.output(&sandbox, "rm ready").await;
    let other = started(&daemon, &sandbox, &script("touch ready; sleep 79")).await;
    let leaves = daemon.client.start(&sandbox, &script("ssh-agent > /dev/null")).await.unwrap().command_id;
    daemon.client.wait(&sandbox, &leaves, None).await.unwrap();
    assert_ne!(processes(&daemon, &sandbox, "ssh-agent").await, "");
    let killed = daemon.client.kill(&sandbox, &leaves, &KillCommand::default()).await.unwrap();
    assert!(killed.already_ended);
    assert_eq!(processes(&daemon, &sandbox, "ssh-agent").await, "");
    assert_eq!(
        processes(&daemon, &sandbox, "sleep").await.lines().count(),
        1,
        "the other command's process keeps running"
    );
    daemon.client.kill(&sandbox, &other, &KillCommand::default()).await.unwrap();
    daemon.stop().await;
}

/// Kills commands at the moment when they exit by themselves, and checks that their reported ends are consistent.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_command_has_a_signal_and_one_that_exits_has_a_code() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let mut seen = std::collections::BTreeMap::new();
    for round in 0.. {
        if round >= RACES && seen.len() == 2 {
            break;
        }
        assert!(round < MAX_RACES, "one side won all races: {seen:?}");

        let sleep = script(&format!("sleep 0.0{:02}; exit 0", round % 20));
        let command = daemon.client.start(&sandbox, &sleep).await.unwrap().command_id;
        tokio::time::sleep(Duration::from_millis(u64::from(round % 20))).await;
        daemon.client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
        let ended = daemon.client.wait(&sandbox, &command, None).await.unwrap();
        let reported = (ended.reason, ended.exit_code, ended.signal.as_deref() == Some("SIGTERM"));
        *seen.entry(format!("{reported:?}")).or_insert(0) += 1;
        assert!(
            [(EndReason::Exited, 0, false), (EndReason::Killed, 143, true)].contains(&reported),
            "{reported:?} after {seen:?}"
        );
    }
    // A command that handles the signal chooses its own code.
    let graceful = script("trap 'exit 0' TERM; touch ready; while :; do sleep 0.05; done");
    let command = started(&daemon, &sandbox, &graceful).await;
    daemon.client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
    let ended = daemon.client.wait(&sandbox, &command, None).await.unwrap();
    assert_eq!((ended.reason, ended.exit_code, ended.signal), (EndReason::Exited, 0, None));
    daemon.stop().await;
}

/// Minimum and maximum number of races. They continue until each side has won one.
const RACES: u32 = 200;
const MAX_RACES: u32 = 2000;

#[tokio::test(flavor = "multi_thread")]
async fn a_command_can_lower_only_its_own_priority() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let own = "nice -n 5 nice; ionice -c 3 ionice; chrt --idle 0 chrt -p $$ > /dev/null && echo chrt; \
        taskset -c 0 sh -c 'taskset -p $$ > /dev/null' && echo taskset; renice -n 3 -p 0 > /dev/null && echo renice";
    let received = daemon.run(&sandbox, own).await;
    assert_eq!(received.text(), "5\nidle\nchrt\ntaskset\nrenice\n", "{received:?}");
    for (others, kind) in [
        ("renice -n 19 -p 1", "process"),
        ("renice -n 19 -g 1", "group"),
        ("renice -n 19 -u $(id -u)", "user"),
        ("ionice -c 3 -p 1", "I/O of a process"),
        ("ionice -c 3 -u $(id -u)", "I/O of a user"),
        ("chrt --idle -p 0 1", "policy"),
        ("taskset -pc 0 1", "processors"),
    ] {
        assert_ne!(daemon.run(&sandbox, others).await.exit_code, 0, "{kind}");
    }
    // Threads of the agent are addressed by their own numbers.
    let threads = "python3 - <<'END'\nimport os\nfor target in range(1, 40):\n    for call in (lambda: os.setpriority(os.PRIO_PROCESS, target, 19),\n                 lambda: os.setpriority(os.PRIO_USER, 0, 19),\n                 lambda: os.sched_setaffinity(target, {0}),\n                 lambda: os.sched_setscheduler(target, os.SCHED_IDLE, os.sched_param(0))):\n        try:\n            call()\n            print('done to', target)\n        except PermissionError:\n            pass\nos.sched_setaffinity(0, {0})\nprint('ok')\nEND";
    assert_eq!(daemon.output(&sandbox, threads).await, "ok\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_cannot_make_the_oom_killer_prefer_the_agent() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for file in ["/proc/self/oom_score_adj", "/proc/self/oom_adj"] {
        let lower = daemon.run(&sandbox, &format!("echo 0 > {file} || echo 500 > {file}")).await;
        assert_ne!(lower.exit_code, 0, "{file}");
    }
    // A command gets its score just after its start.
    let wait = "until [ $(</proc/$$/oom_score_adj) = 1000 ]; do sleep 0.1; done";
    assert_eq!(daemon.output(&sandbox, wait).await, "");
    // The rest of the file system is unchanged, and links to open files work.
    let writes = "echo a > /tmp/a; echo b > b; mkdir d; mv b d/c; ln d/c e; mv e d/f; echo c > /dev/stdout; \
        echo d > /dev/shm/d; cat /tmp/a d/c /dev/shm/d; exec 3> /dev/null; echo e >&3; echo f | tee /dev/fd/2 > /dev/null; \
        exec 5<> g; rm g; echo g > /proc/self/fd/5 && echo ok";
    let received = daemon.run(&sandbox, writes).await;
    assert_eq!((received.text().as_str(), received.exit_code), ("c\na\nb\nd\nok\n", 0), "{received:?}");
    daemon.stop().await;
}

fn with_pids(pids: u64) -> CreateSandbox {
    CreateSandbox {
        session_key: "chat:1".into(),
        resources: Some(Resources { pids: Some(pids), ..Resources::default() }),
        ..CreateSandbox::default()
    }
}

/// Starts processes until no more can start, and leaves them running. One of them fills every gap.
const FILL: &str = "
import os, time
def leftover(fills):
    os.setsid()
    for fd in range(3): os.close(fd)
    while True:
        try:
            if not fills or os.fork() == 0: time.sleep(3600)
        except OSError:
            time.sleep(0.01)
try:
    first = True
    while True:
        if os.fork() == 0: leftover(first)
        first = False
except OSError:
    os._exit(0)
";

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_ended_commands_are_ended_for_a_new_command_and_those_of_running_ones_are_not() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.create(&with_pids(64)).await;
    let still_runs = started(&daemon, &sandbox, &script("setsid -f sleep 66; touch ready; sleep 67")).await;
    outcome(daemon.client.run(&sandbox, &python(FILL)).await.unwrap()).await;
    // The first start that finds no free process ends them.
    until("the leftovers have ended", || async { processes(&daemon, &sandbox, "python3").await.is_empty() })
        .await;
    assert_eq!(
        processes(&daemon, &sandbox, "sleep").await.lines().count(),
        2,
        "a running command keeps its own"
    );
    daemon.client.kill(&sandbox, &still_runs, &KillCommand::default()).await.unwrap();

    // Running commands are not ended for others. The error names the remedy, and a rejected start is not activity.
    daemon.output(&sandbox, "rm ready").await;
    let fills = FILL.replace("except OSError:\n    os._exit(0)", "except OSError:\n    time.sleep(3600)");
    let filler = daemon.client.start(&sandbox, &python(&fills)).await.unwrap().command_id;
    let refused = async || daemon.client.start(&sandbox, &script("true")).await.err();
    until("the sandbox is full", || async { refused().await.is_some() }).await;
    let error = refused().await.unwrap();
    assert_eq!(error.code(), Some(sandbox_api::ErrorCode::CapacityExhausted));
    assert!(error.to_string().contains(":kill"), "{error}");
    daemon.client.kill(&sandbox, &filler, &KillCommand::default()).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "echo ok").await, "ok\n");
    daemon.stop().await;
}
