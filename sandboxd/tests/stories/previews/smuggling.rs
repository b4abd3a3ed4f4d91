//! Request smuggling: ambiguous requests and responses, and host names of other previews.

use sandbox_api::port::{CreateLink, LinkStyle};

use crate::support::harness::Daemon;
use crate::support::visitor::{
    PORT, Seen, UrlParts, bare, link, node, raw, sandbox_with_port, seen_by_the_server, serve, url_parts,
    visit,
};

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_smuggled_past_the_gateway() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let answer = "socket.end('HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\nconnection: close\\r\\n\\r\\nok');";
    serve(&daemon, &sandbox, &bare(answer)).await;
    let UrlParts { host, port, .. } = url_parts(&link(&daemon, &sandbox).await);
    // A smuggled request without a host: the gateway would reject it, and a server in a sandbox would not.
    let inner = "GET /smuggled HTTP/1.1\r\nx: y\r\n\r\n";
    let post = |headers: &str, body: &str| format!("POST /a HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n{body}");
    let chunked = "transfer-encoding: chunked\r\n";
    let both = "content-length: 5\r\ntransfer-encoding: chunked\r\n";
    let both_turned = format!("{chunked}content-length: 5\r\n");
    let two_lengths = format!("content-length: 3\r\ncontent-length: {}\r\n", 3 + inner.len());
    let refused = [
        ("two lengths", post(&two_lengths, &format!("abc{inner}"))),
        ("a list of lengths", post("content-length: 3, 4\r\n", "abc")),
        ("a sign", post("content-length: +3\r\n", "abc")),
        ("a negative length", post("content-length: -3\r\n", "abc")),
        ("no number", post("content-length: 0x3\r\n", "abc")),
        ("an unknown encoding", post("transfer-encoding: xchunked\r\n", inner)),
        ("chunks inside of something", post("transfer-encoding: chunked, identity\r\n", inner)),
        ("no encoding", post("transfer-encoding: identity\r\n", inner)),
        ("a name with a blank behind it", post("transfer-encoding : chunked\r\n", inner)),
        ("a folded line", post("x: a\r\n transfer-encoding: chunked\r\n", inner)),
        ("a bare carriage return", post("x: a\rtransfer-encoding: chunked\r\n", inner)),
        ("a NUL", post("x: a\0b\r\n", inner)),
        ("no colon", post("transfer-encoding\r\n", inner)),
        ("chunks of an older version", post(chunked, inner).replace("HTTP/1.1\r\nhost", "HTTP/1.0\r\nhost")),
        ("a line end in the path", format!("GET /a\rb HTTP/1.1\r\nhost: {host}\r\n\r\n")),
        ("two versions", format!("GET /a HTTP/1.1 HTTP/1.1\r\nhost: {host}\r\n\r\n")),
        ("another version", format!("GET /a HTTP/9.9\r\nhost: {host}\r\n\r\n")),
        ("both lengths", post(both, &format!("0\r\n\r\n{inner}"))),
        ("both lengths, turned", post(&both_turned, &format!("0\r\n\r\n{inner}"))),
        ("lines without CR", post("x: y\r\n", "").replace("\r\n", "\n")),
        ("one line without CR", post("x: y\n", "")),
    ];
    for (why, bytes) in &refused {
        let seen = raw(port, bytes.as_bytes()).await;
        assert!(matches!(seen.status, 400 | 505), "{why}: {seen:?}");
        assert_eq!(seen_by_the_server(&daemon, &sandbox).await, "", "{why}: nothing of this is forwarded");
    }

    // The same after a valid pipelined request.
    let fine = format!("GET /fine HTTP/1.1\r\nhost: {host}\r\n\r\n");
    for (why, bytes) in &refused {
        let seen = raw(port, format!("{fine}{bytes}").as_bytes()).await;
        let statuses: Vec<_> = format!("{}\r\n\r\n{}", seen.head, seen.body)
            .split("HTTP/1.1 ")
            .skip(1)
            .map(|answer| answer[..3].to_owned())
            .collect();
        assert!(statuses == ["200", "400"] || statuses == ["200", "505"], "{why}: {statuses:?}");
        let passed = seen_by_the_server(&daemon, &sandbox).await;
        assert_eq!(passed.matches("HTTP/1.1").count(), 1, "{why}: {passed}");
        daemon.output(&sandbox, ": >seen").await;
    }

    // An unambiguous request is forwarded with one framing. Bad chunks end the request, whatever follows them.
    let named = "connection: content-length, host, close\r\ncontent-length: 3\r\n";
    let passed = [
        ("a length named as the connection's", post(named, "abc")),
        ("a chunk without a number", post(chunked, &format!("zz\r\n\r\n{inner}"))),
        ("a chunk beyond all numbers", post(chunked, &format!("fffffffffffffffff1\r\n\r\n{inner}"))),
        ("a chunk with a sign", post(chunked, &format!("-1\r\n\r\n{inner}"))),
        ("a chunk that is longer than it says", post(chunked, &format!("1\r\nabc\r\n0\r\n\r\n{inner}"))),
        ("a chunk's end without a line", post(chunked, &format!("3\r\nabc0\r\n\r\n{inner}"))),
        ("more than the length", post("content-length: 3\r\n", &format!("abc{inner}"))),
    ];
    for (why, bytes) in &passed {
        raw(port, bytes.as_bytes()).await;
        let seen = seen_by_the_server(&daemon, &sandbox).await;
        assert!(!seen.contains("/smuggled"), "{why}: {seen}");
        for head in seen.split("\r\n\r\n").filter(|part| part.starts_with("POST ")) {
            let framed = ["content-length: ", "transfer-encoding: "].map(|name| head.contains(name));
            assert_ne!(framed, [true, true], "{why}: {head}");
            assert!(head.contains(&format!("host: localhost:{PORT}")), "{why}: {head}");
        }
        daemon.output(&sandbox, ": >seen").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_with_two_lengths_reaches_the_visitor_with_one() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let both =
        "const first = path === '/turned' ? 'transfer-encoding: chunked\\r\\ncontent-length: 2\\r\\n' \
        : 'content-length: 2\\r\\ntransfer-encoding: chunked\\r\\n';
    socket.end('HTTP/1.1 200 OK\\r\\n' + first + '\\r\\n5\\r\\nhello\\r\\n0\\r\\n\\r\\n');";
    serve(&daemon, &sandbox, &bare(both)).await;
    let url = link(&daemon, &sandbox).await;
    for path in ["", "turned"] {
        let seen = visit(&format!("{url}{path}")).await;
        assert_eq!((seen.status, seen.header("content-length")), (200, None), "{seen:?}");
        assert!(seen.body.contains("hello\r\n0\r\n\r\n"), "{seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_previews_host_name_opens_neither_preview() {
    let daemon = Daemon::start().await;
    let (mine, other) =
        (sandbox_with_port(&daemon, "chat:1").await, sandbox_with_port(&daemon, "chat:2").await);
    serve(&daemon, &mine, &node("res.end('mine ' + req.headers['x-forwarded-host'])")).await;
    serve(&daemon, &other, &node("res.end('other')")).await;
    let by_port = CreateLink { style: Some(LinkStyle::Port), ttl_ms: None };
    let my_link = daemon.client.create_link(&mine, PORT, &by_port).await.unwrap().url;
    let others_link = daemon.client.create_link(&other, PORT, &by_port).await.unwrap().url;
    let (my_name, others_name) =
        (url_parts(&link(&daemon, &mine).await), url_parts(&link(&daemon, &other).await));
    let cookie = |seen: Seen| seen.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let (my_cookie, others_cookie) = (cookie(visit(&my_link).await), cookie(visit(&others_link).await));
    let ask = |port: u16, host: &str, headers: &str| {
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n");
        async move { raw(port, request.as_bytes()).await }
    };
    let gateway = url_parts(&my_link);
    // A port belongs to one preview, whatever the host name. It requires that preview's cookie.
    let seen = ask(gateway.port, &others_name.host, &format!("cookie: {my_cookie}\r\n")).await;
    assert!(seen.body.contains("mine"), "{seen:?}");
    for headers in [format!("cookie: {others_cookie}\r\n"), String::new()] {
        let seen = ask(gateway.port, &others_name.host, &headers).await;
        assert_eq!(seen.status, 404, "{seen:?}");
    }
    // The gateway uses only the Host header and ignores other host headers.
    let forged = format!("x-forwarded-host: {0}\r\nx-host: {0}\r\nforwarded: host={0}\r\n", others_name.host);
    let seen = ask(my_name.port, &my_name.host, &forged).await;
    assert!(seen.body.contains(&format!("mine {}", my_name.host)), "{seen:?}");
    let path = format!(
        "GET //{}/ HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
        others_name.host, my_name.host
    );
    assert!(raw(my_name.port, path.as_bytes()).await.body.contains("mine"));
    let token = |place: &UrlParts| place.host.split(['-', '.']).nth(1).unwrap().to_owned();
    let both = format!("{PORT}-{}.{PORT}-{}.localhost", token(&my_name), token(&others_name));
    assert_eq!(ask(my_name.port, &both, "").await.status, 404);
}
