//! A visitor with a preview link, and servers in a sandbox.

use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;
use sandbox_api::port::{CreateLink, LinkStyle};
use sandbox_api::sandbox::CreateSandbox;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::harness::{Daemon, SOON, until};

/// The port on which these servers listen.
pub(crate) const PORT: u16 = 3000;

/// A sandbox that offers [`PORT`].
pub(crate) async fn sandbox_with_port(daemon: &Daemon, key: &str) -> SandboxId {
    let request =
        CreateSandbox { session_key: key.into(), ports: Some(vec![PORT.into()]), ..CreateSandbox::default() };
    daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id
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
        let request = CreateLink { style: Some(style), ttl_ms: None };
        daemon.client.create_link(sandbox, PORT, &request).await.unwrap().url
    };
    [link(LinkStyle::Host).await, link(LinkStyle::Port).await]
}

/// A Node HTTP server whose `answer` handles every request with `req` and `res`.
pub(crate) fn node(answer: &str) -> String {
    format!(
        "exec node -e \"require('http').createServer((req, res) => {{ {answer} }}).listen({PORT}, '127.0.0.1')\""
    )
}

/// A server without an HTTP library. It records incoming bytes in the file `seen`, and responds with what `answer` does
/// with `socket` and the `path`.
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

/// The bytes that the bare server has recorded.
pub(crate) async fn seen_by_the_server(daemon: &Daemon, sandbox: &SandboxId) -> String {
    String::from_utf8_lossy(&daemon.client.read_file(sandbox, "seen").await.unwrap().unwrap()).into_owned()
}

/// The link to [`PORT`] by name.
pub(crate) async fn link(daemon: &Daemon, sandbox: &SandboxId) -> String {
    daemon.client.find_port(sandbox, PORT).await.unwrap().url.unwrap()
}

/// The gateway's port for a URL, and the URL's host and path. The gateway is on this machine.
pub(crate) struct UrlParts {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
}

/// Takes a link's URL apart.
pub(crate) fn url_parts(url: &str) -> UrlParts {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let port = host.rsplit_once(':').unwrap().1.parse().unwrap();
    UrlParts { host: host.to_owned(), port, path: format!("/{path}") }
}

/// A response to a visitor.
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

/// Sends raw bytes to the gateway and reads until it closes the connection.
pub(crate) async fn raw(port: u16, bytes: &[u8]) -> Seen {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // A reset after the response does not matter.
    let _ =
        timeout(SOON, stream.read_to_end(&mut answer)).await.expect("the gateway keeps the connection open");
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Seen { status, head: head.to_owned(), body: body.to_owned() }
}

/// Visits a URL with additional headers.
pub(crate) async fn visit_with(url: &str, headers: &[(&str, &str)]) -> Seen {
    let UrlParts { host, port, path } = url_parts(url);
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    raw(port, format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}\r\n").as_bytes())
        .await
}

/// Visits a URL.
pub(crate) async fn visit(url: &str) -> Seen {
    visit_with(url, &[]).await
}
