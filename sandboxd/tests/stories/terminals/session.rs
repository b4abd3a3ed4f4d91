//! Terminals: opened, viewed, typed into, ended. Each story runs over both agent transports.

use std::collections::BTreeMap;

use sandbox_api::ErrorCode;
use sandbox_api::command::EndReason;
use sandbox_api::terminal::{OpenTerminal, ResizeTerminal, TerminalState};

use crate::support::harness::{Daemon, over_each_transport, skipped_under_gvisor, until};
use crate::support::screens::{Viewer, open, shell};

over_each_transport!(
    typed_text_is_echoed_and_runs,
    a_program_sees_a_terminal_of_its_size,
    the_reported_screen_is_the_visible_one,
    ctrl_c_interrupts_the_program_and_not_the_shell,
    two_viewers_see_the_same_and_one_can_disconnect,
    a_viewer_that_reconnects_gets_the_output,
    a_terminal_ends_with_its_reason,
    deleting_a_terminal_ends_its_background_jobs,
);

async fn typed_text_is_echoed_and_runs(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(daemon, &sandbox).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.type_in("echo $((6 * 7)); pwd; echo $SANDBOX_COMMAND_ID\r").await;
    viewer.until_seen("echo $((6 * 7))").await;
    viewer.until_seen("\r42\r\n/vercel/sandbox/workspace\r\n").await;
    viewer.until_seen(terminal.as_str()).await;
    daemon.client.type_into(&sandbox, &terminal, "echo $((7 * 7))\r").await.unwrap();
    viewer.until_seen("\r49\r\n").await;
    assert!(viewer.seen().contains("\x1b["), "an interactive prompt has a colour or a title");
}

async fn a_program_sees_a_terminal_of_its_size(daemon: &Daemon) {
    if skipped_under_gvisor("its terminals send no SIGWINCH") {
        return;
    }
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(daemon, &sandbox).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    let mut other = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    assert_eq!(viewer.size().await, (120, 32));
    viewer.type_in("trap 'echo size changed' WINCH; tty; stty size; echo $TERM\r").await;
    viewer.until_seen("/dev/pts/").await;
    viewer.until_seen("\r\n32 120\r\nxterm-256color\r\n").await;

    viewer.resize(80, 24).await;
    assert_eq!(other.size_after((120, 32)).await, (80, 24));
    viewer.type_in("stty size\r").await;
    viewer.until_seen("size changed").await;
    viewer.until_seen("24 80\r\n").await;
    let size = ResizeTerminal { cols: 90, rows: 30 };
    daemon.client.resize_terminal(&sandbox, &terminal, size).await.unwrap();
    viewer.type_in("stty size\r").await;
    viewer.until_seen("30 90\r\n").await;
    let seen = daemon.client.terminal(&sandbox, &terminal).await.unwrap();
    assert_eq!((seen.cols, seen.rows, seen.viewers), (90, 30, 2));
}

async fn the_reported_screen_is_the_visible_one(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let draw =
        r"printf '\e[?1049h\e[2J\e[3;5Hthe \e[1;31mmiddle\e[0m é日\e[1;1Htop'; read -n 1; printf '\e[?1049l'";
    let request = OpenTerminal {
        cmd: Some("bash".into()),
        args: Some(vec!["-c".into(), draw.into()]),
        env: Some(BTreeMap::from([("LC_ALL".into(), "C.UTF-8".into())])),
        cols: Some(40),
        rows: Some(6),
        ..OpenTerminal::default()
    };
    let terminal = open(daemon, &sandbox, &request).await;
    let looks = |expected: &'static str| {
        let (client, sandbox, terminal) = (&daemon.client, &sandbox, &terminal);
        async move { client.terminal(sandbox, terminal).await.unwrap().screen.as_deref() == Some(expected) }
    };
    until("the screen is drawn", || looks("top\n\n    the middle é日")).await;
    let cursor = daemon.client.terminal(&sandbox, &terminal).await.unwrap().cursor.unwrap();
    assert_eq!((cursor.row, cursor.col), (0, 3));
    daemon.client.type_into(&sandbox, &terminal, "x").await.unwrap();
    until("the alternate screen is left", || looks("")).await;
    let listed = daemon.client.terminals(&sandbox).await.unwrap().terminals;
    assert_eq!((listed.len(), &listed[0].screen, listed[0].is_shell), (1, &None, false));
}

async fn ctrl_c_interrupts_the_program_and_not_the_shell(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(daemon, &sandbox).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.type_in("echo begun-$((1 + 1)); sleep 1000\r").await;
    viewer.until_seen("begun-2").await;
    until("the program sleeps", || async { daemon.run(&sandbox, "pgrep -x sleep").await.exit_code == 0 })
        .await;
    viewer.type_in("\x03").await;
    // Bash turns bracketed paste on when it reads the next line.
    viewer.until_seen("\x1b[?2004h").await;
    viewer.type_in("echo code $?\r").await;
    viewer.until_seen("code 130").await;
}

async fn two_viewers_see_the_same_and_one_can_disconnect(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(daemon, &sandbox).await;
    let mut one = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    let mut two = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    one.type_in("echo from-$((1))\r").await;
    two.until_seen("\rfrom-1\r\n").await;
    two.type_in("echo from-$((1 + 1))\r").await;
    one.until_seen("\rfrom-2\r\n").await;
    drop(one);
    until("the first viewer is gone", || async {
        daemon.client.terminal(&sandbox, &terminal).await.unwrap().viewers == 1
    })
    .await;
    two.type_in("echo from-$((1 + 2))\r").await;
    two.until_seen("\rfrom-3\r\n").await;
}

async fn a_viewer_that_reconnects_gets_the_output(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(daemon, &sandbox).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.type_in("for i in {1..200}; do echo line-$i; done\r").await;
    viewer.until_seen("\r\nline-200\r\n").await;
    drop(viewer);
    daemon.client.type_into(&sandbox, &terminal, "echo meanwhile-$((2 * 2))\r").await.unwrap();
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.until_seen("\rmeanwhile-4\r\n").await;
    assert!(viewer.seen().contains("\rline-1\r\nline-2\r\n"), "all output arrives, not only the screen");
    assert_eq!(viewer.seen().matches("\r\nline-200\r\n").count(), 1);
}

async fn a_terminal_ends_with_its_reason(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let ways = [
        ("exit 7\r", (7, None, EndReason::Exited)),
        ("kill -9 $$\r", (137, Some("SIGKILL"), EndReason::Killed)),
        ("\x04", (0, None, EndReason::Exited)),
    ];
    for (typed, (exit_code, signal, reason)) in ways {
        let terminal = shell(daemon, &sandbox).await;
        let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
        viewer.type_in("echo last-$((1 + 1)) words\r").await;
        // Bash turns bracketed paste on when it reads single keys. Before that, ctrl-D has no effect.
        viewer.until_seen("last-2 words\r\n\x1b[?2004h").await;
        viewer.type_in(typed).await;
        let received = viewer.exit().await;
        assert_eq!((received.0, received.1.as_deref(), received.2), (exit_code, signal, reason), "{typed:?}");

        let ended = daemon.client.terminal(&sandbox, &terminal).await.unwrap();
        assert_eq!((ended.state, ended.exit_code), (TerminalState::Ended, Some(exit_code)));
        assert_eq!((ended.signal.as_deref(), ended.reason), (signal, Some(reason)));
        assert!(ended.ended_at.is_some() && ended.screen.unwrap().contains("last-2 words"));
        let refused = daemon.client.type_into(&sandbox, &terminal, "x").await.unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::WrongState));
        let mut late = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
        assert_eq!(late.exit().await.0, exit_code);
        assert!(late.seen().contains("last-2 words"));
        daemon.client.close_terminal(&sandbox, &terminal).await.unwrap();
        let gone = daemon.client.terminal(&sandbox, &terminal).await.unwrap_err();
        assert_eq!(gone.code(), Some(ErrorCode::NotFound));
    }
}

async fn deleting_a_terminal_ends_its_background_jobs(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(daemon, &sandbox).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer
        .type_in("sleep 1001 & nohup sleep 1002 & setsid sleep 1003 & (trap '' HUP TERM; sleep 1004) &\r")
        .await;
    let sleepers = || async { daemon.run(&sandbox, "pgrep -cx sleep").await.text() };
    until("all of them sleep", || async { sleepers().await == "4\n" }).await;
    daemon.client.close_terminal(&sandbox, &terminal).await.unwrap();
    // The response means that they have ended, so one look is enough.
    assert_eq!(sleepers().await, "0\n");
    assert_eq!(viewer.exit().await.2, EndReason::Killed);
    let again = daemon.client.close_terminal(&sandbox, &terminal).await.unwrap_err();
    assert_eq!(again.code(), Some(ErrorCode::NotFound));
}
