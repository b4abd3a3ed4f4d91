//! `sandboxd shell`, run on a real terminal.

use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::terminal::TerminalState;

use crate::support::harness::{Daemon, DaemonProcess, Home, free_port, until};
use crate::support::user_terminal::UserTerminal;

fn shell(home: &Home, url: &str, args: &[&str]) -> UserTerminal {
    UserTerminal::start(home, &[&["shell", "--url", url], args].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_types_detaches_reattaches_and_ends() {
    let daemon = Daemon::start().await;
    let mut user = shell(&daemon.home, &daemon.base, &["chat:1"]);
    user.wait_until_attached("press ctrl-] to detach").await;
    user.type_keys("stty size; place=kept\r").await;
    user.wait_for("\r40 100\r\n").await;
    user.resize(90, 30);
    let sandbox = daemon.sandbox("chat:1").await;
    until("the terminal has the window's size", || async {
        let terminals = daemon.client.terminals(&sandbox).await.unwrap().terminals;
        (terminals[0].cols, terminals[0].rows) == (90, 30)
    })
    .await;
    // Keys that would end or stop the program are sent to the sandbox.
    user.type_keys("echo now-$((1 + 1)); sleep 1000\r").await;
    user.wait_for("now-2\r\n").await;
    until("the program sleeps", || async { daemon.run(&sandbox, "pgrep -x sleep").await.exit_code == 0 })
        .await;
    user.type_keys("\x03").await;
    // Bash turns bracketed paste on when it reads the next line.
    user.wait_for("\x1b[?2004h").await;
    user.type_keys("stty size\r").await;
    user.wait_for("30 90\r\n").await;
    user.type_keys("\x1d").await;
    assert_eq!(user.exit_code().await, Some(0));
    user.wait_for("the terminal keeps running").await;
    assert!(user.is_restored());

    let mut user = shell(&daemon.home, &daemon.base, &["chat:1"]);
    user.wait_for("30 90\r\n").await;
    user.type_keys("echo it-is-$place; exit 7\r").await;
    user.wait_for("it-is-kept\r\n").await;
    assert_eq!(user.exit_code().await, Some(7));
    assert!(user.is_restored());
    let terminals = daemon.client.terminals(&sandbox).await.unwrap().terminals;
    assert_eq!((terminals.len(), terminals[0].state), (1, TerminalState::Ended));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_and_other_detach_keys_can_be_given() {
    let daemon = Daemon::start().await;
    let args = ["--detach-keys", "ctrl-p,ctrl-q", "chat:1", "--", "cat", "-A"];
    let mut user = shell(&daemon.home, &daemon.base, &args);
    user.wait_until_attached("press ctrl-p,ctrl-q to detach").await;
    user.type_keys("a\x10b\x1d\r").await;
    user.wait_for("a^Pb^]$\r\n").await;
    user.type_keys("\x10\x11").await;
    assert_eq!(user.exit_code().await, Some(0));

    // A program is not reattached: it gets another terminal.
    let mut user = shell(&daemon.home, &daemon.base, &["chat:1", "--", "bash", "-c", "exit 9"]);
    assert_eq!(user.exit_code().await, Some(9));
    let nothing = ["chat:1", "--", "no-such-program"];
    let mut user = shell(&daemon.home, &daemon.base, &nothing);
    assert_eq!(user.exit_code().await, Some(127));
    user.wait_for("no-such-program").await;
    assert!(user.is_restored());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_stays_attached_across_a_daemon_restart() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let mut user = shell(&home, &format!("http://127.0.0.1:{port}"), &["chat:1"]);
    user.wait_for("$ ").await;
    user.type_keys("before=kept; echo here-$((1 + 1))\r").await;
    user.wait_for("here-2\r\n").await;
    daemon.kill().await;
    user.wait_for("waiting for the daemon").await;
    let daemon = DaemonProcess::start(&home, port).await;
    user.wait_for("here-2\r\n").await;
    user.type_keys("echo $before-still\r").await;
    user.wait_for("kept-still\r\n").await;

    // A signal ends the program, after it has restored the terminal.
    let ours = user.child.id().unwrap().cast_signed();
    let ours = std::fs::read_to_string(format!("/proc/{ours}/task/{ours}/children")).unwrap();
    let ours = ours
        .split_whitespace()
        .next()
        .map_or(user.child.id().unwrap().cast_signed(), |pid| pid.parse().unwrap());
    kill_process(Pid::from_raw(ours).unwrap(), Signal::TERM).unwrap();
    assert_eq!(user.exit_code().await, Some(143));
    assert!(user.is_restored());
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_the_message_names_the_alternative() {
    let daemon = Daemon::start().await;
    let output = daemon.home.program(&["shell", "--url", &daemon.base]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("not a terminal") && words.contains("sandboxd run"), "{words}");
    daemon.stop().await;
}
