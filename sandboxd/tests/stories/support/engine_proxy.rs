//! A proxy between a daemon and the engine that injects faults. One connection carries one request: the proxy asks the
//! engine to close after it. All other bytes are forwarded unchanged, also on hijacked connections.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const ENGINE: &str = "/var/run/docker.sock";

/// Longest head of a request that is read, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// A fault of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Accepts the request and does not respond until the fault is removed. Then it is carried out.
    Hang,
    /// Delays the request by this time.
    Delay(Duration),
    /// Closes the connection.
    Cut,
    /// Responds with 500.
    Fail,
    /// Responds with 200 and a body that is not JSON.
    Garbage,
}

/// The current faults. Waiting connections notice a change.
#[derive(Debug, Clone, Default)]
struct Rules {
    /// Faults for requests whose method and path contain the text.
    faults: Vec<(String, Fault)>,
    /// Nothing is forwarded on open connections.
    frozen: bool,
    /// Nothing is forwarded on connections whose request contains this text.
    unresponsive: Option<String>,
    /// Changes when every open connection is cut.
    cuts: u64,
    /// Open connections are cut once if their request contains one of these texts.
    closed: Vec<String>,
}

impl Rules {
    fn holds_back(&self, request: &str) -> bool {
        self.frozen || self.unresponsive.as_ref().is_some_and(|text| request.contains(text))
    }

    fn fault_of(&self, request: &str) -> Option<Fault> {
        self.faults.iter().find(|(text, _)| request.contains(text)).map(|(_, fault)| *fault)
    }
}

/// A socket that leads to the engine.
pub(crate) struct EngineProxy {
    dir: TempDir,
    rules: watch::Sender<Rules>,
    listening: Mutex<Option<JoinHandle<()>>>,
}

impl EngineProxy {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let proxy = Self { dir, rules: watch::Sender::default(), listening: Mutex::default() };
        proxy.listen();
        proxy
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("engine.sock")
    }

    fn listen(&self) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let task = tokio::spawn(accept(listener, self.rules.clone()));
        *self.listening.lock().unwrap() = Some(task);
    }

    /// Adds a fault for later requests whose first line contains the text.
    pub(crate) fn set(&self, text: &str, fault: Fault) {
        self.rules.send_modify(|rules| rules.faults.push((text.to_owned(), fault)));
    }

    /// Stops forwarding on all connections, including open ones, without closing them.
    pub(crate) fn freeze(&self) {
        self.rules.send_modify(|rules| {
            rules.frozen = true;
            rules.faults = vec![(String::new(), Fault::Hang)];
        });
    }

    /// Stops forwarding on connections whose first request contains the text, without closing them.
    pub(crate) fn silence(&self, text: &str) {
        self.rules.send_modify(|rules| rules.unresponsive = Some(text.to_owned()));
    }

    /// Closes open connections whose request contains the text. Later ones work.
    pub(crate) fn close_connections(&self, text: &str) {
        self.rules.send_modify(|rules| rules.closed.push(text.to_owned()));
    }

    /// Removes all faults.
    pub(crate) fn clear_faults(&self) {
        self.rules.send_modify(|rules| {
            rules.unresponsive = None;
            rules.frozen = false;
            rules.faults.clear();
        });
    }

    /// Stops the engine: its socket and all connections are gone.
    pub(crate) fn stop(&self) {
        self.listening.lock().unwrap().take().unwrap().abort();
        std::fs::remove_file(self.socket()).unwrap();
        self.rules.send_modify(|rules| rules.cuts += 1);
    }

    /// Starts the engine again.
    pub(crate) fn start_again(&self) {
        self.listen();
    }
}

async fn accept(listener: UnixListener, rules: watch::Sender<Rules>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let rules = rules.clone();
        tokio::spawn(async move {
            let mut changes = rules.subscribe();
            let cuts = changes.borrow().cuts;
            let cut = async move { drop(changes.wait_for(|rules| rules.cuts != cuts).await) };
            tokio::select! {
                () = cut => {}
                // An error on a cut connection is ignored.
                _ = serve(stream, rules.subscribe()) => {}
            }
        });
    }
}

async fn serve(mut client: UnixStream, mut rules: watch::Receiver<Rules>) -> std::io::Result<()> {
    let (line, request) = read_request(&mut client).await?;
    let mut closed = rules.clone();
    let before = closed.borrow().closed.len();
    let is_meant = |rules: &Rules| rules.closed[before..].iter().any(|text| line.contains(text));
    let closed = async move { drop(closed.wait_for(is_meant).await) };
    tokio::select! {
        () = closed => Ok(()),
        served = carry(&mut client, &line, &request, &mut rules) => served,
    }
}

async fn carry(
    client: &mut UnixStream,
    line: &str,
    request: &[u8],
    rules: &mut watch::Receiver<Rules>,
) -> std::io::Result<()> {
    let fault = rules.borrow().fault_of(line);
    match fault {
        None => {}
        Some(Fault::Cut) => return Ok(()),
        Some(Fault::Fail) => {
            let answer = "HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/json\r\n\
                          content-length: 26\r\nconnection: close\r\n\r\n{\"message\":\"it is broken\"}";
            return client.write_all(answer.as_bytes()).await;
        }
        Some(Fault::Garbage) => {
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                          content-length: 15\r\nconnection: close\r\n\r\n<html>it is off";
            return client.write_all(answer.as_bytes()).await;
        }
        Some(Fault::Delay(time)) => sleep(time).await,
        Some(Fault::Hang) => {
            let over = rules.wait_for(|rules| rules.fault_of(line) != Some(Fault::Hang));
            drop(over.await);
        }
    }
    let mut engine = UnixStream::connect(Path::new(ENGINE)).await?;
    engine.write_all(request).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_engine, mut to_engine) = engine.split();
    let there = pass(&mut from_client, &mut to_engine, rules.clone(), line);
    let back = pass(&mut from_engine, &mut to_client, rules.clone(), line);
    tokio::try_join!(there, back).map(drop)
}

/// Forwards bytes unless they are held back.
async fn pass(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    mut rules: watch::Receiver<Rules>,
    line: &str,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        drop(rules.wait_for(|rules| !rules.holds_back(line)).await);
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}

/// Reads a request's head, and its body if its length is known. Returns its first line and all of its bytes, with a
/// header that closes the connection after the response.
async fn read_request(client: &mut UnixStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 2;
        }
        if bytes.len() > MAX_HEAD_BYTES || client.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
    let length =
        text.split("\r\n").find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    while bytes.len() < head + 2 + length.unwrap_or(0) {
        if client.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    if !text.contains("\r\nconnection:") {
        bytes.splice(head..head, b"connection: close\r\n".iter().copied());
    }
    let line = String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().to_owned();
    Ok((line, bytes))
}
