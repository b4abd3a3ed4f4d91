//! Foreign processes that connect to an agent's socket.

use std::io::{ErrorKind, IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream as StdUnix;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::time::Instant;

use super::*;

/// Time that the kernel takes to close the foreign process's last descriptor. No other work may wait for it.
const LINGER: Duration = Duration::from_secs(30);
const PROMPT: Duration = Duration::from_secs(10);

/// A socket with more data in flight than its peer reads, and that peer.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let other = listener.accept().unwrap().0;
    one.set_nonblocking(true).unwrap();
    while !matches!(one.write(&[0; 64 * 1024]), Err(error) if error.kind() == ErrorKind::WouldBlock) {}
    set_socket_linger(&one, Some(LINGER)).unwrap();
    (one, other)
}

/// Sends data with a descriptor. Returns whether the kernel permits it.
fn send_with(stream: &StdUnix, words: &[u8], descriptor: BorrowedFd<'_>) -> bool {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(stream, &[IoSlice::new(words)], &mut control, SendFlags::NOSIGNAL).is_ok()
}

/// The test's runtime has one thread, so a task that waits in the kernel would stop everything else.
#[tokio::test]
async fn a_foreign_descriptor_delays_only_its_own_listener() {
    for (peer, words) in [
        (Peer::Pid(1), &b"never read"[..]),
        (Peer::Unknown, b"sandbox-agent 1 wrong\n"),
        (Peer::Unknown, &[b'x'; 1000]),
        (Peer::Pending, b"x"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (peers, watched) = watch::channel(peer);
        let agent = AgentHandle::listen(dir.path(), "right".into(), watched).unwrap();
        let path = dir.path().join(SOCKET_NAME);
        let (socket, _unread) = lingering();
        let began = Instant::now();
        let stranger = StdUnix::connect(&path).unwrap();
        let is_sent = send_with(&stranger, words, socket.as_fd());
        drop((socket, stranger));
        if is_sent {
            // Meanwhile the listener drops the connection and its descriptor, which blocks the listener's thread. The
            // test proves that this thread is not blocked.
            sleep(Duration::from_millis(500)).await;
        }
        drop((agent, peers));
        sleep(Duration::from_millis(50)).await;
        assert!(began.elapsed() < PROMPT, "{peer:?} {:?}", began.elapsed());
    }
}
