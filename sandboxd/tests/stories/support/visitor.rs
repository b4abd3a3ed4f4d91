//! Somebody who has a link to a preview, and a server in a sandbox to visit.

use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;
use sandbox_api::port::{CreateLink, LinkStyle};
use sandbox_api::sandbox::CreateSandbox;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::harness::{Daemon, SOON, until};

/// The port that servers of these stories listen on.
pub(crate) const PORT: u16 = 3000;

/// A sandbox that may offer [`PORT`].
pub(crate) async fn sandbox_with_port(daemon: &Daemon, key: &str) -> SandboxId {
    let wish =
        CreateSandbox { session_key: key.into(), ports: Some(vec![PORT.into()]), ..CreateSandbox::default() };
    daemon.client.create_or_reconnect(&wish).await.unwrap().sandbox_id
}

/// Starts a server in a sandbox and waits until it listens.
pub(crate) async fn serve(daemon: &Daemon, sandbox: &SandboxId, script: &str) {
    let start = StartCommand {
        script: Some(script.into()),
        detached: Some(true),
        timeout_ms: Some(300_000),
        ..StartCommand::default()
    };
    daemon.client.start(sandbox, &start).await.unwrap();
    until("the server listens", || async {
        let ports = daemon.client.ports(sandbox).await.unwrap();
        ports.listening.iter().any(|listening| listening.port == PORT)
    })
    .await;
}

/// A link of each style to [`PORT`]: by name and by port.
pub(crate) async fn links(daemon: &Daemon, sandbox: &SandboxId) -> [String; 2] {
    let link = async |style| {
        let wish = CreateLink { style: Some(style), ttl_ms: None };
        daemon.client.create_link(sandbox, PORT, &wish).await.unwrap().url
    };
    [link(LinkStyle::Host).await, link(LinkStyle::Port).await]
}

/// Node's own server, answering every request with what `answer` does with `req` and `res`.
pub(crate) fn node(answer: &str) -> String {
    format!(
        "exec node -e \"require('http').createServer((req, res) => {{ {answer} }}).listen({PORT}, '127.0.0.1')\""
    )
}

/// A server without any library between it and the bytes. What comes in is noted in the file `seen`; by the path it is
/// answered with what `answer` does with `socket`.
pub(crate) fn bare(answer: &str) -> String {
    format!(
        "cat >bare.js <<'END'
const fs = require('fs');
require('net').createServer((socket) => {{
  let asked = false;
  socket.on('error', () => {{}});
  socket.on('data', (data) => {{
    fs.appendFileSync('seen', data);
    if (asked) return;
    asked = true;
    const path = String(data).split(' ')[1];
    {answer}
  }});
}}).listen({PORT}, '127.0.0.1');
END
: >seen
exec node bare.js"
    )
}

/// What the bare server has noted.
pub(crate) async fn seen_by_the_server(daemon: &Daemon, sandbox: &SandboxId) -> String {
    String::from_utf8_lossy(&daemon.client.read_file(sandbox, "seen").await.unwrap().unwrap()).into_owned()
}

/// The link to [`PORT`] by name.
pub(crate) async fn link(daemon: &Daemon, sandbox: &SandboxId) -> String {
    daemon.client.find_port(sandbox, PORT).await.unwrap().url.unwrap()
}

/// Where a URL's host is, whatever name it has: the gateway is on this machine.
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
}

/// Takes a link's URL apart.
pub(crate) fn place(url: &str) -> Place {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let port = host.rsplit_once(':').unwrap().1.parse().unwrap();
    Place { host: host.to_owned(), port, path: format!("/{path}") }
}

/// What a visitor was answered.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        lines
            .filter_map(|line| line.split_once(": "))
            .find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }
}

/// Sends bytes to the gateway as they are and reads until it hangs up.
pub(crate) async fn raw(port: u16, bytes: &[u8]) -> Seen {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // A reset after the answer changes nothing about it.
    let _ = timeout(SOON, stream.read_to_end(&mut answer)).await.expect("the gateway hangs up");
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Seen { status, head: head.to_owned(), body: body.to_owned() }
}

/// Visits a URL with more headers.
pub(crate) async fn visit_with(url: &str, headers: &[(&str, &str)]) -> Seen {
    let Place { host, port, path } = place(url);
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    raw(port, format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}\r\n").as_bytes())
        .await
}

/// Visits a URL.
pub(crate) async fn visit(url: &str) -> Seen {
    visit_with(url, &[]).await
}
