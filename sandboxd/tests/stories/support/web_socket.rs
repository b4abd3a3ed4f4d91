//! A WebSocket through a preview, and a server in a sandbox that echoes.

use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::support::visitor::{UrlParts, url_parts};

pub(crate) type Socket = tokio_tungstenite::WebSocketStream<TcpStream>;

pub(crate) async fn web_socket(url: &str) -> Socket {
    let UrlParts { host, port, .. } = url_parts(url);
    let mut request = format!("ws://{host}/").into_client_request().unwrap();
    request.headers_mut().insert("origin", format!("http://{host}").parse().unwrap());
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    client_async(request, stream).await.unwrap().0
}

/// Echoes short text frames (RFC 6455) to pages of its own origin.
pub(crate) const ECHO: &str = r#"cat >echo.js <<'END'
const { createHash } = require('crypto');
const server = require('http').createServer((req, res) => res.end('a page'));
server.on('upgrade', (req, socket) => {
  if (req.headers.origin !== 'http://localhost:3000') return socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  const key = req.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = createHash('sha1').update(key).digest('base64');
  socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ' + accept + '\r\n\r\n');
  socket.on('data', (frame) => {
    let length = frame[1] & 127, at = 2;
    if (length === 126) { length = frame.readUInt16BE(2); at = 4; }
    const mask = frame.subarray(at, at + 4), data = frame.subarray(at + 4, at + 4 + length);
    for (let i = 0; i < data.length; i++) data[i] ^= mask[i % 4];
    const head = length < 126 ? Buffer.from([0x81, length]) : Buffer.from([0x81, 126, length >> 8, length & 255]);
    socket.write(Buffer.concat([head, data]));
  });
  socket.on('error', () => {});
});
server.listen(3000, '127.0.0.1');
END
exec node echo.js"#;
