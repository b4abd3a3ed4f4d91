//! The agent's proxy on the sandbox's loopback: the only way to the outside that a sandbox has.
//!
//! One listener speaks SOCKS5 and HTTP, told apart by the first byte. It decides nothing: each connection that is asked
//! for goes to sandboxd by the [`Desk`]. Whoever talks to it is hostile code of this sandbox, so clients are counted, and
//! heads and waits are bounded; a client of one's own can only be slow for oneself.

mod http;
mod socks;
mod upstream;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use agent_protocol::MAX_OUTWARD_TUNNELS;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::carry::Socket;
use super::desk::Desk;
use crate::limits::ACCEPT_PAUSE;

/// The first byte of SOCKS5 (RFC 1928, section 3). No request of HTTP begins with it.
const SOCKS_5: u8 = 5;

/// The listeners.
#[derive(Debug)]
pub(crate) struct Proxy {
    listeners: Vec<TcpListener>,
    desk: Arc<Desk>,
}

impl Proxy {
    /// Takes the port, on IPv6 as well where the sandbox has it. Must come before the first command, which could take
    /// it instead.
    pub(crate) async fn bind(port: u16, desk: Arc<Desk>) -> io::Result<Self> {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = first.local_addr()?.port();
        let second = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await.ok();
        Ok(Self { listeners: std::iter::once(first).chain(second).collect(), desk })
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Serves for ever.
    pub(crate) fn start(self) {
        let places = Arc::new(Semaphore::new(MAX_OUTWARD_TUNNELS));
        for listener in self.listeners {
            tokio::spawn(accept(listener, Arc::clone(&self.desk), Arc::clone(&places)));
        }
    }
}

async fn accept(listener: TcpListener, desk: Arc<Desk>, places: Arc<Semaphore>) {
    // Whoever finds no place waits in the kernel's queue.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(Client { stream, _place: place }, Arc::clone(&desk)));
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve(client: Client, desk: Arc<Desk>) {
    let mut first = [0];
    match timeout(desk.patience.head, client.stream.peek(&mut first)).await {
        Ok(Ok(1)) if first == [SOCKS_5] => socks::serve(client, &desk).await,
        Ok(Ok(1)) => http::serve(client, desk).await,
        _ => {}
    }
}

/// A client's connection, with its place among them.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl Socket for Client {
    fn reset(&mut self) {
        self.stream.reset();
    }
}

impl AsyncRead for Client {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
