//! `sandboxd shell`, with a person at a real terminal.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use sandbox_api::terminal::TerminalState;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::time::timeout;

use crate::support::harness::{Daemon, DaemonProcess, Home, SOON, free_port, until};

/// Somebody's terminal, with our program on it.
struct Person {
    keyboard: pipe::Sender,
    screen: pipe::Receiver,
    /// The program's side, which also tells how it is set.
    terminal: OwnedFd,
    child: Child,
    seen: Vec<u8>,
    found: usize,
}

impl Person {
    fn sits_down(home: &Home, url: &str, args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap();
        let terminal = open(&path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        tcsetwinsize(&terminal, winsize(100, 40)).unwrap();
        let side = || Stdio::from(terminal.try_clone().unwrap());
        // A session of its own, so that the terminal is its own and signals of it come.
        let program = home.program(&[&["shell", "--url", url], args].concat());
        let program = program.as_std();
        let mut command = tokio::process::Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(program.get_program()).args(program.get_args()).env_clear();
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let child = command.stdin(side()).stdout(side()).stderr(side()).kill_on_drop(true).spawn().unwrap();
        let master = File::from(master);
        Self {
            keyboard: pipe::Sender::from_file_unchecked(master.try_clone().unwrap()).unwrap(),
            screen: pipe::Receiver::from_file_unchecked(master).unwrap(),
            terminal,
            child,
            seen: Vec::new(),
            found: 0,
        }
    }

    /// Waits for the words of a program that is attached, and until it passes all keys on.
    async fn is_attached(&mut self, words: &str) {
        self.sees(words).await;
        // The words come first: keys like ctrl-C would still go to the program itself.
        until("the terminal is in raw mode", || async { !self.is_as_before() }).await;
    }

    async fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).await.unwrap();
    }

    /// Waits until `text` is shown, after what was waited for before.
    async fn sees(&mut self, text: &str) {
        let told = |seen: &[u8]| String::from_utf8_lossy(seen).into_owned();
        loop {
            let new = &self.seen[self.found..];
            if let Some(at) = new.windows(text.len()).position(|part| part == text.as_bytes()) {
                self.found += at + text.len();
                return;
            }
            let read = timeout(SOON, self.screen.read_buf(&mut self.seen)).await;
            read.unwrap_or_else(|_| panic!("{text:?} is not shown: {:?}", told(&self.seen))).unwrap();
        }
    }

    fn resizes(&self, cols: u16, rows: u16) {
        tcsetwinsize(&self.terminal, winsize(cols, rows)).unwrap();
    }

    /// Its end: the exit code.
    async fn leaves(&mut self) -> Option<i32> {
        timeout(SOON, self.child.wait()).await.expect("it goes on").unwrap().code()
    }

    /// Whether the terminal is as a shell wants it: it echoes, and edits lines.
    fn is_as_before(&self) -> bool {
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }
}

fn winsize(cols: u16, rows: u16) -> Winsize {
    Winsize { ws_col: cols, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_types_leaves_comes_back_and_ends() {
    let daemon = Daemon::start().await;
    let mut person = Person::sits_down(&daemon.home, &daemon.base, &["chat:1"]);
    person.is_attached("ctrl-] leaves").await;
    person.types("stty size; place=kept\r").await;
    person.sees("\r40 100\r\n").await;
    person.resizes(90, 30);
    let sandbox = daemon.sandbox("chat:1").await;
    until("the terminal has the window's size", || async {
        let terminals = daemon.client.terminals(&sandbox).await.unwrap().terminals;
        (terminals[0].cols, terminals[0].rows) == (90, 30)
    })
    .await;
    // Keys that would end or stop the program go to the sandbox.
    person.types("echo now-$((1 + 1)); sleep 1000\r").await;
    person.sees("now-2\r\n").await;
    until("it sleeps", || async { daemon.run(&sandbox, "pgrep -x sleep").await.exit_code == 0 }).await;
    person.types("\x03").await;
    // Bash turns bracketed paste on when it reads the next line.
    person.sees("\x1b[?2004h").await;
    person.types("stty size\r").await;
    person.sees("30 90\r\n").await;
    person.types("\x1d").await;
    assert_eq!(person.leaves().await, Some(0));
    person.sees("the terminal goes on").await;
    assert!(person.is_as_before());

    let mut person = Person::sits_down(&daemon.home, &daemon.base, &["chat:1"]);
    person.sees("30 90\r\n").await;
    person.types("echo it-is-$place; exit 7\r").await;
    person.sees("it-is-kept\r\n").await;
    assert_eq!(person.leaves().await, Some(7));
    assert!(person.is_as_before());
    let terminals = daemon.client.terminals(&sandbox).await.unwrap().terminals;
    assert_eq!((terminals.len(), terminals[0].state), (1, TerminalState::Ended));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_may_be_named_and_other_keys_may_leave() {
    let daemon = Daemon::start().await;
    let args = ["--detach-keys", "ctrl-p,ctrl-q", "chat:1", "--", "cat", "-A"];
    let mut person = Person::sits_down(&daemon.home, &daemon.base, &args);
    person.is_attached("ctrl-p,ctrl-q leaves").await;
    person.types("a\x10b\x1d\r").await;
    person.sees("a^Pb^]$\r\n").await;
    person.types("\x10\x11").await;
    assert_eq!(person.leaves().await, Some(0));

    // A program is never come back to: it gets another terminal.
    let mut person = Person::sits_down(&daemon.home, &daemon.base, &["chat:1", "--", "bash", "-c", "exit 9"]);
    assert_eq!(person.leaves().await, Some(9));
    let nothing = ["chat:1", "--", "no-such-program"];
    let mut person = Person::sits_down(&daemon.home, &daemon.base, &nothing);
    assert_eq!(person.leaves().await, Some(127));
    person.sees("no-such-program").await;
    assert!(person.is_as_before());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_waits_out_a_daemon_that_is_restarted() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let mut person = Person::sits_down(&home, &format!("http://127.0.0.1:{port}"), &["chat:1"]);
    person.sees("$ ").await;
    person.types("before=kept; echo here-$((1 + 1))\r").await;
    person.sees("here-2\r\n").await;
    daemon.kill().await;
    person.sees("waiting for the daemon").await;
    let daemon = DaemonProcess::start(&home, port).await;
    person.sees("here-2\r\n").await;
    person.types("echo $before-still\r").await;
    person.sees("kept-still\r\n").await;

    // A signal ends us, and not before the terminal is as it was.
    let ours = person.child.id().unwrap().cast_signed();
    let ours = std::fs::read_to_string(format!("/proc/{ours}/task/{ours}/children")).unwrap();
    let ours = ours
        .split_whitespace()
        .next()
        .map_or(person.child.id().unwrap().cast_signed(), |pid| pid.parse().unwrap());
    kill_process(Pid::from_raw(ours).unwrap(), Signal::TERM).unwrap();
    assert_eq!(person.leaves().await, Some(143));
    assert!(person.is_as_before());
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_it_says_what_to_use() {
    let daemon = Daemon::start().await;
    let output = daemon.home.program(&["shell", "--url", &daemon.base]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("not a terminal") && words.contains("sandboxd run"), "{words}");
    daemon.stop().await;
}
