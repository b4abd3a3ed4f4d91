//! The last gate: a sandboxd that hangs, is unhealthy, or is another service.

use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::app::{App, HERE, Health, ON, Sandboxd, gates, with_sandboxd, with_tools, without_tools};

/// Advances the app's time without waiting.
async fn later(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}

async fn app(sandboxd: &Sandboxd) -> App {
    App::start(gates(&with_sandboxd(sandboxd.address, ""), ON)).await
}

#[tokio::test]
async fn anything_other_than_a_healthy_sandboxd_disables_the_tools() {
    for health in [
        Health::Failing,
        Health::Rubbish,
        Health::NotOk,
        Health::Endless,
        Health::Redirecting,
        Health::Hanging,
    ] {
        let sandboxd = Sandboxd::start(health).await;
        let app = app(&sandboxd).await;
        let start = Instant::now();
        assert_eq!(app.chat(HERE, &[]).await, without_tools("Unhealthy"), "{health:?}");
        assert!(start.elapsed() < Duration::from_secs(2), "{health:?}: {:?}", start.elapsed());
        let start = Instant::now();
        assert_eq!(app.chat(HERE, &[]).await, without_tools("Unhealthy"), "{health:?}");
        assert!(start.elapsed() < Duration::from_millis(700), "{health:?}: the last result is used");
        assert_eq!(sandboxd.health_checks(), 1, "{health:?}");
    }
}

#[tokio::test]
async fn an_unreachable_sandboxd_disables_the_tools() {
    let unreachable = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let app = App::start(gates(&with_sandboxd(unreachable, ""), ON)).await;
    assert_eq!(app.chat(HERE, &[]).await, without_tools("Unhealthy"));
}

#[tokio::test]
async fn a_health_check_is_used_for_five_seconds() {
    let sandboxd = Sandboxd::start(Health::Healthy).await;
    let app = app(&sandboxd).await;
    for (pass, looks) in [(0, 1), (4_900, 1), (200, 2), (5_100, 3)] {
        later(Duration::from_millis(pass)).await;
        assert_eq!(app.chat(HERE, &[]).await, with_tools());
        assert_eq!(sandboxd.health_checks(), looks);
    }
}

#[tokio::test]
async fn concurrent_requests_share_one_health_check() {
    for (health, wanted) in [(Health::Healthy, with_tools()), (Health::Hanging, without_tools("Unhealthy"))] {
        let sandboxd = Sandboxd::start(health).await;
        let app = app(&sandboxd).await;
        let start = Instant::now();
        for answer in join_all((0..50).map(|_| app.chat(HERE, &[]))).await {
            assert_eq!(answer, wanted, "{health:?}");
        }
        assert_eq!(sandboxd.health_checks(), 1, "{health:?}");
        assert!(start.elapsed() < Duration::from_secs(3), "{health:?}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_cancelled_health_check_is_taken_over_by_the_next_request() {
    let sandboxd = Sandboxd::start(Health::Hanging).await;
    let gates = gates(&with_sandboxd(sandboxd.address, "access = 'lan'"), ON);
    let request = axum::http::Request::builder().header("x-remcochat-admin-token", crate::app::TOKEN);
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let left = tokio::time::timeout(Duration::from_millis(100), gates.decide(&parts)).await;
    assert!(left.is_err());
    assert!(!gates.decide(&parts).await.is_enabled());
    assert_eq!(sandboxd.health_checks(), 2);
}
