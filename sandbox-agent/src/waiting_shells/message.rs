//! The messages to a template and to a waiting shell. The reader is `preload.c`.
//!
//! A template gets the mark of the shell that it forks, as a number of 64 bits, and beside it the shell's socket. The shell
//! sends `1` when it waits, or the template sends `0` if there is no room for it. The shell becomes a command when it gets a
//! header of two numbers of 32 bits, the length of the arguments in bytes and the number of entries of the environment, then
//! the arguments, then the entries, each with its final NUL. Beside it go the standard streams and the directory. All numbers
//! have the machine's byte order.

use std::ffi::CString;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::Pid;

/// Maximum length, as in `preload.c`. Most commands are far shorter.
const MAX_BYTES: usize = 96 * 1024;

/// Maximum number of entries of the environment, as in `preload.c`.
const MAX_ENTRIES: usize = 2048;

/// What a shell sends when it waits, as in `preload.c`.
const WAITS: u8 = b'1';

/// What the template sends if there is no room for the shell, as in `preload.c`.
const NO_ROOM: u8 = b'0';

/// Number of arguments: the name of the shell, an option and a script.
pub(super) const ARGUMENTS: usize = 3;

/// Asks the template for a shell with this mark. Does not wait.
pub(super) fn request_shell(
    template: BorrowedFd<'_>,
    mark: u64,
    of_shell: BorrowedFd<'_>,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    send(template, &mark.to_ne_bytes(), &[of_shell], &mut space)
}

/// Waits until a shell says that it waits, and returns its process id as the kernel knows it. Fails with `EAGAIN` if there was
/// no room for it, and with `ETIMEDOUT` if nothing comes in time.
pub(super) fn receive_pid(shell: BorrowedFd<'_>, limit: Duration) -> Result<Pid, Errno> {
    let until = Instant::now() + limit;
    let mut awaited = [PollFd::from_borrowed_fd(shell, PollFlags::IN)];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut awaited, Some(&left)) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Ok(_) => break,
            // Signals tell that other commands have ended. Commands can send them too.
            Err(Errno::INTR) if Instant::now() < until => {}
            Err(Errno::INTR) => return Err(Errno::TIMEDOUT),
            Err(error) => return Err(error),
        }
    }
    let (mut said, mut space) = ([0; 1], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))]);
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut said)];
    let received = recvmsg(shell, parts, &mut control, RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC)?;
    let pid = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid),
        _ => None,
    });
    match (received.bytes, said) {
        (1, [WAITS]) => pid.ok_or(Errno::PIPE),
        (1, [NO_ROOM]) => Err(Errno::AGAIN),
        _ => Err(Errno::PIPE),
    }
}

/// A command.
#[derive(Debug)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Returns `None` if it would be too long, or has another number of arguments.
    pub(super) fn new(argv: &[CString], envp: &[CString]) -> Option<Self> {
        let length =
            |strings: &[CString]| strings.iter().map(|string| string.count_bytes() + 1).sum::<usize>();
        let (arguments, entries) = (length(argv), length(envp));
        let whole = 2 * size_of::<u32>() + arguments + entries;
        if argv.len() != ARGUMENTS || envp.len() > MAX_ENTRIES || whole > MAX_BYTES {
            return None;
        }
        let mut bytes = Vec::with_capacity(whole);
        for number in [arguments, envp.len()] {
            bytes.extend(u32::try_from(number).ok()?.to_ne_bytes());
        }
        for string in argv.iter().chain(envp) {
            bytes.extend(string.as_bytes_with_nul());
        }
        Some(Self(bytes))
    }

    /// Sends it as a whole, without waiting.
    pub(super) fn send(
        &self,
        socket: BorrowedFd<'_>,
        [stdin, stdout, stderr]: [BorrowedFd<'_>; 3],
        cwd: BorrowedFd<'_>,
    ) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        send(socket, &self.0, &[stdin, stdout, stderr, cwd], &mut space)
    }
}

fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    space: &mut [MaybeUninit<u8>],
) -> Result<(), Errno> {
    let mut control = SendAncillaryBuffer::new(space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(texts: &[&str]) -> Vec<CString> {
        texts.iter().map(|text| CString::new(*text).unwrap()).collect()
    }

    #[test]
    fn it_has_the_lengths_and_then_the_strings() {
        let message = Message::new(&strings(&["bash", "-c", "true"]), &strings(&["A=1", "B="])).unwrap();
        let (header, text) = message.0.split_at(8);
        assert_eq!(header, [13_u32.to_ne_bytes(), 2_u32.to_ne_bytes()].concat());
        assert_eq!(text, b"bash\0-c\0true\0A=1\0B=\0");
    }

    #[test]
    fn a_long_one_does_not_exist() {
        let long = "x".repeat(MAX_BYTES);
        assert!(Message::new(&strings(&["bash", "-c", &long]), &[]).is_none());
        assert!(Message::new(&strings(&["bash", "-c"]), &[]).is_none());
        assert!(
            Message::new(&strings(&["bash", "-c", ""]), &strings(&vec!["A="; MAX_ENTRIES + 1])).is_none()
        );
    }
}
