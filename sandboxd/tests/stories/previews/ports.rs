//! Links with their own port: which port they get, and what happens to it afterwards.

use sandbox_api::port::{CreateLink, Link, LinkStyle};
use sandbox_api::{ErrorCode, SandboxId};

use crate::support::harness::{Daemon, Home, free_ports, until};
use crate::support::visitor::{PORT, UrlParts, node, sandbox_with_port, serve, url_parts, visit, visit_with};

async fn made(daemon: &Daemon, sandbox: &SandboxId, style: LinkStyle, ttl_ms: Option<u64>) -> Link {
    let request = CreateLink { style: Some(style), ttl_ms };
    daemon.client.create_link(sandbox, PORT, &request).await.unwrap()
}

/// The cookie that a followed link sets.
async fn cookie(link: &Link) -> String {
    let followed = visit(&link.url).await;
    assert_eq!(followed.status, 303, "{followed:?}");
    followed.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_link_is_reported_at_its_port() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('secret')")).await;
    let revoked = made(&daemon, &sandbox, LinkStyle::Port, None).await;
    let base = format!("http://{}/", url_parts(&revoked.url).host);
    let cookie = cookie(&revoked).await;
    assert_eq!(visit_with(&base, &[("cookie", &cookie)]).await.body, "secret");
    daemon.client.revoke_link(&sandbox, PORT, &revoked.link_id).await.unwrap();
    for (url, headers, status) in
        [(&base, &[("cookie", cookie.as_str())][..], 410), (&revoked.url, &[], 410), (&base, &[], 404)]
    {
        let seen = visit_with(url, headers).await;
        assert_eq!(seen.status, status, "{seen:?}");
        assert!(!seen.body.contains("secret"));
    }
    let short = made(&daemon, &sandbox, LinkStyle::Port, Some(1000)).await;
    until("the link has expired", || async { visit(&short.url).await.status == 410 }).await;
    let last = made(&daemon, &sandbox, LinkStyle::Port, None).await;
    daemon.client.delete(&sandbox).await.unwrap();
    let seen = visit(&last.url).await;
    assert!(seen.status == 410 && seen.body.contains("sandbox is gone"), "{seen:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_reused_least_recently_used_first() {
    let ports = free_ports(3);
    let home = Home::new().set("SANDBOXD_PREVIEW_PORTS", &format!("{}-{}", ports.start, ports.end - 1));
    let daemon = Daemon::start_in(home).await;
    let [first_port, second_port, third_port] = [ports.start, ports.start + 1, ports.start + 2];
    let [one, two] = [sandbox_with_port(&daemon, "chat:1").await, sandbox_with_port(&daemon, "chat:2").await];
    let port = |link: &Link| {
        let UrlParts { port, .. } = url_parts(&link.url);
        port
    };
    let first = made(&daemon, &one, LinkStyle::Port, None).await;
    made(&daemon, &one, LinkStyle::Host, None).await;
    daemon.client.revoke_link(&one, PORT, &first.link_id).await.unwrap();
    let second = made(&daemon, &two, LinkStyle::Port, None).await;
    let third = made(&daemon, &two, LinkStyle::Port, None).await;
    assert_eq!([&first, &second, &third].map(port), [first_port, second_port, third_port]);

    // Now every port has been used once, and the first one no longer belongs to the first link.
    let again = made(&daemon, &two, LinkStyle::Port, None).await;
    assert_eq!((port(&again), visit(&first.url).await.status), (first_port, 404));
    let refused = daemon
        .client
        .create_link(&one, PORT, &CreateLink { style: Some(LinkStyle::Port), ttl_ms: None })
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted));
    for link in [&third, &second] {
        daemon.client.revoke_link(&two, PORT, &link.link_id).await.unwrap();
    }
    assert_eq!(port(&made(&daemon, &one, LinkStyle::Port, None).await), third_port, "it was released first");
    daemon.stop().await;
}
