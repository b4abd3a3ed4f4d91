//! Behaviour that differs under gVisor, in place of the stories that cannot hold there. `make test-gvisor` runs them.

use sandbox_api::ErrorCode;
use sandbox_api::command::{EndReason, StartCommand};
use sandbox_api::sandbox::{CreateSandbox, Resources};

use crate::support::harness::{Daemon, script, under_gvisor};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_no_capability_in_a_kernel_of_its_own() {
    if !under_gvisor() {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let status = daemon.output(&sandbox, "cat /proc/self/status").await;
    let sets: Vec<&str> = status.lines().filter(|line| line.starts_with("Cap")).collect();
    assert!(sets.len() >= 4 && sets.iter().all(|set| set.ends_with("\t0000000000000000")), "{sets:?}");
    let user = daemon.output(&sandbox, "id -u; whoami").await;
    let (uid, name) = user.split_once('\n').unwrap();
    assert!(uid.parse::<u32>().unwrap() >= 20_000 && name == "sandbox\n", "{user}");
    let host = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_ne!(daemon.output(&sandbox, "uname -r").await, host);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_process_with_the_secret_is_accepted_as_the_agent() {
    if !under_gvisor() {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let impostor = r#"python3 - <<'END'
import socket
for greeting in [b"sandbox-agent 1 wrong\n", b"x" * 100000, b""]:
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect("/.sandbox/run/agent.sock")
    try:
        s.sendall(greeting)
        print(s.recv(100))
    except OSError as error:
        print(type(error).__name__)
END
rm -f /.sandbox/run/agent.sock; ln -sf /tmp/x /.sandbox/run/agent.sock
stat -c %F /.sandbox/run/agent.sock"#;
    let text = daemon.run(&sandbox, impostor).await.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines.last()), (4, Some(&"socket")), "it cannot be replaced: {text}");
    for line in &lines[..3] {
        assert!(["b''", "ConnectionResetError", "BrokenPipeError"].contains(line), "{line}");
    }
    assert_eq!(daemon.output(&sandbox, "echo alive").await, "alive\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_runs_out_of_memory_restarts_with_its_files() {
    if !under_gvisor() {
        return;
    }
    let daemon = Daemon::start().await;
    let resources = Some(Resources { memory_mb: Some(256), ..Resources::default() });
    let request = CreateSandbox { session_key: "chat:1".into(), resources, ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let bystander = daemon.sandbox("chat:2").await;
    let outcome = daemon.run(&sandbox, "echo kept > file; echo begun; python3 -c 'bytearray(10**9)'").await;
    assert_eq!((outcome.reason, outcome.text().as_str()), (EndReason::Lost, "begun\n"), "{outcome:?}");
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
    assert_eq!(daemon.output(&bystander, "echo fine").await, "fine\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_ends_the_agent_ends_only_its_own_sandbox() {
    if !under_gvisor() {
        return;
    }
    let daemon = Daemon::start().await;
    let (sandbox, bystander) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    let outcome = daemon.run(&sandbox, "echo kept > file; kill -9 1; sleep 20").await;
    assert_eq!(outcome.reason, EndReason::Lost, "{outcome:?}");
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
    assert_eq!(daemon.output(&bystander, "echo fine").await, "fine\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_harms_no_other_sandbox() {
    if !under_gvisor() {
        return;
    }
    let daemon = Daemon::start().await;
    let (bombed, bystander) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    daemon.output(&bombed, "echo kept > file").await;
    let request = StartCommand {
        timeout_ms: Some(5_000),
        ..script("bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 50")
    };
    let command = daemon.client.start(&bombed, &request).await.unwrap().command_id;
    assert_eq!(daemon.output(&bystander, "echo fine").await, "fine\n");
    // Its time is up, or the limit on its processes ended the sandbox earlier.
    if let Ok(ended) = daemon.client.wait(&bombed, &command, None).await {
        assert!([EndReason::Timeout, EndReason::Lost].contains(&ended.reason), "{ended:?}");
    }
    assert_eq!(daemon.output(&bystander, "echo fine").await, "fine\n");
    assert_eq!(daemon.output(&bombed, "cat file").await, "kept\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_command_is_rejected_and_does_not_run() {
    if !under_gvisor() {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for streamed in [true, false] {
        let request = StartCommand { read_only: Some(true), ..script("echo ran > /tmp/ran") };
        let error = match streamed {
            true => daemon.client.run(&sandbox, &request).await.map(drop).unwrap_err(),
            false => daemon.client.start(&sandbox, &request).await.map(drop).unwrap_err(),
        };
        assert_eq!(error.code(), Some(ErrorCode::Refused), "{error}");
        let sandbox_client::Error::Refused { body, .. } = error else { panic!("{error}") };
        assert_eq!(body.details["field"], "readOnly", "{body:?}");
    }
    assert_eq!(daemon.output(&sandbox, "ls /tmp").await, "");
    daemon.stop().await;
}
