//! Upgraded connections, such as WebSockets.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::service::{self, Link, PreviewActivity};

/// Resources of a connection. An upgraded connection keeps them, so that it counts against the limit of visitors until it
/// closes.
pub(super) struct Held {
    pub(super) _permit: Arc<OwnedSemaphorePermit>,
    /// Cancelled when the listener closes.
    pub(super) stopping: CancellationToken,
}

/// Carries bytes between a visitor and a server until either closes the connection, the link ends, or the listener closes.
pub(super) async fn carry(
    visitor: OnUpgrade,
    server: OnUpgrade,
    link: Arc<Link>,
    activity: PreviewActivity,
    held: Held,
) {
    let carried = async {
        let (visitor, server) = tokio::try_join!(visitor, server).map_err(io::Error::other)?;
        let visitor = Tracked { stream: TokioIo::new(visitor), activity };
        service::carry(visitor, TokioIo::new(server)).await
    };
    tokio::select! {
        carried = carried => {
            if let Err(error) = carried {
                debug!(%error, "an upgraded connection failed");
            }
        }
        () = link.ended() => {}
        () = held.stopping.cancelled() => {}
    }
}

/// Visitor's end of a connection. Data from the visitor counts as use of the sandbox. Data from the server does not, because
/// it may go to a page that was left open.
struct Tracked<S> {
    stream: S,
    activity: PreviewActivity,
}

impl<S: AsyncRead + Unpin> AsyncRead for Tracked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if polled.is_ready() {
            self.activity.touch();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tracked<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
