//! Limits of terminals and of their clients.

use futures::StreamExt;
use futures::stream;
use sandbox_api::command::EndReason;
use sandbox_api::terminal::{OpenTerminal, ResizeTerminal};
use sandbox_api::{ErrorCode, SandboxId, TerminalId};
use sandbox_client::Error;
use tokio::time::Instant;

use crate::support::harness::{Daemon, SOON, skipped_under_gvisor, until};
use crate::support::screens::{Viewer, open, shell, shown_by};

/// Maximum memory of the agent, in KiB.
const AGENT_KIB: u64 = 64 * 1024;

/// Maximum number of running terminals.
const TERMINALS: usize = 64;

/// The agent's peak memory, in KiB.
async fn agent_peak_kib(daemon: &Daemon, sandbox: &SandboxId) -> u64 {
    if skipped_under_gvisor("its kernel does not report a process's peak memory") {
        return 0;
    }
    let status = daemon.output(sandbox, "cat /proc/1/status").await;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

async fn written(daemon: &Daemon, sandbox: &SandboxId, terminal: &TerminalId) -> u64 {
    daemon.client.terminal(sandbox, terminal).await.unwrap().bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_not_delayed_by_viewers_and_uses_little_memory() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let flood = "stty -opost; yes 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde | \
                 head -c 100M; stty opost; printf 'the \\e[31mvery\\e[0m last-%d\\n' $((1 + 1))\r";
    for looked_at in [false, true] {
        let terminal = shell(&daemon, &sandbox).await;
        let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
        viewer.until_seen("$ ").await;
        let mut slow = looked_at.then_some(viewer);
        daemon.client.type_into(&sandbox, &terminal, flood).await.unwrap();
        let has_ended = || async {
            let screen = daemon.client.terminal(&sandbox, &terminal).await.unwrap().screen.unwrap();
            screen.contains("the very last-2\n")
        };
        until("all output is written although the viewer does not read", has_ended).await;
        assert!(written(&daemon, &sandbox, &terminal).await > 100 * 1024 * 1024);
        // Now the viewer reads. It need not read all output to see the screen.
        if let Some(viewer) = &mut slow {
            viewer.until_seen("the \x1b[31mvery\x1b[").await;
            viewer.type_in("echo after-$((1 + 2))\r").await;
            viewer.until_seen("after-3\r\n").await;
            viewer.until_seen("$ ").await;
            assert!(viewer.seen().len() < 50 * 1024 * 1024, "{} bytes came", viewer.seen().len());
            let screen = daemon.client.terminal(&sandbox, &terminal).await.unwrap().screen.unwrap();
            assert_eq!(shown_by(viewer, 120, 32), screen);
        }
        daemon.client.close_terminal(&sandbox, &terminal).await.unwrap();
    }
    let peak = agent_peak_kib(&daemon, &sandbox).await;
    assert!(peak < AGENT_KIB, "{peak} KiB");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_viewer_gets_whole_lines_and_the_right_screen() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let lines = "for i in {1..20000}; do printf '\\e[3%dmline-%d é日\\e[0m\\n' $((i % 8)) $i; done; echo end-$((1+1))\r";
    daemon.client.type_into(&sandbox, &terminal, lines).await.unwrap();
    until("all lines are written", || async {
        daemon.client.terminal(&sandbox, &terminal).await.unwrap().screen.unwrap().contains("end-2")
    })
    .await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.until_seen("end-2").await;
    viewer.type_in("echo then-$((1 + 2))\r").await;
    viewer.until_seen("then-3\r\n").await;
    viewer.until_seen("$ ").await;
    let seen = viewer.seen();
    assert!(!seen.contains("line-1 ") && seen.contains("line-19000 "), "{} bytes", seen.len());
    let first = seen.split('\n').next().unwrap();
    assert!(first.starts_with("\x1b[3") && first.contains("mline-"), "{first:?}");
    let screen = daemon.client.terminal(&sandbox, &terminal).await.unwrap().screen.unwrap();
    assert_eq!(shown_by(&viewer, 120, 32), screen);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_resizes_are_harmless() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    let mut other = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    for round in 0..2000_u32 {
        viewer.resize(1 + (round * 7) % 500, 1 + (round * 3) % 200).await;
    }
    viewer.resize(100, 30).await;
    viewer.type_in("stty size\r").await;
    viewer.until_seen("\r30 100\r\n").await;
    other.until_seen("\r30 100\r\n").await;
    other.until_size((100, 30)).await;
    let peak = agent_peak_kib(&daemon, &sandbox).await;
    assert!(peak < AGENT_KIB, "{peak} KiB");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_running_terminals_is_limited() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let request = OpenTerminal { cmd: Some("cat".into()), ..OpenTerminal::default() };
    let opened: Vec<_> =
        stream::iter(0..TERMINALS).map(|_| open(&daemon, &sandbox, &request)).buffered(8).collect().await;
    let refused = daemon.client.open_terminal(&sandbox, &request).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted));
    let Error::Refused { status, body, .. } = refused else { panic!("{refused}") };
    assert_eq!((status, &body.details["limit"]), (429, &"running terminals".into()));
    for terminal in [&opened[0], &opened[TERMINALS - 1]] {
        let mut viewer = Viewer::attach(&daemon.client, &sandbox, terminal).await;
        viewer.type_in("each works\r").await;
        viewer.until_seen("each works\r\neach works\r\n").await;
    }
    let peak = agent_peak_kib(&daemon, &sandbox).await;
    assert!(peak < AGENT_KIB, "{peak} KiB");
    // Ended terminals are kept up to a limit.
    for terminal in &opened {
        daemon.client.type_into(&sandbox, terminal, "\x04").await.unwrap();
    }
    until("only the newest are kept", || async {
        let known = daemon.client.terminals(&sandbox).await.unwrap().terminals;
        known.len() == 32 && known.iter().all(|known| known.reason == Some(EndReason::Exited))
    })
    .await;
    open(&daemon, &sandbox, &request).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_viewers_is_limited() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let mut viewers = Vec::new();
    for _ in 0..16 {
        viewers.push(Viewer::attach(&daemon.client, &sandbox, &terminal).await);
    }
    let refused = daemon.client.attach_terminal(&sandbox, &terminal).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted));
    viewers.pop();
    until("another viewer is accepted again", || async {
        daemon.client.attach_terminal(&sandbox, &terminal).await.is_ok()
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_read_blocks_no_client() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.type_in("stty raw -echo; echo silent-$((1 + 1)); exec sleep 1000\r").await;
    viewer.until_seen("silent-2").await;
    let much = vec![b'x'; 64 * 1024];
    let began = Instant::now();
    let refused = loop {
        assert!(began.elapsed() < SOON, "all input is accepted");
        if let Err(error) = daemon.client.type_into(&sandbox, &terminal, much.clone()).await {
            break error;
        }
    };
    assert_eq!(refused.code(), Some(ErrorCode::WrongState));
    let Error::Refused { body, .. } = refused else { panic!("{refused}") };
    assert!(body.details["takenBytes"].as_u64().unwrap() < much.len() as u64, "{:?}", body.details);
    // A viewer that types gets an error, and still receives output.
    viewer.type_in(&"y".repeat(64 * 1024)).await;
    while viewer.not_done.is_empty() {
        assert!(viewer.next().await);
    }
    assert!(viewer.not_done[0].contains("does not read"), "{:?}", viewer.not_done);
    daemon.client.close_terminal(&sandbox, &terminal).await.unwrap();
    assert_eq!(viewer.exit().await.1.as_deref(), Some("SIGHUP"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_out_of_range_size_names_its_field() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    for (cols, rows, field) in [(0, 24, "cols"), (501, 24, "cols"), (80, 0, "rows"), (80, 201, "rows")] {
        let request = OpenTerminal { cols: Some(cols), rows: Some(rows), ..OpenTerminal::default() };
        let size = ResizeTerminal { cols, rows };
        for refused in [
            daemon.client.open_terminal(&sandbox, &request).await.map(drop).unwrap_err(),
            daemon.client.resize_terminal(&sandbox, &terminal, size).await.map(drop).unwrap_err(),
        ] {
            let Error::Refused { body, .. } = refused else { panic!("{refused}") };
            assert_eq!((body.code, &body.details["field"]), (ErrorCode::InvalidRequest, &field.into()));
        }
    }
    let much = vec![b'x'; 64 * 1024 + 1];
    let refused = daemon.client.type_into(&sandbox, &terminal, much).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::TooLarge));
    let args = OpenTerminal { args: Some(vec!["-l".into()]), ..OpenTerminal::default() };
    let refused = daemon.client.open_terminal(&sandbox, &args).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::InvalidRequest));
    let nothing = OpenTerminal { cmd: Some("no-such-program".into()), ..OpenTerminal::default() };
    let refused = daemon.client.open_terminal(&sandbox, &nothing).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::Refused));
    daemon.stop().await;
}
