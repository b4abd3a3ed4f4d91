//! What a terminal, or whoever uses it, may do too much of.

use futures::StreamExt;
use futures::stream;
use sandbox_api::command::EndReason;
use sandbox_api::terminal::{OpenTerminal, ResizeTerminal};
use sandbox_api::{ErrorCode, SandboxId, TerminalId};
use sandbox_client::Error;
use tokio::time::Instant;

use crate::support::harness::{Daemon, SOON, left_out_under_gvisor, until};
use crate::support::screens::{Seat, open, shell, shown_by};

/// What the agent may take at its worst, in KiB: the goal of its resident memory.
const AGENT_KIB: u64 = 64 * 1024;

/// How many terminals run at once at most.
const TERMINALS: usize = 64;

/// The most the agent ever had in memory, in KiB.
async fn agent_peak_kib(daemon: &Daemon, sandbox: &SandboxId) -> u64 {
    if left_out_under_gvisor("its kernel does not tell the most a process had") {
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
async fn a_flood_is_held_back_by_no_viewer_and_fills_no_memory() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let flood = "stty -opost; yes 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde | \
                 head -c 100M; stty opost; printf 'the \\e[31mvery\\e[0m last-%d\\n' $((1 + 1))\r";
    for looked_at in [false, true] {
        let terminal = shell(&daemon, &sandbox).await;
        let mut seat = Seat::take(&daemon.client, &sandbox, &terminal).await;
        seat.until_seen("$ ").await;
        let mut slow = looked_at.then_some(seat);
        daemon.client.type_into(&sandbox, &terminal, flood).await.unwrap();
        let has_ended = || async {
            let screen = daemon.client.terminal(&sandbox, &terminal).await.unwrap().screen.unwrap();
            screen.contains("the very last-2\n")
        };
        until("it has written everything, though nobody reads", has_ended).await;
        assert!(written(&daemon, &sandbox, &terminal).await > 100 * 1024 * 1024);
        // Now the viewer reads, and need not read all of it to see what is there.
        if let Some(seat) = &mut slow {
            seat.until_seen("the \x1b[31mvery\x1b[").await;
            seat.type_in("echo after-$((1 + 2))\r").await;
            seat.until_seen("after-3\r\n").await;
            seat.until_seen("$ ").await;
            assert!(seat.seen().len() < 50 * 1024 * 1024, "{} bytes came", seat.seen().len());
            let screen = daemon.client.terminal(&sandbox, &terminal).await.unwrap().screen.unwrap();
            assert_eq!(shown_by(seat, 120, 32), screen);
        }
        daemon.client.close_terminal(&sandbox, &terminal).await.unwrap();
    }
    let peak = agent_peak_kib(&daemon, &sandbox).await;
    assert!(peak < AGENT_KIB, "{peak} KiB");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_after_a_lot_was_written_sees_whole_lines_and_the_right_screen() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let lines = "for i in {1..20000}; do printf '\\e[3%dmline-%d é日\\e[0m\\n' $((i % 8)) $i; done; echo end-$((1+1))\r";
    daemon.client.type_into(&sandbox, &terminal, lines).await.unwrap();
    until("it is written", || async {
        daemon.client.terminal(&sandbox, &terminal).await.unwrap().screen.unwrap().contains("end-2")
    })
    .await;
    let mut seat = Seat::take(&daemon.client, &sandbox, &terminal).await;
    seat.until_seen("end-2").await;
    seat.type_in("echo then-$((1 + 2))\r").await;
    seat.until_seen("then-3\r\n").await;
    seat.until_seen("$ ").await;
    let seen = seat.seen();
    assert!(!seen.contains("line-1 ") && seen.contains("line-19000 "), "{} bytes", seen.len());
    let first = seen.split('\n').next().unwrap();
    assert!(first.starts_with("\x1b[3") && first.contains("mline-"), "{first:?}");
    let screen = daemon.client.terminal(&sandbox, &terminal).await.unwrap().screen.unwrap();
    assert_eq!(shown_by(&seat, 120, 32), screen);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_sizes_does_no_harm() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let mut seat = Seat::take(&daemon.client, &sandbox, &terminal).await;
    let mut other = Seat::take(&daemon.client, &sandbox, &terminal).await;
    for round in 0..2000_u32 {
        seat.resize(1 + (round * 7) % 500, 1 + (round * 3) % 200).await;
    }
    seat.resize(100, 30).await;
    seat.type_in("stty size\r").await;
    seat.until_seen("\r30 100\r\n").await;
    other.until_seen("\r30 100\r\n").await;
    other.until_size((100, 30)).await;
    let peak = agent_peak_kib(&daemon, &sandbox).await;
    assert!(peak < AGENT_KIB, "{peak} KiB");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_terminals_run_at_once_and_no_more() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let wish = OpenTerminal { cmd: Some("cat".into()), ..OpenTerminal::default() };
    let opened: Vec<_> =
        stream::iter(0..TERMINALS).map(|_| open(&daemon, &sandbox, &wish)).buffered(8).collect().await;
    let refused = daemon.client.open_terminal(&sandbox, &wish).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted));
    let Error::Refused { status, body } = refused else { panic!("{refused}") };
    assert_eq!((status, &body.details["limit"]), (429, &"running terminals".into()));
    for terminal in [&opened[0], &opened[TERMINALS - 1]] {
        let mut seat = Seat::take(&daemon.client, &sandbox, terminal).await;
        seat.type_in("each works\r").await;
        seat.until_seen("each works\r\neach works\r\n").await;
    }
    let peak = agent_peak_kib(&daemon, &sandbox).await;
    assert!(peak < AGENT_KIB, "{peak} KiB");
    // Their ends are kept, but not for ever.
    for terminal in &opened {
        daemon.client.type_into(&sandbox, terminal, "\x04").await.unwrap();
    }
    until("only the newest are kept", || async {
        let known = daemon.client.terminals(&sandbox).await.unwrap().terminals;
        known.len() == 32 && known.iter().all(|known| known.reason == Some(EndReason::Exited))
    })
    .await;
    open(&daemon, &sandbox, &wish).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_viewers_look_at_once_and_no_more() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let mut seats = Vec::new();
    for _ in 0..16 {
        seats.push(Seat::take(&daemon.client, &sandbox, &terminal).await);
    }
    let refused = daemon.client.attach_terminal(&sandbox, &terminal).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted));
    seats.pop();
    until("there is a place again", || async {
        daemon.client.attach_terminal(&sandbox, &terminal).await.is_ok()
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_reads_nothing_makes_nobody_wait_for_ever() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let mut seat = Seat::take(&daemon.client, &sandbox, &terminal).await;
    seat.type_in("stty raw -echo; echo deaf-$((1 + 1)); exec sleep 1000\r").await;
    seat.until_seen("deaf-2").await;
    let much = vec![b'x'; 64 * 1024];
    let began = Instant::now();
    let refused = loop {
        assert!(began.elapsed() < SOON, "it takes everything");
        if let Err(error) = daemon.client.type_into(&sandbox, &terminal, much.clone()).await {
            break error;
        }
    };
    assert_eq!(refused.code(), Some(ErrorCode::WrongState));
    let Error::Refused { body, .. } = refused else { panic!("{refused}") };
    assert!(body.details["takenBytes"].as_u64().unwrap() < much.len() as u64, "{:?}", body.details);
    // Whoever types at it is told, and goes on seeing.
    seat.type_in(&"y".repeat(64 * 1024)).await;
    while seat.not_done.is_empty() {
        assert!(seat.next().await);
    }
    assert!(seat.not_done[0].contains("does not read"), "{:?}", seat.not_done);
    daemon.client.close_terminal(&sandbox, &terminal).await.unwrap();
    assert_eq!(seat.exit().await.1.as_deref(), Some("SIGHUP"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_out_of_bounds_names_its_field() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    for (cols, rows, field) in [(0, 24, "cols"), (501, 24, "cols"), (80, 0, "rows"), (80, 201, "rows")] {
        let wish = OpenTerminal { cols: Some(cols), rows: Some(rows), ..OpenTerminal::default() };
        let size = ResizeTerminal { cols, rows };
        for refused in [
            daemon.client.open_terminal(&sandbox, &wish).await.map(drop).unwrap_err(),
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
