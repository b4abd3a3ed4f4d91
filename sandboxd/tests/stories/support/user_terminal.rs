//! `sandboxd` on a real terminal, as a user has it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::time::timeout;

use crate::support::harness::{Home, SOON, until};

/// A terminal with the program on it.
pub(crate) struct UserTerminal {
    keyboard: pipe::Sender,
    screen: pipe::Receiver,
    /// The program's end of the terminal, which also shows its modes.
    terminal: OwnedFd,
    pub(crate) child: Child,
    seen: Vec<u8>,
    found: usize,
}

impl UserTerminal {
    pub(crate) fn start(home: &Home, args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap();
        let terminal = open(&path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        tcsetwinsize(&terminal, winsize(100, 40)).unwrap();
        let side = || Stdio::from(terminal.try_clone().unwrap());
        // In its own session, so that the terminal is its controlling terminal and sends it signals.
        let program = home.program(args);
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

    /// Waits for the program's message, and until all keys reach the sandbox.
    pub(crate) async fn wait_until_attached(&mut self, words: &str) {
        self.wait_for(words).await;
        // The message comes first. Until raw mode is on, keys like ctrl-C go to the program itself.
        until("the terminal is in raw mode", || async { !self.is_restored() }).await;
    }

    pub(crate) async fn type_keys(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).await.unwrap();
    }

    /// Waits until `text` is shown, after the last match.
    pub(crate) async fn wait_for(&mut self, text: &str) {
        let reported = |seen: &[u8]| String::from_utf8_lossy(seen).into_owned();
        loop {
            let new = &self.seen[self.found..];
            if let Some(at) = new.windows(text.len()).position(|part| part == text.as_bytes()) {
                self.found += at + text.len();
                return;
            }
            let read = timeout(SOON, self.screen.read_buf(&mut self.seen)).await;
            read.unwrap_or_else(|_| panic!("{text:?} is not shown: {:?}", reported(&self.seen))).unwrap();
        }
    }

    pub(crate) fn resize(&self, cols: u16, rows: u16) {
        tcsetwinsize(&self.terminal, winsize(cols, rows)).unwrap();
    }

    /// Waits for the program's end and returns its exit code.
    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        timeout(SOON, self.child.wait()).await.expect("the program does not end").unwrap().code()
    }

    /// Whether the terminal has the modes of a shell: echo, line editing and signals.
    pub(crate) fn is_restored(&self) -> bool {
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }
}

fn winsize(cols: u16, rows: u16) -> Winsize {
    Winsize { ws_col: cols, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}
