//! Uploads, archives and the port proxy of the open-terminal API.

use std::io::Write;

use serde_json::json;

use super::open_terminal::{Chat, ok};
use crate::support::harness::{Daemon, until};
use crate::support::http::Answer;

/// A form with one field.
fn form(field: &str, name: &str, content: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let _ = write!(
        body,
        "--frontier\r\ncontent-disposition: form-data; name=\"{field}\"; filename=\"{name}\"\r\n\r\n"
    );
    body.extend_from_slice(content);
    body.extend_from_slice(b"\r\n--frontier--\r\n");
    body
}

async fn upload(chat: &Chat, directory: &str, body: Vec<u8>) -> Answer {
    let request = chat.request("POST", &format!("/files/upload?directory={directory}"));
    Answer::to(request.header("content-type", "multipart/form-data; boundary=frontier").body(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_uploads_and_downloads_files() {
    let daemon = Daemon::start().await;
    let chat = Chat::of(&daemon, "ann", "1");
    let large: Vec<u8> = (0..9_000_000_u32).map(|number| (number % 251) as u8).collect();
    let stored = ok(upload(&chat, "~/new/dir", form("file", "C:/x/large file.bin", &large)).await, "upload");
    let path = "/vercel/sandbox/workspace/new/dir/large file.bin";
    assert_eq!(stored, json!({ "path": path, "size": large.len() }));
    let back = chat.send("GET", &format!("/files/view?path={}", path.replace(' ', "%20"))).await;
    assert!(back.body == large && back.header("content-length") == large.len().to_string());
    // A field before the file is skipped.
    let mut two = form("note", "n", b"hello");
    two.truncate(two.len() - "--frontier--\r\n".len());
    two.extend(form("file", "a.txt", b"a\r\n--frontie"));
    assert_eq!(ok(upload(&chat, ".", two).await, "upload")["size"], 12);

    for (directory, body, status) in [
        ("/etc", form("file", "x", b"x"), 403),
        (".", form("file", "..", b"x"), 400),
        (".", form("other", "x", b"x"), 422),
        (".", b"--frontier\r\nbroken".to_vec(), 400),
        (".", form("other", "x", &vec![b'x'; 1024 * 1024]), 400),
        (".", [b"--frontier\r\nx: ".to_vec(), vec![b'y'; 1024 * 1024]].concat(), 400),
        // The file is not complete, so nothing is stored.
        (".", form("file", "cut", b"x")[..80].to_vec(), 400),
    ] {
        let refused = upload(&chat, directory, body).await;
        assert_eq!(refused.status, status, "{:?}", refused.json());
    }
    let plain = chat.request("POST", "/files/upload?directory=.").body("x");
    assert_eq!(Answer::to(plain).await.status, 415);
    assert_eq!(chat.output("ls").await, "a.txt\nnew\n");

    chat.output(
        "mkdir -p d/d/empty; echo one >d/d/d; echo two >d/d/empty/é; ln -s /etc d/d/link; mkfifo d/d/fifo",
    )
    .await;
    let archive = chat.post("/files/archive", &json!({ "paths": ["d/d", "a.txt"] })).await;
    assert_eq!((archive.status, archive.header("content-type")), (200, "application/zip"));
    assert_eq!(archive.header("content-disposition"), "attachment; filename=\"download.zip\"");
    // Python in the sandbox unpacks it.
    ok(upload(&chat, ".", form("file", "x.zip", &archive.body)).await, "upload");
    let listed = chat
        .output("python3 -m zipfile -e x.zip out && cd out && find . -type f | sort | xargs -d '\\n' head")
        .await;
    assert_eq!(listed, "==> ./a.txt <==\na\r\n--frontie\n==> ./d/d <==\none\n\n==> ./d/empty/é <==\ntwo\n");
    let single = chat.post("/files/archive", &json!({ "paths": ["a.txt"] })).await;
    assert_eq!(single.header("content-disposition"), "attachment; filename=\"a.txt.zip\"");
    for (paths, status) in [(json!([]), 400), (json!(["none"]), 404), (json!(["/etc"]), 403)] {
        assert_eq!(chat.post("/files/archive", &json!({ "paths": paths })).await.status, status, "{paths}");
    }
    daemon.stop().await;
}

/// Responds to any request with what it received.
const SERVER: &str = r#"cat >server.js <<'END'
require('http').createServer((req, res) => {
  const location = { '/back/': 'http://localhost:4321/c', '/away': 'http://192.0.2.1/' }[req.url];
  if (location) return res.writeHead(302, { location }).end();
  let body = '';
  req.on('data', (data) => body += data).on('end', () => {
    res.writeHead(req.url === '/missing' ? 404 : 200, { 'set-cookie': 'a=b', 'content-type': 'text/html',
      'content-security-policy': "default-src *", 'clear-site-data': '"*"', 'www-authenticate': 'Basic', 'x-own': '1' });
    res.end(JSON.stringify({ method: req.method, url: req.url, headers: req.headers, body }));
  });
}).listen(4321, '127.0.0.1');
END
exec node server.js"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_the_sandbox_is_shown() {
    let daemon = Daemon::start().await;
    let chat = Chat::of(&daemon, "ann", "1");
    assert_eq!(chat.send("GET", "/proxy/4321/").await.status, 404, "without a sandbox");
    chat.posted("/execute", json!({ "command": SERVER })).await;
    let is_up = async || {
        chat.get("/ports").await["ports"].as_array().unwrap().iter().any(|port| port["port"] == 4321)
    };
    until("the server listens", is_up).await;
    let request = chat.request("POST", "/proxy/4321/a%2Fb:c?d=e%20f").body("posted");
    let request = request.header("cookie", "secret=1").header("x-own", "kept");
    let answer = Answer::to(request.header("x-forwarded-for", "192.0.2.1")).await;
    let seen = ok_page(&answer);
    assert_eq!(
        (&seen["method"], &seen["url"], &seen["body"]),
        (&"POST".into(), &"/a%2Fb:c?d=e%20f".into(), &"posted".into())
    );
    let headers = seen["headers"].as_object().unwrap();
    assert_eq!((&headers["host"], &headers["x-own"]), (&"localhost:4321".into(), &"kept".into()));
    let secrets = ["authorization", "cookie", "x-user-id", "x-session-id", "x-remcochat-admin-token"];
    for secret in secrets.into_iter().chain(["x-forwarded-for"]) {
        assert!(!headers.contains_key(secret), "{secret}");
    }
    assert_eq!(answer.header("x-own"), "1");
    for removed in ["set-cookie", "clear-site-data", "www-authenticate"] {
        assert_eq!(answer.header(removed), "", "{removed}");
    }
    for method in ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let answer = chat.send(method, "/proxy/4321").await;
        assert_eq!((&ok_page(&answer)["method"], &ok_page(&answer)["url"]), (&method.into(), &"/".into()));
    }
    let head = chat.send("HEAD", "/proxy/4321/").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(chat.send("GET", "/proxy/4321/missing").await.status, 404);
    assert_eq!(chat.send("GET", "/proxy/4322/").await.status, 502);
    // The client follows redirects, as Open WebUI's does.
    let back = chat.send("GET", "/proxy/4321/back/").await;
    assert_eq!(ok_page(&back)["url"], "/c");
    let away = chat.send("GET", "/proxy/4321/away").await;
    assert_eq!((away.status, away.header("location")), (502, ""));
    for wrong in ["/proxy/0/", "/proxy/65536/", "/proxy/x/"] {
        assert_eq!(chat.send("GET", wrong).await.status, 422, "{wrong}");
    }
    let bob = Chat::of(&daemon, "bob", "1");
    assert_eq!(bob.send("GET", "/proxy/4321/").await.status, 404);
    daemon.stop().await;
}

#[track_caller]
fn ok_page(answer: &Answer) -> serde_json::Value {
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    assert_eq!(answer.header("content-security-policy"), "sandbox allow-scripts");
    answer.json()
}
