//! What commands can do to waiting shells, and what they cannot.

use sandbox_api::SandboxId;
use sandbox_api::command::{EndReason, StartCommand};
use sandbox_api::sandbox::{CreateSandbox, Resources};

use super::{IN_WAITING_SHELL, is_handed_over, until_handed_over};
use crate::support::harness::{Daemon, outcome, script, skipped_under_gvisor};

/// Names the template and the shell that waits. The first is the template.
const WAITING: &str = "pgrep -f '^bash -c # waits for the next command'";

async fn sandbox_with_waiting_shell() -> Option<(Daemon, SandboxId)> {
    if skipped_under_gvisor("no shell waits, because it lacks PR_SET_MM_MAP") {
        return None;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    until_handed_over(&daemon, &sandbox).await;
    Some((daemon, sandbox))
}

/// Whatever is done to the waiting processes, each command runs exactly once and soon, and later ones are handed over again.
#[tokio::test(flavor = "multi_thread")]
async fn each_command_runs_once_whatever_is_done_to_waiting_shells() {
    let Some((daemon, sandbox)) = sandbox_with_waiting_shell().await else { return };
    let acts = [
        "kill -9 $pids",
        "kill -9 ${pids%% *}",
        "kill -9 ${pids##* }",
        "kill -STOP $pids",
        "kill -STOP ${pids%% *}",
        "kill -STOP ${pids##* }",
        "kill -TERM $pids",
        "kill -USR1 ${pids##* }",
        "(sleep 0.3; while sleep 0.01; do kill -CHLD 1; done) & kill -STOP ${pids%% *}",
        "kill -9 -1",
    ];
    for act in acts {
        until_handed_over(&daemon, &sandbox).await;
        // A moment later, so that the next shell waits.
        let act = format!("sleep 0.2; pids=$({WAITING} | tr '\\n' ' '); pids=${{pids% }}; {act}; true");
        let ended = outcome(daemon.client.run(&sandbox, &script(&act)).await.unwrap()).await;
        assert!(ended.exit_code == 0 || act.contains("-9 -1"), "{act}: {}", ended.text());
        daemon.output(&sandbox, "rm -f times").await;
        for number in 1..=20 {
            let text = format!("echo {number} >>times; nice; ulimit -n; wc -l <times");
            assert_eq!(daemon.output(&sandbox, &text).await, format!("0\n4096\n{number}\n"), "after {act}");
        }
    }
    until_handed_over(&daemon, &sandbox).await;
    daemon.stop().await;
}

/// A model that looks for its own shells, or ends them, neither sees nor ends those that wait.
#[tokio::test(flavor = "multi_thread")]
async fn commands_that_look_for_bash_find_only_their_own() {
    let Some((daemon, sandbox)) = sandbox_with_waiting_shell().await else { return };
    // Waits until the next shell waits, because it would be found only then.
    let waiting = format!("until [ $({WAITING} | wc -l) = 2 ]; do sleep 0.01; done");
    let names = format!("{waiting}; ps -o comm= -p $({WAITING} | paste -sd,)");
    assert_eq!(daemon.output(&sandbox, &names).await, "waiting-shell\nwaiting-shell\n");
    assert_eq!(daemon.output(&sandbox, &format!("{waiting}; pgrep -c bash; :")).await, "1\n");
    let kill = format!("{waiting}; pids=$({WAITING}); trap '' TERM; pkill bash; kill -0 $pids && echo live");
    assert_eq!(daemon.output(&sandbox, &kill).await, "live\n");
    daemon.stop().await;
}

/// Commands have the same user, so only what the shell does protects it.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_shell_cannot_be_read_or_traced() {
    let Some((daemon, sandbox)) = sandbox_with_waiting_shell().await else { return };
    let attack = format!(
        "sleep 0.2; for pid in $({WAITING}); do \
         cat /proc/$pid/environ /proc/$pid/mem; ls /proc/$pid/fd /proc/$pid/cwd/ /proc/$pid/root/; \
         python3 -c 'import ctypes, sys; libc = ctypes.CDLL(None, use_errno=True); \
         print(libc.ptrace(16, int(sys.argv[1]), 0, 0), ctypes.get_errno())' $pid; done 2>/dev/null"
    );
    assert_eq!(daemon.output(&sandbox, &attack).await, "-1 1\n-1 1\n");
    daemon.stop().await;
}

/// Variables that bash or the dynamic linker reads before a shell waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_with_another_locale_or_library_gets_a_new_shell() {
    let Some((daemon, sandbox)) = sandbox_with_waiting_shell().await else { return };
    for (name, value) in
        [("LC_ALL", "C"), ("LANG", "C"), ("LD_LIBRARY_PATH", "/none"), ("MALLOC_ARENA_MAX", "1")]
    {
        until_handed_over(&daemon, &sandbox).await;
        let env = Some([(name.to_owned(), value.to_owned())].into());
        let text = format!("{IN_WAITING_SHELL}; locale charmap; echo ${name}");
        let command = StartCommand { env, ..script(&text) };
        let ended = outcome(daemon.client.run(&sandbox, &command).await.unwrap()).await;
        let charmap = if value == "C" { "ANSI_X3.4-1968" } else { "UTF-8" };
        assert_eq!(ended.text(), format!("1\n{charmap}\n{value}\n"));
    }
    assert!(is_handed_over(&daemon, &sandbox).await);
    daemon.stop().await;
}

/// A directory that may be read and not entered, and one that does not exist.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_cannot_be_entered_fails_as_it_does_with_a_new_shell() {
    let Some((daemon, sandbox)) = sandbox_with_waiting_shell().await else { return };
    daemon.output(&sandbox, "mkdir closed; chmod 600 closed").await;
    for cwd in ["closed", "none"] {
        until_handed_over(&daemon, &sandbox).await;
        let error = |cmd: &str| {
            let args = Some(vec!["-c".into(), "pwd".into()]);
            let command = StartCommand {
                cmd: Some(cmd.into()),
                args,
                cwd: Some(cwd.into()),
                ..StartCommand::default()
            };
            let (daemon, sandbox) = (&daemon, &sandbox);
            async move { daemon.client.run(sandbox, &command).await.err().map(|error| error.to_string()) }
        };
        // Another path of the same program, which no shell waits for.
        let (handed, new) = (error("/usr/bin/bash").await, error("/bin/bash").await);
        assert!(handed.is_some(), "{cwd}");
        assert_eq!(handed.map(|text| text.replace("/usr/bin", "/bin")), new, "{cwd}");
    }
    daemon.stop().await;
}

/// The processes of waiting shells are beside the sandbox's own.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_at_its_process_limit_still_runs_commands() {
    if skipped_under_gvisor("no shell waits, because it lacks PR_SET_MM_MAP") {
        return;
    }
    let daemon = Daemon::start().await;
    let resources = Some(Resources { pids: Some(32), ..Resources::default() });
    let create = CreateSandbox { session_key: "chat:1".into(), resources, ..CreateSandbox::default() };
    let sandbox = daemon.create(&create).await;
    until_handed_over(&daemon, &sandbox).await;
    // Until the shell cannot fork any more.
    let fill = "for i in {1..64}; do sleep 60 & done 2>/dev/null; true";
    let first = outcome(daemon.client.run(&sandbox, &script(fill)).await.unwrap()).await;
    assert!(first.reason == EndReason::Exited || first.reason == EndReason::Killed);
    for _ in 0..3 {
        assert_eq!(daemon.output(&sandbox, "echo works").await, "works\n");
    }
    daemon.stop().await;
}
