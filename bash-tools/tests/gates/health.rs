//! The last gate: a sandboxd that hangs, is ill, or is none.

use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::app::{App, HERE, Mood, ON, Sandboxd, gates, with_sandboxd, with_tools, without_tools};

/// Lets time pass for the app, without waiting for it.
async fn later(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}

async fn app(sandboxd: &Sandboxd) -> App {
    App::start(gates(&with_sandboxd(sandboxd.address, ""), ON)).await
}

#[tokio::test]
async fn whatever_is_no_healthy_sandboxd_means_no_tools() {
    for mood in [Mood::Unwell, Mood::Rubbish, Mood::NotOk, Mood::Endless, Mood::Redirecting, Mood::Hanging] {
        let sandboxd = Sandboxd::start(mood).await;
        let app = app(&sandboxd).await;
        let start = Instant::now();
        assert_eq!(app.chat(HERE, &[]).await, without_tools("Unhealthy"), "{mood:?}");
        assert!(start.elapsed() < Duration::from_secs(2), "{mood:?}: {:?}", start.elapsed());
        let start = Instant::now();
        assert_eq!(app.chat(HERE, &[]).await, without_tools("Unhealthy"), "{mood:?}");
        assert!(start.elapsed() < Duration::from_millis(700), "{mood:?}: what was seen serves");
        assert_eq!(sandboxd.looks(), 1, "{mood:?}");
    }
}

#[tokio::test]
async fn a_sandboxd_that_is_not_there_means_no_tools() {
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let app = App::start(gates(&with_sandboxd(nobody, ""), ON)).await;
    assert_eq!(app.chat(HERE, &[]).await, without_tools("Unhealthy"));
}

#[tokio::test]
async fn a_look_serves_for_five_seconds() {
    let sandboxd = Sandboxd::start(Mood::Well).await;
    let app = app(&sandboxd).await;
    for (pass, looks) in [(0, 1), (4_900, 1), (200, 2), (5_100, 3)] {
        later(Duration::from_millis(pass)).await;
        assert_eq!(app.chat(HERE, &[]).await, with_tools());
        assert_eq!(sandboxd.looks(), looks);
    }
}

#[tokio::test]
async fn many_requests_at_once_look_once() {
    for (mood, wanted) in [(Mood::Well, with_tools()), (Mood::Hanging, without_tools("Unhealthy"))] {
        let sandboxd = Sandboxd::start(mood).await;
        let app = app(&sandboxd).await;
        let start = Instant::now();
        for answer in join_all((0..50).map(|_| app.chat(HERE, &[]))).await {
            assert_eq!(answer, wanted, "{mood:?}");
        }
        assert_eq!(sandboxd.looks(), 1, "{mood:?}");
        assert!(start.elapsed() < Duration::from_secs(3), "{mood:?}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn who_leaves_while_looking_leaves_the_look_to_the_next() {
    let sandboxd = Sandboxd::start(Mood::Hanging).await;
    let gates = gates(&with_sandboxd(sandboxd.address, "access = 'lan'"), ON);
    let request = axum::http::Request::builder().header("x-remcochat-admin-token", crate::app::TOKEN);
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let left = tokio::time::timeout(Duration::from_millis(100), gates.decide(&parts)).await;
    assert!(left.is_err());
    assert!(!gates.decide(&parts).await.is_enabled());
    assert_eq!(sandboxd.looks(), 2);
}
