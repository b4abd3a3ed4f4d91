//! Reported posture and usage: they match the cgroup, and name limits that do not hold on this host.

use sandbox_api::SandboxId;
use sandbox_api::sandbox::Resources;
use sandboxd::model::limits;

use crate::support::harness::{Daemon, Home};
use crate::support::host_view::HostView;
use crate::support::limits::{MIB, sandbox_with};

fn uneven() -> Resources {
    Resources { vcpus: Some(1), memory_mb: Some(300), pids: Some(77), disk_mb: Some(99) }
}

/// Compares posture and usage with the files of the cgroup.
async fn check_against_the_cgroup(daemon: &Daemon, sandbox: &SandboxId) {
    let seen = daemon.client.get(sandbox).await.unwrap();
    let (posture, usage) = (seen.posture.unwrap(), seen.usage.unwrap());
    let host = HostView::of(sandbox).await;
    assert_eq!(seen.resources, uneven());
    assert_eq!(posture.memory_bytes, Some(host.number("memory", "memory.limit_in_bytes", "memory.max")));
    assert_eq!(posture.memory_bytes, Some((300 * MIB) as i64));
    assert_eq!(posture.swap_bytes, Some(0));
    assert_eq!(posture.pids_limit, Some(host.number("pids", "pids.max", "pids.max")));
    assert_eq!(posture.pids_limit, Some(77 + i64::from(limits::SHELL_PROCESSES)));
    assert_eq!(posture.nano_cpus, Some(host.milli_cpus() * 1_000_000));
    assert_eq!(host.limit("Max file size").1, 99 * MIB);

    assert_eq!(usage.pids as i64, host.number("pids", "pids.current", "pids.current"));
    let used = host.number("memory", "memory.usage_in_bytes", "memory.current") as u64;
    assert!((1..=used + MIB).contains(&usage.memory_bytes), "{} of {used}", usage.memory_bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn posture_and_usage_match_the_cgroup_also_after_parking() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with(&daemon, "chat:1", uneven()).await;
    check_against_the_cgroup(&daemon, &sandbox).await;
    let posture = daemon.client.get(&sandbox).await.unwrap().posture;
    assert_eq!(posture.as_ref().unwrap().disk_quota_bytes, Some(99 * MIB));

    // Allocated memory and used processor time are reported.
    let hold = "python3 -c 'held = bytearray(100 << 20); import time; time.sleep(60)' & \
                timeout 1 bash -c 'while :; do :; done'; touch is-held; wait";
    let command =
        daemon.client.start(&sandbox, &crate::support::harness::script(hold)).await.unwrap().command_id;
    crate::support::harness::until("the memory is allocated", || async {
        daemon.run(&sandbox, "[ -e is-held ]").await.exit_code == 0
    })
    .await;
    let usage = daemon.client.get(&sandbox).await.unwrap().usage.unwrap();
    assert!((100 * MIB..160 * MIB).contains(&usage.memory_bytes), "{usage:?}");
    // The share of that second depends on other work on this machine.
    assert!(usage.cpu_ms >= 100, "{usage:?}");
    let disk: u64 = usage.disk_bytes.unwrap();
    daemon.client.kill(&sandbox, &command, &Default::default()).await.unwrap();

    daemon.output(&sandbox, "head -c 20M /dev/zero > file; sync").await;
    let more = daemon.client.get(&sandbox).await.unwrap().usage.unwrap().disk_bytes.unwrap();
    assert!((20 * MIB..22 * MIB).contains(&(more - disk)), "{disk} {more}");

    daemon.client.park(&sandbox, false).await.unwrap();
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().usage, None);
    daemon.output(&sandbox, "true").await;
    check_against_the_cgroup(&daemon, &sandbox).await;
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().posture, posture);

    let daemon = Daemon::start_in(daemon.stop().await).await;
    check_against_the_cgroup(&daemon, &sandbox).await;
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().posture, posture);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_without_a_disk_reports_it() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_DISK_QUOTA", "off")).await;
    let sandbox = sandbox_with(&daemon, "chat:1", uneven()).await;
    check_against_the_cgroup(&daemon, &sandbox).await;
    let seen = daemon.client.get(&sandbox).await.unwrap();
    let posture = seen.posture.unwrap();
    assert_eq!((posture.disk_quota_bytes, seen.usage.unwrap().disk_bytes), (None, None));
    assert!(posture.unenforced.contains(&"disk quota: switched off".to_owned()), "{:?}", posture.unenforced);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reported_vcpus_never_exceed_the_machines() {
    let daemon = Daemon::start().await;
    let all = sandbox_with(&daemon, "chat:1", Resources { vcpus: Some(8), ..Resources::default() }).await;
    let one = sandbox_with(&daemon, "chat:2", Resources { vcpus: Some(1), ..Resources::default() }).await;
    let host = std::thread::available_parallelism().unwrap().get() as i64;
    let posture = daemon.client.get(&all).await.unwrap().posture.unwrap();
    let given = host.min(8);
    assert_eq!(posture.nano_cpus, Some(given * 1_000_000_000));
    assert_eq!(HostView::of(&all).await.milli_cpus(), given * 1000);
    let says_so = |unenforced: &[String]| unenforced.iter().any(|phrase| phrase.contains("vcpus"));
    assert_eq!(says_so(&posture.unenforced), given < 8, "{:?}", posture.unenforced);
    let posture = daemon.client.get(&one).await.unwrap().posture.unwrap();
    assert!(!says_so(&posture.unenforced), "{:?}", posture.unenforced);
    daemon.stop().await;
}
