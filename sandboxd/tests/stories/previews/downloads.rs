//! Download links: a browser without a token gets exactly one file, and only while the link is valid.

use bytes::Bytes;
use http::{HeaderMap, Method};
use sandbox_api::files::{FileLink, LinkFile, MoveFile};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::WriteOptions;

use crate::support::harness::{Daemon, Home, free_port, over_each_transport, until};
use crate::support::visitor::{UrlParts, raw, sandbox_with_port, url_parts, visit, visit_with};

over_each_transport!(a_link_downloads_exactly_its_file, a_link_wakes_a_parked_sandbox);

/// A response to a visitor without a token.
#[derive(Debug)]
struct Got {
    status: u16,
    headers: HeaderMap,
    bytes: Bytes,
}

impl Got {
    /// The only value of a header. Empty if there is none.
    fn header(&self, name: &str) -> &str {
        assert!(self.headers.get_all(name).iter().count() <= 1, "{name}: {:?}", self.headers);
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A visitor whose machine resolves every host name of the URL to the gateway, as a browser does.
async fn open(method: Method, url: &str, headers: &[(&str, &str)]) -> reqwest::Response {
    let UrlParts { host, port, .. } = url_parts(url);
    let name = host.split(':').next().unwrap();
    let http = reqwest::Client::builder().no_proxy().resolve(name, ([127, 0, 0, 1], port).into());
    let request = http.build().unwrap().request(method, url);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.send().await.unwrap()
}

async fn ask(method: Method, url: &str, headers: &[(&str, &str)]) -> Got {
    let response = open(method, url, headers).await;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Got { status, headers, bytes: response.bytes().await.unwrap() }
}

async fn get(url: &str) -> Got {
    ask(Method::GET, url, &[]).await
}

async fn put(daemon: &Daemon, sandbox: &SandboxId, path: &str, content: impl Into<Bytes>) {
    let content: Bytes = content.into();
    daemon.client.put_file(sandbox, path, content.to_vec(), WriteOptions::default()).await.unwrap();
}

async fn link(daemon: &Daemon, sandbox: &SandboxId, path: &str) -> Result<FileLink, sandbox_client::Error> {
    let request = LinkFile { path: path.to_owned(), ttl_ms: None };
    daemon.client.link_file(sandbox, &request).await
}

async fn url_of(daemon: &Daemon, sandbox: &SandboxId, path: &str) -> String {
    link(daemon, sandbox, path).await.unwrap().url
}

async fn a_link_downloads_exactly_its_file(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let name = "out/\u{fc}ber \"1\"\n\u{202e}fdp.bin";
    put(daemon, &sandbox, name, content.clone()).await;
    let link = link(daemon, &sandbox, name).await.unwrap();
    assert_eq!(link.size, 3_000_000);
    assert!(link.url.starts_with("http://downloads.localhost:"), "{}", link.url);
    let got = get(&link.url).await;
    assert_eq!((got.status, got.header("content-length")), (200, "3000000"));
    assert!(got.bytes == content, "other bytes");
    for (header, value) in [
        (
            "content-disposition",
            "attachment; filename=\"_ber _1___fdp.bin\"; filename*=UTF-8''%C3%BCber%20%221%22__fdp.bin",
        ),
        ("content-type", "application/octet-stream"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox; default-src 'none'"),
        ("cache-control", "no-store, private"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("accept-ranges", "bytes"),
        ("set-cookie", ""),
        ("access-control-allow-origin", ""),
    ] {
        assert_eq!(got.header(header), value, "{header}");
    }
    put(daemon, &sandbox, "empty", "").await;
    let empty = get(&url_of(daemon, &sandbox, "empty").await).await;
    assert_eq!((empty.status, empty.bytes.len()), (200, 0));
}

async fn a_link_wakes_a_parked_sandbox(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    put(daemon, &sandbox, "a.txt", "kept").await;
    let url = url_of(daemon, &sandbox, "a.txt").await;
    daemon.client.park(&sandbox, false).await.unwrap();
    let got = get(&url).await;
    assert_eq!((got.status, &got.bytes[..]), (200, &b"kept"[..]));
    // A link to a file of a parked sandbox needs the sandbox, because only it knows its files.
    daemon.client.park(&sandbox, false).await.unwrap();
    assert_eq!(get(&url_of(daemon, &sandbox, "a.txt").await).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_download_continues_at_its_range() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    put(&daemon, &sandbox, "digits", "0123456789").await;
    let url = url_of(&daemon, &sandbox, "digits").await;
    let head = ask(Method::HEAD, &url, &[]).await;
    assert_eq!((head.status, head.header("content-length"), head.bytes.len()), (200, "10", 0));
    let etag = head.header("etag").to_owned();
    let part = async |headers: &[(&str, &str)]| {
        let got = ask(Method::GET, &url, headers).await;
        let text = String::from_utf8_lossy(&got.bytes).into_owned();
        (got.status, got.header("content-range").to_owned(), text)
    };
    let of = |status: u16, range: &str, text: &str| (status, range.to_owned(), text.to_owned());
    assert_eq!(part(&[("range", "bytes=3-5")]).await, of(206, "bytes 3-5/10", "345"));
    assert_eq!(part(&[("range", "bytes=-2")]).await, of(206, "bytes 8-9/10", "89"));
    assert_eq!(part(&[("range", "bytes=7-"), ("if-range", &etag)]).await, of(206, "bytes 7-9/10", "789"));
    assert_eq!(part(&[("range", "bytes=7-"), ("if-range", "\"old\"")]).await, of(200, "", "0123456789"));
    let (status, range, text) = part(&[("range", "bytes=10-")]).await;
    assert_eq!((status, range.as_str()), (416, "bytes */10"), "{text}");
    assert_eq!(part(&[("if-none-match", &etag)]).await, of(304, "", ""));
    assert_eq!(ask(Method::GET, &url, &[("if-match", "\"old\"")]).await.status, 412);
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let got = ask(method.clone(), &url, &[]).await;
        assert_eq!((got.status, got.header("allow")), (405, "GET, HEAD"), "{method}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_expires() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    put(&daemon, &sandbox, "a.txt", "a").await;
    let request = |ttl_ms| LinkFile { path: "a.txt".into(), ttl_ms };
    let short = daemon.client.link_file(&sandbox, &request(Some(1000))).await.unwrap();
    let long = daemon.client.link_file(&sandbox, &request(None)).await.unwrap();
    let minutes = (long.expires_at.as_millisecond() - short.expires_at.as_millisecond()) / 60_000;
    assert_eq!(minutes, 9, "ten minutes by default");
    until("the link has expired", || async { visit(&short.url).await.status == 410 }).await;
    assert_eq!(get(&long.url).await.status, 200);
    for ttl_ms in [0, 999, 86_400_001, u64::MAX] {
        let refused = daemon.client.link_file(&sandbox, &request(Some(ttl_ms))).await.unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::InvalidRequest), "{ttl_ms}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_link_is_like_one_that_never_existed() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    put(&daemon, &sandbox, "a.txt", "secret").await;
    let url = url_of(&daemon, &sandbox, "a.txt").await;
    let UrlParts { host, port, path } = url_parts(&url);
    let token = path.split('/').nth(2).unwrap();
    let get = async |host: &str, path: &str| {
        raw(port, format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").as_bytes())
            .await
    };
    let never = get(&host, "/download/x").await;
    assert_eq!(never.status, 404);
    let other = if token.starts_with('A') { "B" } else { "A" };
    for (forged, why) in [
        (format!("/download/{other}{}/a.txt", &token[1..]), "another authentication"),
        (format!("/download/{}{other}/a.txt", &token[..token.len() - 1]), "another path"),
        (format!("/download/{token}{other}/a.txt"), "more"),
        (format!("/x/download/{token}/a.txt"), "not at its path"),
        ("/".into(), "no token"),
    ] {
        let seen = get(&host, &forged).await;
        assert_eq!((seen.status, &seen.body), (404, &never.body), "{why}");
    }
    let preview = url_parts(&daemon.client.find_port(&sandbox, 3000).await.unwrap().url.unwrap()).host;
    let seen = get(&preview, &path).await;
    assert!(
        seen.status == 503 && !seen.body.contains("secret"),
        "a preview's origin has no downloads: {seen:?}"
    );
    let api = visit(&format!("{}{path}", daemon.base)).await;
    assert!(api.status == 401 && !api.body.contains("secret"), "the API's origin has none either: {api:?}");
    // The name at the end of the path has no effect.
    assert_eq!(get(&host, &format!("/download/{token}/other.exe")).await.status, 200);
    until("guesses are limited", || async { get(&host, "/download/x").await.status == 429 }).await;
    assert_eq!(get(&host, &path).await.status, 200, "a visitor with a link is still served");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_outlives_the_daemon_and_ends_with_its_sandbox() {
    let home = Home::new().set("SANDBOXD_PREVIEW_BIND", &format!("127.0.0.1:{}", free_port()));
    let daemon = Daemon::start_in(home).await;
    let sandbox = daemon.sandbox("chat:1").await;
    put(&daemon, &sandbox, "a.txt", "kept").await;
    let url = url_of(&daemon, &sandbox, "a.txt").await;
    let daemon = Daemon::start_in(daemon.stop().await).await;
    until("the daemon serves", || async { visit(&url).await.body == "kept" }).await;
    daemon.client.delete(&sandbox).await.unwrap();
    let page = visit_with(&url, &[("accept", "text/html")]).await;
    assert!(page.status == 410 && page.body.contains("This sandbox is gone"), "{page:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_regular_file_of_the_workspace_has_a_link() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let prepare = "mkdir dir; printf inside >real; ln -s real inside; ln -s /etc/passwd outside; mkfifo fifo";
    daemon.output(&sandbox, prepare).await;
    for (path, code) in [
        ("dir", ErrorCode::Refused),
        ("fifo", ErrorCode::Refused),
        ("outside", ErrorCode::Refused),
        ("/etc/passwd", ErrorCode::Refused),
        ("../x", ErrorCode::Refused),
        ("missing", ErrorCode::NotFound),
        ("", ErrorCode::InvalidRequest),
        ("a\0", ErrorCode::InvalidRequest),
    ] {
        let refused = link(&daemon, &sandbox, path).await.unwrap_err();
        assert_eq!(refused.code(), Some(code), "{path:?}: {refused}");
    }
    assert_eq!(get(&url_of(&daemon, &sandbox, "inside").await).await.bytes, "inside");

    // What becomes of the file afterwards.
    put(&daemon, &sandbox, "a.txt", "one").await;
    let url = url_of(&daemon, &sandbox, "a.txt").await;
    put(&daemon, &sandbox, "a.txt", "two").await;
    assert_eq!(get(&url).await.bytes, "two");
    for change in
        ["rm a.txt", "ln -s /etc/passwd a.txt", "rm a.txt; mkdir a.txt", "rmdir a.txt; mkfifo a.txt"]
    {
        daemon.output(&sandbox, change).await;
        let got = get(&url).await;
        assert!(
            got.status == 404 && got.bytes.starts_with(b"This file is not available."),
            "{change}: {got:?}"
        );
    }
    let back = MoveFile { from: "real".into(), to: "a.txt".into(), overwrite: None };
    daemon.output(&sandbox, "rm a.txt").await;
    daemon.client.move_file(&sandbox, &back).await.unwrap();
    assert_eq!(get(&url).await.bytes, "inside");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_that_do_not_read_leave_the_sandbox_usable() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "truncate -s 300M large; printf small >small").await;
    let large = url_of(&daemon, &sandbox, "large").await;
    let small = url_of(&daemon, &sandbox, "small").await;
    let mut unread = Vec::new();
    for _ in 0..8 {
        let response = open(Method::GET, &large, &[]).await;
        assert_eq!(response.status(), 200);
        unread.push(response);
    }
    let full = visit_with(&small, &[("accept", "text/html")]).await;
    assert_eq!((full.status, full.header("retry-after")), (503, Some("1")), "{full:?}");
    assert!(full.body.contains("All of its 8 downloads"), "{}", full.body);
    let whole = daemon.client.read_file(&sandbox, "small").await.unwrap();
    assert_eq!(whole.as_deref(), Some(&b"small"[..]), "the owner still reads files");
    unread.pop();
    until("a place is free", || async { visit(&small).await.body == "small" }).await;
    let delete = tokio::time::timeout(std::time::Duration::from_secs(20), daemon.client.delete(&sandbox));
    delete.await.expect("visitors do not delay a delete").unwrap();
    drop(unread);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_host_names_a_link_leads_to_the_gateways_own_port() {
    let port = free_port();
    let home = Home::new().set("SANDBOXD_PREVIEW_BIND", &format!("0.0.0.0:{port}"));
    let daemon = Daemon::start_in(home).await;
    let sandbox = daemon.sandbox("chat:1").await;
    put(&daemon, &sandbox, "a b.txt", "over the LAN").await;
    let url = url_of(&daemon, &sandbox, "a b.txt").await;
    assert!(url.starts_with(&format!("http://127.0.0.1:{port}/download/")), "{url}");
    assert!(url.ends_with("/a%20b.txt"), "{url}");
    assert_eq!(get(&url).await.bytes, "over the LAN");
    daemon.stop().await;
}
