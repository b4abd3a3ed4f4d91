//! Credentials of a visitor that no server in a sandbox may receive: the daemon's token.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::support::harness::{Daemon, TOKEN, until};
use crate::support::visitor::{
    UrlParts, bare, links, raw, sandbox_with_port, seen_by_the_server, serve, url_parts, visit, visit_with,
};

#[tokio::test(flavor = "multi_thread")]
async fn no_server_in_a_sandbox_receives_the_daemons_token() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let answer = "socket.end('HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\nconnection: close\\r\\n\\r\\nok');";
    serve(&daemon, &sandbox, &bare(answer)).await;
    let [by_name, by_port] = links(&daemon, &sandbox).await;
    let followed = visit(&by_port).await;
    let key = followed.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let base = format!("http://{}/", url_parts(&by_port).host);
    let bearer = format!("bearer  {TOKEN}");
    let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("me:{TOKEN}")));
    let cookie = format!("{key}; own=1; t={TOKEN}");
    let carriers = [
        ("X-RemcoChat-Admin-Token", TOKEN),
        ("x_remcochat_admin_token", TOKEN),
        ("x-remcochat-admin-token", "of another daemon"),
        ("authorization", TOKEN),
        ("authorization", &bearer),
        ("authorization", &basic),
        ("cookie", &cookie),
        ("x-api-key", TOKEN),
    ];
    for url in [&by_name, &base] {
        for (name, value) in carriers {
            let more = [("cookie", key.as_str()), (name, value)];
            let headers = if name == "cookie" { &more[1..] } else { &more[..] };
            let seen = visit_with(url, headers).await;
            assert_eq!((seen.status, seen.body.as_str()), (200, "ok"), "{name} at {url}: {seen:?}");
        }
        let seen = visit_with(&format!("{url}a?token={TOKEN}"), &[("cookie", &key)]).await;
        assert_eq!(seen.status, 400, "{seen:?}");
        let UrlParts { host, port, path } = url_parts(url);
        let upgrade = format!(
            "GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {key}\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n\
             sec-websocket-protocol: {TOKEN}\r\nx-remcochat-admin-token: {TOKEN}\r\n\
             authorization: Bearer {TOKEN}\r\nx-marker: upgrade at {host}\r\n\r\n"
        );
        raw(port, upgrade.as_bytes()).await;
        let own = [("cookie", key.as_str()), ("authorization", "Bearer of-the-app")];
        assert_eq!(visit_with(url, &own).await.status, 200);
        // Once the last request is in the file, all requests over this link are.
        until("the server has recorded the request", || async {
            let seen = seen_by_the_server(&daemon, &sandbox).await;
            seen.contains(&format!("upgrade at {host}")) && seen.contains("Bearer of-the-app")
        })
        .await;
    }
    let seen = seen_by_the_server(&daemon, &sandbox).await.to_ascii_lowercase();
    let encoded = BASE64_STANDARD.encode(format!("me:{TOKEN}")).to_ascii_lowercase();
    for secret in [TOKEN, &encoded, "admin-token", "admin_token"] {
        assert!(!seen.contains(secret), "{secret}: {seen}");
    }
    assert_eq!(seen.matches("upgrade: websocket").count(), 2, "upgrades are forwarded: {seen}");
    assert_eq!(
        seen.matches("bearer of-the-app").count(),
        2,
        "the visitor's own credentials are forwarded: {seen}"
    );
    daemon.stop().await;
}
