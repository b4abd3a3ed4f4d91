//! Preview links: a visitor with a link sees the server in the sandbox and nothing else.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use sandbox_api::ErrorCode;
use sandbox_api::port::{CreateLink, LinkStyle};
use sandbox_api::sandbox::CreateSandbox;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::support::harness::{Daemon, Home, LINK_PORTS, SOON, over_each_transport, until};
use crate::support::visitor::{
    PORT, UrlParts, node, raw, sandbox_with_port, serve, url_parts, visit, visit_with,
};
use crate::support::web_socket::{ECHO, web_socket};

over_each_transport!(
    a_server_sees_a_visit_as_a_local_request,
    a_visitor_waits_for_the_server_to_listen,
    large_bodies_are_forwarded_both_ways,
    a_websocket_is_forwarded,
);

async fn a_server_sees_a_visit_as_a_local_request(daemon: &Daemon) {
    let sandbox = sandbox_with_port(daemon, "chat:1").await;
    serve(daemon, &sandbox, &node("res.end(JSON.stringify({url: req.url, headers: req.headers}))")).await;
    let found = daemon.client.find_port(&sandbox, PORT).await.unwrap();
    let url = found.url.unwrap();
    assert!(url.starts_with("http://3000-") && url.contains(".localhost:"), "{url}");
    assert_eq!(
        daemon.client.find_port(&sandbox, PORT).await.unwrap().url,
        Some(url.clone()),
        "the same link for a second request"
    );
    let UrlParts { host, .. } = url_parts(&url);
    let origin = format!("http://{host}");
    let seen = visit_with(&format!("{url}a/b?c=d"), &[("origin", &origin), ("cookie", "own=1")]).await;
    assert_eq!(seen.status, 200, "{seen:?}");
    let reported: serde_json::Value = serde_json::from_str(&seen.body).unwrap();
    assert_eq!(reported["url"], "/a/b?c=d");
    assert_eq!(reported["headers"]["host"], "localhost:3000");
    assert_eq!(reported["headers"]["origin"], "http://localhost:3000");
    assert_eq!(reported["headers"]["x-forwarded-host"], "localhost:3000", "the same as in its origin");
    let person: serde_json::Value = serde_json::from_str(&visit(&url).await.body).unwrap();
    assert_eq!(person["headers"]["x-forwarded-host"], host);
    assert_eq!(reported["headers"]["x-forwarded-for"], "127.0.0.1");
    assert_eq!(reported["headers"]["cookie"], "own=1", "a preview host has its own cookies");
    assert_eq!(seen.header("referrer-policy"), Some("same-origin"));
}

async fn a_visitor_waits_for_the_server_to_listen(daemon: &Daemon) {
    let sandbox = sandbox_with_port(daemon, "chat:1").await;
    let url = daemon.client.find_port(&sandbox, PORT).await.unwrap().url.unwrap();
    let seen = visit_with(&url, &[("accept", "text/html")]).await;
    assert_eq!((seen.status, seen.header("retry-after")), (503, Some("1")), "{seen:?}");
    assert!(seen.body.contains("location.reload"), "{}", seen.body);
    serve(daemon, &sandbox, &node("res.end('here I am')")).await;
    assert_eq!(visit(&url).await.body, "here I am");
}

async fn large_bodies_are_forwarded_both_ways(daemon: &Daemon) {
    let sandbox = sandbox_with_port(daemon, "chat:1").await;
    serve(
        daemon,
        &sandbox,
        &node("res.writeHead(200, {'x-length': req.headers['content-length']}); req.pipe(res)"),
    )
    .await;
    let url = daemon.client.find_port(&sandbox, PORT).await.unwrap().url.unwrap();
    let UrlParts { host, port, .. } = url_parts(&url);
    let http = reqwest::Client::builder()
        .no_proxy()
        .resolve(host.split(':').next().unwrap(), ([127, 0, 0, 1], port).into());
    let body: Vec<u8> = (0..20_000_000_u32).map(|at| (at % 251) as u8).collect();
    let answer = http.build().unwrap().post(&url).body(body.clone()).send().await.unwrap();
    assert_eq!(answer.headers()["x-length"], "20000000");
    assert_eq!(answer.bytes().await.unwrap(), body);
}

async fn a_websocket_is_forwarded(daemon: &Daemon) {
    let sandbox = sandbox_with_port(daemon, "chat:1").await;
    serve(daemon, &sandbox, ECHO).await;
    let url = daemon.client.find_port(&sandbox, PORT).await.unwrap().url.unwrap();
    let mut sockets = Vec::new();
    for _ in 0..8 {
        sockets.push(web_socket(&url).await);
    }
    for (at, socket) in sockets.iter_mut().enumerate() {
        let said = "x".repeat(1 + at * 16);
        socket.send(Message::text(said.clone())).await.unwrap();
        let echoed = timeout(SOON, socket.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(echoed.into_text().unwrap(), said);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_as_they_are_sent() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let events = "res.writeHead(200, {'content-type': 'text/event-stream'}); let n = 0; \
        const tick = () => res.write('data: ' + n++ + '\\n\\n'); tick(); req.on('close', () => {}); setInterval(tick, 200)";
    serve(&daemon, &sandbox, &node(events)).await;
    let url = daemon.client.find_port(&sandbox, PORT).await.unwrap().url.unwrap();
    let UrlParts { host, port, .. } = url_parts(&url);
    let http = reqwest::Client::builder()
        .no_proxy()
        .resolve(host.split(':').next().unwrap(), ([127, 0, 0, 1], port).into());
    let mut answer = http.build().unwrap().get(&url).send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains("data: 3\n\n") {
        let part = timeout(SOON, answer.chunk()).await.expect("an event").unwrap().unwrap();
        seen.push_str(std::str::from_utf8(&part).unwrap());
    }
    assert!(seen.starts_with("data: 0\n\ndata: 1\n\n"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visit_wakes_a_parked_sandbox() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let url = daemon.client.find_port(&sandbox, PORT).await.unwrap().url.unwrap();
    daemon.client.park(&sandbox, false).await.unwrap();
    let ports = daemon.client.ports(&sandbox).await.unwrap();
    assert!(ports.listening.is_empty() && ports.links.len() == 1, "{ports:?}");
    assert_eq!(visit(&url).await.status, 503, "the sandbox runs, and no server listens");
    let state = daemon.client.get(&sandbox).await.unwrap().state;
    assert_eq!(state, sandbox_api::sandbox::SandboxState::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_outlive_the_daemon_and_end_with_their_sandbox() {
    let home = Home::new()
        .set("SANDBOXD_PREVIEW_BIND", &format!("127.0.0.1:{}", crate::support::harness::free_port()));
    let daemon = Daemon::start_in(home).await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('still here')")).await;
    let by_name = daemon.client.find_port(&sandbox, PORT).await.unwrap().url.unwrap();
    let style = Some(LinkStyle::Port);
    let by_port =
        daemon.client.create_link(&sandbox, PORT, &CreateLink { style, ttl_ms: None }).await.unwrap();
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(visit(&by_name).await.body, "still here");
    assert_eq!(visit(&by_port.url).await.status, 303);
    daemon.client.delete(&sandbox).await.unwrap();
    assert_eq!(visit_with(&by_name, &[("accept", "text/html")]).await.status, 410);
    assert_eq!(visit(&by_port.url).await.status, 410);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_revoked_and_expires() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, ECHO).await;
    let request = CreateLink::default();
    let link = daemon.client.create_link(&sandbox, PORT, &request).await.unwrap();
    let mut socket = web_socket(&link.url).await;
    daemon.client.revoke_link(&sandbox, PORT, &link.link_id).await.unwrap();
    let cut = timeout(SOON, socket.next()).await.expect("the open connection is closed");
    assert!(!matches!(cut, Some(Ok(Message::Text(_)))), "{cut:?}");
    let seen = visit(&link.url).await;
    assert_eq!(seen.status, 410, "{seen:?}");
    daemon.client.revoke_link(&sandbox, PORT, &link.link_id).await.unwrap();

    let request = CreateLink { ttl_ms: Some(1000), style: None };
    let short = daemon.client.create_link(&sandbox, PORT, &request).await.unwrap();
    assert!(short.expires_at.is_some());
    until("the link has expired", || async { visit(&short.url).await.status == 410 }).await;
    assert!(daemon.client.links(&sandbox, PORT).await.unwrap().links.is_empty());
    for ttl_ms in [0, 999, 31_536_000_001] {
        let request = CreateLink { ttl_ms: Some(ttl_ms), style: None };
        let refused = daemon.client.create_link(&sandbox, PORT, &request).await.unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::InvalidRequest), "{ttl_ms}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_ports_that_a_sandbox_offers_have_links() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let found = daemon.client.find_port(&sandbox, 3999).await.unwrap();
    assert!(!found.found && found.url.is_none());
    let refused = daemon.client.create_link(&sandbox, 3999, &CreateLink::default()).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NotFound));
    let url = daemon.client.find_port(&sandbox, PORT).await.unwrap().url.unwrap();
    let request =
        CreateSandbox { session_key: "chat:1".into(), ports: Some(vec![4000]), ..CreateSandbox::default() };
    daemon.client.create_or_reconnect(&request).await.unwrap();
    assert_eq!(visit(&url).await.status, 410, "the port is no longer offered");
    let api = crate::support::http::HttpClient::of(&daemon);
    for port in ["0", "65536", "-1", "+3000", "03000", "x", "3000.0"] {
        let answer = api.get(&format!("/v1/sandboxes/{sandbox}/ports/{port}")).await;
        assert_eq!(answer.status, 400, "{port}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_with_its_own_port_works_after_it_was_followed() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let reported = "res.setHeader('set-cookie', ['a=1; Path=/', 'b=2']); res.end(JSON.stringify([req.url, req.headers.cookie ?? null]))";
    serve(&daemon, &sandbox, &node(reported)).await;
    let request = CreateLink { style: Some(LinkStyle::Port), ttl_ms: None };
    let link = daemon.client.create_link(&sandbox, PORT, &request).await.unwrap();
    let UrlParts { host, port, path } = url_parts(&link.url);
    assert!(LINK_PORTS.contains(&port) && path.starts_with("/?preview-key="), "{}", link.url);
    let base = format!("http://{host}/");
    assert_eq!(visit(&base).await.status, 404, "without the link");
    let key = path.strip_prefix("/").unwrap();
    let followed = visit(&format!("{base}deep/page{key}&x=1")).await;
    assert_eq!((followed.status, followed.header("location")), (303, Some("/deep/page?x=1")), "{followed:?}");
    let cookie = followed.header("set-cookie").unwrap();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();

    let others = format!("session=of-the-chat-app; name=\u{fc}; {cookie}");
    let seen = visit_with(&format!("{base}deep/page?x=1"), &[("cookie", &others)]).await;
    assert_eq!((seen.status, seen.body.as_str()), (200, r#"["/deep/page?x=1",null]"#), "{seen:?}");
    let own = seen.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert!(own.starts_with("lnk_") && own.ends_with("-a=1"), "{own}");
    let again = visit_with(&base, &[("cookie", &format!("{others}; {own}"))]).await;
    assert_eq!(again.body, r#"["/","a=1"]"#);

    let as_page = |headers: &'static [(&'static str, &'static str)]| {
        let (base, cookie) = (base.clone(), cookie.clone());
        async move { visit_with(&base, &[headers, &[("cookie", cookie.as_str())]].concat()).await.status }
    };
    assert_eq!(as_page(&[("origin", "http://evil.example")]).await, 403);
    assert_eq!(as_page(&[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "cors")]).await, 403);
    assert_eq!(as_page(&[("service-worker", "script")]).await, 403);
    assert_eq!(as_page(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_no_preview_reveal_nothing() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('secret')")).await;
    let url = daemon.client.find_port(&sandbox, PORT).await.unwrap().url.unwrap();
    let UrlParts { host, port, .. } = url_parts(&url);
    let token = host.split(['-', '.']).nth(1).unwrap().to_owned();
    let ask = |host: &str| format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    for (host, why) in [
        (format!("127.0.0.1:{port}"), "an address"),
        (format!("localhost:{port}"), "the domain itself"),
        (format!("3001-{token}.localhost:{port}"), "another port"),
        (format!("3000-{}.localhost:{port}", "a".repeat(32)), "a wrong token"),
        (format!("3000-{token}.evil.example"), "another domain"),
    ] {
        let seen = raw(port, ask(&host).as_bytes()).await;
        assert_eq!(seen.status, 404, "{why}: {seen:?}");
        assert!(!seen.body.contains("secret"));
    }
    for (bytes, why) in [
        (
            format!("GET http://{host}/ HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"),
            "absolute form",
        ),
        (format!("CONNECT {host} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"), "CONNECT"),
        (format!("GET / HTTP/1.1\r\nhost: {host}\r\nhost: {host}\r\nconnection: close\r\n\r\n"), "two hosts"),
        ("GET / HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(), "no host"),
        (format!("GET / HTTP/1.1\r\nhost: {host}\r\ncontent-length: x\r\n\r\n"), "no length"),
        (
            format!(
                "POST / HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\ntransfer-encoding: x\r\n\r\n0\r\n\r\n"
            ),
            "bad encoding",
        ),
        (format!("GET / HTTP/1.1\r\nhost: {host}\r\nx y: z\r\n\r\n"), "a header's name with a blank"),
    ] {
        let seen = raw(port, bytes.as_bytes()).await;
        assert_eq!(seen.status, 400, "{why}: {seen:?}");
    }
    let response = raw(
        port,
        format!("GET /v1/health HTTP/1.1\r\nhost: localhost:{port}\r\nconnection: close\r\n\r\n").as_bytes(),
    )
    .await;
    assert_ne!(response.status, 200, "the gateway is not the API");
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_are_rate_limited_and_visits_are_not() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('ok')")).await;
    let url = daemon.client.find_port(&sandbox, PORT).await.unwrap().url.unwrap();
    let UrlParts { port, .. } = url_parts(&url);
    let guess =
        format!("GET / HTTP/1.1\r\nhost: 3000-{}.localhost\r\nconnection: close\r\n\r\n", "b".repeat(32));
    let mut statuses = Vec::new();
    for _ in 0..20 {
        statuses.push(raw(port, guess.as_bytes()).await.status);
    }
    assert!(statuses.starts_with(&[404; 10]) && statuses.ends_with(&[429]), "{statuses:?}");
    assert_eq!(visit(&url).await.status, 200, "a visitor with a link is still served");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_errors_are_distinguished() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let server = "exec node -e \"require('net').createServer((socket) => { socket.once('data', (data) => { \
        const path = String(data).split(' ')[1]; \
        if (path === '/garbage') socket.end('no http at all\\r\\n\\r\\n'); \
        else if (path === '/nothing') socket.end(); \
        else if (path === '/short') socket.end('HTTP/1.1 200 OK\\r\\ncontent-length: 100\\r\\n\\r\\nonly this'); \
        else if (path === '/headers') { socket.write('HTTP/1.1 200 OK\\r\\n'); const more = () => { while (socket.write('x-y: ' + 'z'.repeat(60000) + '\\r\\n')); }; socket.on('drain', more); more(); } \
        else if (path === '/switch') socket.end('HTTP/1.1 101 Switching Protocols\\r\\nconnection: upgrade\\r\\nupgrade: x\\r\\n\\r\\n'); \
        else socket.end('HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok'); }); \
        socket.on('error', () => {}); }).listen(3000, '127.0.0.1')\"";
    serve(&daemon, &sandbox, server).await;
    let url = daemon.client.find_port(&sandbox, PORT).await.unwrap().url.unwrap();
    for (path, status) in
        [("garbage", 502), ("nothing", 502), ("headers", 502), ("switch", 502), ("fine", 200)]
    {
        let seen = visit(&format!("{url}{path}")).await;
        assert_eq!(seen.status, status, "{path}: {}", seen.head);
    }
    // How much arrives before the connection breaks varies. It is never reported as complete.
    let short = visit(&format!("{url}short")).await;
    assert!(short.body.is_empty() || short.header("content-length") == Some("100") && short.body.len() < 100);
    assert_eq!(visit(&format!("{url}fine")).await.body, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_websockets_at_once() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, ECHO).await;
    let url = daemon.client.find_port(&sandbox, PORT).await.unwrap().url.unwrap();
    let mut sockets: Vec<_> =
        futures::stream::iter(0..200).map(|_| web_socket(&url)).buffer_unordered(16).collect().await;
    for socket in &mut sockets {
        socket.send(Message::text("all of us")).await.unwrap();
    }
    for socket in &mut sockets {
        let echoed = timeout(SOON, socket.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(echoed.into_text().unwrap(), "all of us");
    }
    assert_eq!(visit(&url).await.body, "a page");
    assert_eq!(daemon.output(&sandbox, "echo and a command").await, "and a command\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_left_open_does_not_keep_a_sandbox_from_being_parked() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_DEFAULT_IDLE_TTL_MS", "10000")).await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    // A background process of an ended command. A running command would prevent parking.
    daemon.output(&sandbox, &format!("({ECHO}) >/dev/null 2>&1 &")).await;
    until("the server listens", || async {
        !daemon.client.ports(&sandbox).await.unwrap().listening.is_empty()
    })
    .await;
    let url = daemon.client.find_port(&sandbox, PORT).await.unwrap().url.unwrap();
    let mut socket = web_socket(&url).await;
    let ended =
        timeout(Duration::from_secs(25), socket.next()).await.expect("the open page prevents parking");
    assert!(!matches!(ended, Some(Ok(Message::Text(_)))), "{ended:?}");
}
