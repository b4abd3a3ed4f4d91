//! The gate and connections through it, on this machine's loopback. The operator's settings open it where a test must
//! get through.

mod ends;
mod gate;
mod other;
mod tls;
mod web;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};

use super::{Broken, Budget, Expected, Meter, RemoteEndpoint, Tally, carry};
use sandboxd_metrics::Metrics;
use sandboxd_model::Host;

const SOON: Duration = Duration::from_secs(10);

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

type Carrying = tokio::task::JoinHandle<Result<(), Broken>>;

/// A client's end, a server's end, and the result of the copying.
async fn carried(
    expected: Option<Expected>,
    max: Option<u64>,
    silence: Duration,
) -> (DuplexStream, TcpStream, Carrying) {
    let (client, near) = duplex(1 << 16);
    let meter =
        Meter::new(Arc::new(Tally::new(Arc::new(Metrics::new()), max, Arc::new(Budget::new(None)))), silence);
    let (server, carrying) = carried_from(near, expected, meter).await;
    (client, server, carrying)
}

async fn carried_from(
    near: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    expected: Option<Expected>,
    meter: Meter,
) -> (TcpStream, Carrying) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let far = RemoteEndpoint::new(stream, bytes::Bytes::new());
    (server, tokio::spawn(async move { carry(near, far, expected.as_ref(), &meter).await }))
}

fn web(name: &str) -> Option<Expected> {
    Some(Expected { host: host(name), port: 80 })
}
