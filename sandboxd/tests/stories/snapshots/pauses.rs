//! Snapshots for which the sandbox's processes are stopped.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::snapshot::MakeSnapshot;

use crate::support::harness::{Daemon, DaemonProcess, Home, free_port, outcome, script, until, until_within};
use crate::support::host_view::HostView;

/// A process that adds lines to a file that is not in snapshots.
const TICKER: &str = "setsid -f sh -c 'while :; do echo >> $TMPDIR/ticks; sleep 0.02; done'";

/// As in the agent.
const MAX_PAUSE: Duration = Duration::from_secs(30);

fn paused() -> MakeSnapshot {
    MakeSnapshot { pause: Some(true), ..MakeSnapshot::default() }
}

async fn ticks(daemon: &Daemon, sandbox: &SandboxId) -> u64 {
    daemon.output(sandbox, "wc -l < $TMPDIR/ticks").await.trim().parse().unwrap()
}

async fn it_ticks(daemon: &Daemon, sandbox: &SandboxId) {
    let before = ticks(daemon, sandbox).await;
    until("the process runs", || async { ticks(daemon, sandbox).await > before }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_processes_continue_after_a_snapshot_and_after_one_that_fails() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, TICKER).await;
    until("it has begun", || async { ticks(&daemon, &sandbox).await > 0 }).await;
    assert!(daemon.client.make_snapshot(&sandbox, &paused()).await.unwrap().paused);
    it_ticks(&daemon, &sandbox).await;

    let too_deep = "import os\nfor _ in range(300):\n    os.mkdir('deep')\n    os.chdir('deep')";
    daemon.output(&sandbox, &format!("python3 - <<'END'\n{too_deep}\nEND")).await;
    daemon.client.make_snapshot(&sandbox, &paused()).await.unwrap_err();
    it_ticks(&daemon, &sandbox).await;
    daemon.stop().await;
}

/// Whether any process of the sandbox is stopped (`T` in proc_pid_stat(5)).
fn any_is_stopped(view: &HostView) -> bool {
    let state = |pid: i64| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(stat.rsplit_once(") ")?.1.starts_with('T'))
    };
    view.processes().into_iter().filter_map(state).any(|is_stopped| is_stopped)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_processes_continue_when_the_daemon_is_killed() {
    let home = Home::new();
    let daemon = DaemonProcess::start(&home, free_port()).await;
    let create = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    let fill = format!("head -c 400000000 /dev/urandom > large; {TICKER}");
    assert_eq!(outcome(daemon.client.run(&sandbox, &script(&fill)).await.unwrap()).await.exit_code, 0);
    let view = HostView::of(&sandbox).await;
    assert!(!any_is_stopped(&view));

    let (client, id) = (daemon.client.clone(), sandbox.clone());
    let making = tokio::spawn(async move { client.make_snapshot(&id, &paused()).await });
    until("the processes are stopped", || async { any_is_stopped(&view) }).await;
    assert!(!making.is_finished());
    daemon.kill().await;
    until("the processes continue", || async { !any_is_stopped(&view) }).await;
    making.await.unwrap().unwrap_err();
}

/// Like a daemon without processor time, which reads nothing of the snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn the_processes_continue_after_30_seconds_of_a_snapshot_that_does_not_end() {
    let home = Home::new();
    let daemon = DaemonProcess::start(&home, free_port()).await;
    let create = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    let fill = format!("head -c 400000000 /dev/urandom > large; {TICKER}");
    assert_eq!(outcome(daemon.client.run(&sandbox, &script(&fill)).await.unwrap()).await.exit_code, 0);
    let view = HostView::of(&sandbox).await;
    let (client, id) = (daemon.client.clone(), sandbox.clone());
    let making = tokio::spawn(async move { client.make_snapshot(&id, &paused()).await });
    until("the processes are stopped", || async { any_is_stopped(&view) }).await;
    let began = Instant::now();
    let pid = Pid::from_raw(daemon.child.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    until_within(2 * MAX_PAUSE, "the processes continue", || async { !any_is_stopped(&view) }).await;
    // The limit began a moment before the test saw the stop.
    let moment = Duration::from_secs(10);
    assert!(began.elapsed() + moment > MAX_PAUSE, "after {:?}", began.elapsed());
    kill_process(pid, Signal::CONT).unwrap();
    let made = making.await.unwrap().unwrap();
    assert!(!made.paused, "{made:?}");
    daemon.kill().await;
}
