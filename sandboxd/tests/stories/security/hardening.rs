//! The hardening of a sandbox, seen from inside and from the engine.

use std::collections::HashMap;

use sandbox_api::SandboxId;
use sandbox_api::command::{EndReason, StartCommand};
use sandbox_api::sandbox::{CreateSandbox, Resources};
use sandboxd::model::limits;

use crate::support::harness::{Daemon, docker, outcome, script, skipped_under_gvisor, under_gvisor, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_no_capability_and_gains_none() {
    if skipped_under_gvisor("its /proc/self/status lacks half of the fields") {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let status = daemon.output(&sandbox, "cat /proc/self/status").await;
    let fields: HashMap<&str, &str> =
        status.lines().filter_map(|line| line.split_once(':')).map(|(k, v)| (k, v.trim())).collect();
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(fields[set], "0000000000000000", "{set}");
    }
    assert_eq!((fields["NoNewPrivs"], fields["Seccomp"]), ("1", "2"));
    let uid: u32 = fields["Uid"].split_whitespace().next().unwrap().parse().unwrap();
    assert!(uid >= 20_000);
    assert_eq!(daemon.output(&sandbox, "whoami; id -gn").await, "sandbox\nsandbox\n");
    // A command gets its score just after its start. The agent has a higher score while it starts one.
    for (process, score) in [("$$", "1000"), ("1", "500")] {
        let wait = format!("until [ $(</proc/{process}/oom_score_adj) = {score} ]; do sleep 0.1; done");
        assert_eq!(daemon.output(&sandbox, &wait).await, "");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_workspace_and_small_tmpfs_mounts_are_writable() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let mounts = daemon.output(&sandbox, "cat /proc/self/mounts").await;
    let options_of = |target: &str| {
        let line = mounts.lines().find(|line| line.split(' ').nth(1) == Some(target)).unwrap();
        line.split(' ').nth(3).unwrap().split(',').map(str::to_owned).collect::<Vec<_>>()
    };
    for target in ["/", "/.sandbox/bin", "/.sandbox/run"] {
        assert!(options_of(target).contains(&"ro".into()), "{target} is writable");
    }
    for target in ["/tmp", "/var/tmp", "/run", "/dev/shm"] {
        let options = options_of(target);
        // gVisor shows only these.
        for option in if under_gvisor() { &["noexec"][..] } else { &["noexec", "nosuid", "nodev"] } {
            assert!(options.contains(&(*option).into()), "{target} lacks {option}: {options:?}");
        }
    }
    let writable = "find / -xdev -writable 2>/dev/null; \
                    for d in /etc /usr /var /opt /home /vercel /vercel/sandbox /.sandbox /.sandbox/run /dev; do \
                      touch $d/x 2>/dev/null && echo $d; done; true";
    let found = daemon.output(&sandbox, writable).await;
    let surprising: Vec<&str> =
        found.lines().filter(|path| !["/tmp", "/var/tmp", "/dev/shm"].contains(path)).collect();
    assert!(surprising.is_empty(), "{surprising:?}");
    daemon.output(&sandbox, "cp /bin/true /tmp/t && ! /tmp/t 2>/dev/null && cp /bin/true t && ./t").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_network_is_the_sandboxs_own_loopback() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let interfaces = "tail -n +3 /proc/net/dev | cut -d : -f 1 | tr -d ' '";
    assert_eq!(daemon.output(&sandbox, interfaces).await, "lo\n");
    // gVisor lists the loopback's own address here, also for IPv4.
    let routes = "{ ip route; ip -6 route show table main; } | grep -vE '^(::1|127.0.0.0/8) dev lo ' || true";
    assert_eq!(daemon.output(&sandbox, routes).await, "");
    let serve = "echo hi > f; python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & \
                 curl -s --retry 50 --retry-connrefused --retry-delay 0 http://127.0.0.1:8000/f";
    assert_eq!(daemon.output(&sandbox, serve).await, "hi\n");
    let neighbour = daemon.sandbox("chat:2").await;
    assert_ne!(daemon.run(&neighbour, "curl -s -m 2 http://127.0.0.1:8000/f").await.exit_code, 0);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_cannot_reach_the_agent() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let secret = daemon.home.instance().unwrap().agent_secret(&sandbox);
    // gVisor lets a process end PID 1. Then the sandbox restarts, which another story tests.
    let kill = if under_gvisor() { "" } else { "kill -9 1; kill -STOP 1; kill -TERM 1" };
    let attack = r#"
        cat /proc/1/environ /proc/1/maps /proc/1/mem 2>/dev/null
        ls -l /proc/1/fd 2>/dev/null
        python3 - <<'END'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print("attach", libc.ptrace(16, 1, 0, 0), ctypes.get_errno())
END
        env
    "#;
    let outcome = daemon.run(&sandbox, &format!("{kill}\n{attack}")).await;
    assert!(outcome.text().contains("attach -1 1\n"), "{}", outcome.text());
    assert!(!outcome.text().contains(&secret) && !outcome.text().contains("SANDBOX_AGENT_"));
    assert_eq!(daemon.output(&sandbox, "echo alive").await, "alive\n");
    daemon.stop().await;
}

/// A signal may arrive while the agent starts the command that sends it.
#[tokio::test(flavor = "multi_thread")]
async fn no_signal_of_a_command_ends_the_agent() {
    if skipped_under_gvisor("a process can end PID 1") {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    // If processors are busy, the command runs before the agent continues.
    let busy = "for n in 1 2 3 4; do (while :; do :; done) & done; wait";
    let busy = daemon.client.start(&sandbox, &script(busy)).await.unwrap().command_id;
    let every = "for n in {1..64}; do kill -$n 1 2>/dev/null; done; echo $BASHPID";
    let mut last = 0;
    for _ in 0..20 {
        let pid: u32 = daemon.output(&sandbox, every).await.trim().parse().unwrap();
        assert!(pid > last, "the sandbox was restarted");
        last = pid;
    }
    // The signals that the agent ignores are not ignored in its commands.
    let ignored = daemon.output(&sandbox, "grep SigIgn /proc/self/status").await;
    assert!(["0000000000000000", "0000000180000000"].iter().any(|set| ignored.contains(set)), "{ignored}");
    daemon.client.kill(&sandbox, &busy, &Default::default()).await.unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_false_agent_on_the_agents_socket_is_rejected() {
    if skipped_under_gvisor("the gofer connects for the agent, so the secret decides") {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let secret = daemon.home.instance().unwrap().agent_secret(&sandbox);
    // Even with the right secret: the kernel identifies the calling process.
    let impostor = format!(
        r#"python3 - <<'END'
import socket
for greeting in [b"sandbox-agent 1 {secret}\n", b"sandbox-agent 1 wrong\n", b"x" * 100000, b""]:
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect("/.sandbox/run/agent.sock")
    try:
        s.sendall(greeting)
        print(s.recv(100))
    except OSError as error:
        print(type(error).__name__)
END
rm -f /.sandbox/run/agent.sock; ln -sf /tmp/x /.sandbox/run/agent.sock; ls /.sandbox/run/agent.sock; ls -l /.sandbox/run | grep -c ^l"#
    );
    let outcome = daemon.run(&sandbox, &impostor).await;
    let text = outcome.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{outcome:?}");
    for line in &lines[..4] {
        assert!(["b''", "ConnectionResetError", "BrokenPipeError"].contains(line), "{line}");
    }
    assert_eq!(lines[4..], ["/.sandbox/run/agent.sock", "0"], "the socket exists and is not a link");
    assert_eq!(daemon.output(&sandbox, "echo alive").await, "alive\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rarely_needed_system_calls_are_rejected() {
    if skipped_under_gvisor("its own kernel answers these calls, with other errors") {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let probe = r#"cat > probe.c <<'END'
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
static void say(const char *name, long result) { printf("%s %d\n", name, result < 0 ? errno : 0); }
int main(void) {
  say("unshare-user", syscall(SYS_unshare, CLONE_NEWUSER));
  say("clone-user", syscall(SYS_clone, CLONE_NEWUSER | 17, 0, 0, 0, 0));
  say("clone3", syscall(SYS_clone3, 0, 0));
  say("mount", syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, 0));
  say("setns", syscall(SYS_setns, 0, 0));
  say("keyctl", syscall(SYS_keyctl, 0, 0, 0, 0, 0));
  say("add_key", syscall(SYS_add_key, "user", "k", "v", 1, -3));
  say("bpf", syscall(SYS_bpf, 0, 0, 0));
  say("perf", syscall(SYS_perf_event_open, 0, 0, -1, -1, 0));
  say("userfaultfd", syscall(SYS_userfaultfd, 0));
  say("io_uring", syscall(SYS_io_uring_setup, 1, 0));
  say("handle", syscall(SYS_open_by_handle_at, -1, 0, 0));
  say("unknown", syscall(999));
  say("vsock", socket(40, SOCK_STREAM, 0));
  say("alg", socket(38, SOCK_SEQPACKET, 0));
  say("packet", socket(17, SOCK_RAW, 0));
  say("inet", socket(AF_INET, SOCK_STREAM, 0));
  say("unix", socket(AF_UNIX, SOCK_STREAM, 0));
  return 0;
}
END
gcc -o probe probe.c && ./probe"#;
    let found = daemon.output(&sandbox, probe).await;
    // 1 is EPERM. 38 is ENOSYS, which makes programs fall back.
    let wanted = "unshare-user 1\nclone-user 1\nclone3 38\nmount 1\nsetns 1\nkeyctl 1\nadd_key 1\nbpf 1\n\
                  perf 1\nuserfaultfd 1\nio_uring 38\nhandle 1\nunknown 38\nvsock 1\nalg 1\npacket 1\n\
                  inet 0\nunix 0\n";
    assert_eq!(found, wanted);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_confirms_every_setting() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let name = format!("remcochat-sandbox-{sandbox}");
    let container = docker().await.inspect_container(&name, None).await.unwrap();
    let config = container.config.unwrap();
    let host = container.host_config.unwrap();
    let (uid, gid) = config.user.as_deref().and_then(|user| user.split_once(':')).unwrap();
    assert!(uid == gid && (20_000..22_000).contains(&uid.parse::<u32>().unwrap()), "{uid}:{gid}");
    assert_eq!(host.init, Some(false));
    assert_eq!(host.readonly_rootfs, Some(true));
    assert_eq!(host.privileged, Some(false));
    assert_eq!(host.cap_drop, Some(vec!["ALL".into()]));
    assert!(host.cap_add.unwrap_or_default().is_empty());
    assert_eq!(host.network_mode.as_deref(), Some("none"));
    assert_eq!(host.ipc_mode.as_deref(), Some("private"));
    assert_eq!((host.memory, host.memory_swap), (Some(2 << 30), Some(2 << 30)));
    // gVisor's own processes count too.
    let pids = 512 + i64::from(limits::SHELL_PROCESSES);
    let pids = if under_gvisor() { 128 + 2 * pids } else { pids };
    assert_eq!((host.pids_limit, host.nano_cpus), (Some(pids), Some(2_000_000_000)));
    assert!(host.binds.unwrap_or_default().is_empty() && host.devices.unwrap_or_default().is_empty());
    assert!(host.masked_paths.unwrap().contains(&"/sys/fs/cgroup".into()));
    assert!(host.security_opt.unwrap().contains(&"no-new-privileges:true".into()));
    let targets: Vec<(String, bool)> =
        container.mounts.unwrap().into_iter().map(|m| (m.destination.unwrap(), m.rw.unwrap())).collect();
    for (target, writable) in &targets {
        assert_eq!(*writable, target == "/vercel/sandbox", "{targets:?}");
    }
    assert_eq!(targets.len(), 5);
    let labels = config.labels.unwrap();
    assert_eq!(labels["remcochat.sessionKey"], "chat:1");
    assert_eq!(labels["sandboxd.instance"], daemon.home.instance().unwrap().id());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_stays_in_its_sandbox_and_can_be_ended() {
    if skipped_under_gvisor("the engine cannot count the processes inside") {
        return;
    }
    let daemon = Daemon::start().await;
    let (bombed, bystander) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    let request = StartCommand {
        command_id: Some("cmd_bombWithManyForks".into()),
        timeout_ms: Some(60_000),
        ..script("bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 50")
    };
    let command = daemon.client.start(&bombed, &request).await.unwrap().command_id;
    let pids = || async { pids_of(&bombed).await };
    until("the fork bomb has reached the limit", || async { pids().await > 400 }).await;
    assert_eq!(daemon.output(&bystander, "echo fine").await, "fine\n");
    assert_eq!(daemon.client.health().await.unwrap().engine, "docker");

    daemon.client.kill(&bombed, &command, &Default::default()).await.unwrap();
    let ended = daemon.client.wait(&bombed, &command, None).await.unwrap();
    assert_eq!(ended.reason, EndReason::Killed);
    assert_eq!(daemon.output(&bombed, "echo usable; pgrep -c bash || true").await, "usable\n1\n");
    daemon.stop().await;
}

/// Processes of a sandbox, as the engine counts them.
async fn pids_of(sandbox: &SandboxId) -> usize {
    let name = format!("remcochat-sandbox-{sandbox}");
    let top = docker().await.top_processes(&name, None).await;
    top.ok().and_then(|top| top.processes).map_or(0, |processes| processes.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_every_process_of_a_sandbox_harms_no_other() {
    let daemon = Daemon::start().await;
    let (sandbox, bystander) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    let request = script("echo begun; sleep 30; echo done");
    let command = daemon.client.start(&bystander, &request).await.unwrap().command_id;
    let outcome =
        outcome(daemon.client.run(&sandbox, &script("echo here; exec 2>&-; kill -9 -1")).await.unwrap())
            .await;
    assert_eq!(outcome.text(), "here\n");
    assert_eq!(daemon.output(&sandbox, "echo alive").await, "alive\n");
    let status = daemon.client.inspect(&bystander, &command).await.unwrap();
    assert_eq!(status.state, sandbox_api::command::CommandState::Running);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_needs_too_much_memory_ends_as_oom() {
    if skipped_under_gvisor("the whole sandbox ends and is started again") {
        return;
    }
    let daemon = Daemon::start().await;
    let resources = Some(Resources { memory_mb: Some(256), ..Resources::default() });
    let request = CreateSandbox { session_key: "chat:1".into(), resources, ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let outcome = daemon.run(&sandbox, "echo begun; python3 -c 'bytearray(10**9)'").await;
    assert_eq!((outcome.reason, outcome.exit_code), (EndReason::Oom, 137), "{outcome:?}");
    assert_eq!(outcome.text(), "begun\n");
    assert_eq!(daemon.output(&sandbox, "echo alive").await, "alive\n");
    assert_eq!(daemon.run(&sandbox, "kill -9 $$").await.reason, EndReason::Killed);
    daemon.stop().await;
}
