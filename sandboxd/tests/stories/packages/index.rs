//! Indexes: in HTML, with credentials, failing, and the real one.

use std::time::Duration;

use sandbox_api::ErrorCode;
use test_git::{ELSEWHERE, NAME, TOKEN};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{created, home, server, with_packages};
use crate::support::harness::{Daemon, Home};

#[tokio::test]
async fn an_index_may_have_pages_in_html() {
    let Some(server) = server().await else { return };
    server.publish_file("shapes", "shapes-9.0.tar.gz");
    let home = home(&server).set("SANDBOXD_PACKAGE_INDEX", &format!("https://{NAME}/pages"));
    let daemon = Daemon::start_in(home).await;
    let sandbox = created(&daemon, &with_packages("chat:1", &["shapes"])).await;
    assert_eq!(daemon.output(&sandbox, "shapes").await, "shapes 2.0 lines\n");
}

#[tokio::test]
async fn credentials_are_sent_to_their_host_and_reach_no_sandbox() {
    let Some(server) = server().await else { return };
    let closed = || home(&server).set("SANDBOXD_PACKAGE_INDEX", &format!("https://{NAME}/closed"));
    let without = Daemon::start_in(closed()).await;
    let error = without.client.create_or_reconnect(&with_packages("chat:1", &["shapes"])).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::PackageNotFound));
    drop(without);
    let daemon = Daemon::start_in(closed().set("SANDBOXD_PACKAGE_TOKENS", &format!("{NAME}={TOKEN}"))).await;
    let sandbox = created(&daemon, &with_packages("chat:1", &["shapes"])).await;
    assert_eq!(daemon.output(&sandbox, "shapes").await, "shapes 2.0 lines\n");
    let search = format!("grep -rl '{TOKEN}' /vercel/sandbox /proc/*/environ 2>/dev/null | head -1");
    assert_eq!(daemon.output(&sandbox, &search).await, "");
    let requests = server.requests();
    assert!(requests.iter().any(|(host, path, _)| host == ELSEWHERE && path.starts_with("/wheels/")));
    assert!(requests.iter().all(|(host, _, token)| host == NAME || token.is_none()), "{requests:?}");
}

#[tokio::test]
async fn a_failing_index_is_unavailable() {
    let Some(server) = server().await else { return };
    for (path, code) in [
        ("limited", ErrorCode::RateLimited),
        ("inside", ErrorCode::Refused),
        ("plain", ErrorCode::Refused),
        ("endless", ErrorCode::TooLarge),
    ] {
        let home = home(&server).set("SANDBOXD_PACKAGE_INDEX", &format!("https://{NAME}/{path}"));
        let daemon = Daemon::start_in(home).await;
        let error =
            daemon.client.create_or_reconnect(&with_packages("chat:1", &["shapes"])).await.unwrap_err();
        assert_eq!(error.code(), Some(code), "{path}: {error:?}");
    }
}

/// Skipped on a machine without the internet.
#[tokio::test]
async fn the_real_index_has_packages() {
    let reached = timeout(Duration::from_secs(5), TcpStream::connect("pypi.org:443")).await;
    if !matches!(reached, Ok(Ok(_))) {
        return;
    }
    // The bundle of this machine also has the certificate of a proxy that intercepts TLS.
    let home = Home::new().set("SANDBOXD_CA_BUNDLE", "/etc/ssl/certs/ca-certificates.crt");
    let daemon = Daemon::start_in(home).await;
    let sandbox = created(&daemon, &with_packages("chat:1", &["numpy<2.4", "idna"])).await;
    let versions = daemon.output(&sandbox, "python3 -c 'import idna, numpy; print(numpy.__version__)'").await;
    assert!(versions.starts_with("2.3."), "{versions}");
}
