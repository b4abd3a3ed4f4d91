//! Proxies between the page, the chat server and its backends, which a story in the browser can disconnect and
//! reconnect. While one is disconnected, connections break and new ones are refused.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use http::StatusCode;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// A proxy to a server. Dropping it disconnects it.
pub(crate) struct Cable {
    address: SocketAddr,
    target: SocketAddr,
    other: SocketAddr,
    carrying: Option<JoinSet<()>>,
}

impl Cable {
    /// A connected proxy to a URL's server.
    pub(crate) async fn to(base: &str) -> Self {
        let target = address_of(base);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { address, target, other: target, carrying: Some(carry(listener, target)) }
    }

    /// Its own URL.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets another server that it can be connected to.
    pub(crate) fn or(self, base: &str) -> Self {
        Self { other: address_of(base), ..self }
    }

    async fn pull(&mut self) {
        if let Some(mut carrying) = self.carrying.take() {
            carrying.shutdown().await;
        }
    }

    async fn put_into(&mut self, target: SocketAddr) {
        self.pull().await;
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.carrying = Some(carry(listener, target));
    }
}

fn address_of(base: &str) -> SocketAddr {
    let url: url::Url = base.parse().unwrap();
    url.socket_addrs(|| None).unwrap()[0]
}

fn carry(listener: TcpListener, target: SocketAddr) -> JoinSet<()> {
    let mut carrying = JoinSet::new();
    carrying.spawn(async move {
        // All connections are dropped with this task, so aborting it breaks them.
        let mut connections = JoinSet::new();
        while let Ok((mut near, _)) = listener.accept().await {
            connections.spawn(async move {
                if let Ok(mut far) = TcpStream::connect(target).await {
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                }
            });
            while connections.try_join_next().is_some() {}
        }
    });
    carrying
}

type Cables = Arc<HashMap<&'static str, Mutex<Cable>>>;

/// Serves `POST /<cable>/out`, `/<cable>/in` and `/<cable>/other`. Returns its URL.
pub(crate) async fn board(cables: impl IntoIterator<Item = (&'static str, Cable)>) -> String {
    let cables: Cables =
        Arc::new(cables.into_iter().map(|(name, cable)| (name, Mutex::new(cable))).collect());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/{cable}/{way}", post(turn)).with_state(cables);
    tokio::spawn(axum::serve(listener, router).into_future());
    base
}

async fn turn(State(cables): State<Cables>, Path((cable, way)): Path<(String, String)>) -> StatusCode {
    let Some(cable) = cables.get(cable.as_str()) else { return StatusCode::NOT_FOUND };
    let mut cable = cable.lock().await;
    match way.as_str() {
        "out" => cable.pull().await,
        "in" => {
            let target = cable.target;
            cable.put_into(target).await;
        }
        "other" => {
            let other = cable.other;
            cable.put_into(other).await;
        }
        _ => return StatusCode::NOT_FOUND,
    }
    StatusCode::NO_CONTENT
}
