//! Copies bytes between a process of a sandbox and a host.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::handshake::{self, Verdict};
use super::inspect::{self, Mismatch, Protocol};
use super::one_way::one_way;
use super::{Broken, Expected, Meter, RemoteEndpoint, other, web};
use sandboxd_metrics::Direction;
use sandboxd_model::limits;

/// Copies until both directions have ended, or one end breaks, which breaks the other. With `expected`, everything
/// sent must be for that host. Dropping the future breaks both ends.
pub async fn carry<N: AsyncRead + AsyncWrite + Unpin>(
    near: N,
    mut far: RemoteEndpoint,
    expected: Option<&Expected>,
    meter: &Meter,
) -> Result<(), Broken> {
    let carried = async {
        match expected {
            None => raw(split(near), Bytes::new(), &mut far, meter).await,
            Some(expected) => checked(near, &mut far, expected, meter).await,
        }
    };
    tokio::select! {
        biased;
        () = meter.over() => return Err(Broken::Spent),
        carried = carried => carried?,
        () = meter.silent() => return Err(Broken::Silent),
    }
    far.finish();
    Ok(())
}

async fn checked<N: AsyncRead + AsyncWrite + Unpin>(
    mut near: N,
    far: &mut RemoteEndpoint,
    expected: &Expected,
    meter: &Meter,
) -> Result<(), Broken> {
    let mut read = BytesMut::with_capacity(limits::EGRESS_PART_BYTES);
    let looked = if expected.may_be_spoken_to() {
        tokio::select! {
            spoken = server_speaks(far) => spoken,
            looked = expected.look(&mut near, &mut read) => looked,
        }
    } else {
        expected.look(&mut near, &mut read).await
    };
    match looked? {
        Protocol::Opaque => raw(split(near), read.freeze(), far, meter).await,
        Protocol::Other => other(split(near), read, far, meter).await,
        Protocol::Tls { hello } => tls(split(near), (read, hello), far, expected, meter).await,
        Protocol::Http => web::serve(near, read.freeze(), far, expected, meter).await,
    }
}

/// Returns when the server speaks first or closes the connection.
async fn server_speaks(far: &RemoteEndpoint) -> Result<Protocol, Mismatch> {
    let mut first = [0; 9];
    let is_http = if far.early.is_empty() {
        // The next read reports how the connection ended.
        let length = far.stream.peek(&mut first).await.unwrap_or_default();
        inspect::is_http_server(&first[..length])
    } else {
        inspect::is_http_server(&far.early)
    };
    if is_http { Err(Mismatch) } else { Ok(Protocol::Opaque) }
}

async fn other<N: AsyncRead + AsyncWrite>(
    (near_reads, near_writes): (ReadHalf<N>, WriteHalf<N>),
    read: BytesMut,
    far: &mut RemoteEndpoint,
    meter: &Meter,
) -> Result<(), Broken> {
    let early = std::mem::take(&mut far.early);
    let (far_reads, far_writes) = TcpStream::split(&mut far.stream);
    let far_reads = AsyncReadExt::chain(&early[..], far_reads);
    let (answered, has_answered) = watch::channel(false);
    tokio::try_join!(
        other::from_client(near_reads, far_writes, read, has_answered, meter),
        other::from_server(far_reads, near_writes, answered, meter),
    )?;
    Ok(())
}

async fn tls<N: AsyncRead + AsyncWrite>(
    (near_reads, near_writes): (ReadHalf<N>, WriteHalf<N>),
    read: (BytesMut, usize),
    far: &mut RemoteEndpoint,
    expected: &Expected,
    meter: &Meter,
) -> Result<(), Broken> {
    let early = std::mem::take(&mut far.early);
    let (far_reads, far_writes) = TcpStream::split(&mut far.stream);
    let far_reads = AsyncReadExt::chain(&early[..], far_reads);
    let (verdict, heard) = watch::channel(Verdict::default());
    tokio::try_join!(
        handshake::from_client(near_reads, far_writes, read, expected, (heard, meter)),
        handshake::from_server(far_reads, near_writes, verdict, meter),
    )?;
    Ok(())
}

async fn raw<N: AsyncRead + AsyncWrite>(
    (near_reads, near_writes): (ReadHalf<N>, WriteHalf<N>),
    head: Bytes,
    far: &mut RemoteEndpoint,
    meter: &Meter,
) -> Result<(), Broken> {
    let early = std::mem::take(&mut far.early);
    let (far_reads, far_writes) = TcpStream::split(&mut far.stream);
    tokio::try_join!(
        one_way(AsyncReadExt::chain(&head[..], near_reads), far_writes, Direction::Out, meter),
        one_way(AsyncReadExt::chain(&early[..], far_reads), near_writes, Direction::In, meter),
    )?;
    Ok(())
}
