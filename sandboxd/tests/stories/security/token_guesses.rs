//! Rate limits on wrong tokens.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use sandbox_api::{ErrorCode, TOKEN_HEADER};
use sandboxd::model::limits;

use crate::support::harness::{Daemon, SOON, TOKEN, until};
use crate::support::http::{Answer, HttpClient};

const PATH: &str = "/v1/sandboxes/sbx_0000000000000000:stop";

async fn with(api: &HttpClient, token: &str) -> Answer {
    Answer::to(api.without_token("POST", PATH).header(TOKEN_HEADER, token)).await
}

/// Sends wrong tokens until the rate limit applies. Returns the number of requests answered before.
async fn guess_until_limited(api: &HttpClient) -> (u32, Answer) {
    for n in 0.. {
        let answer = with(api, &format!("wrong-{n}")).await;
        if answer.status != ErrorCode::Unauthenticated.status() {
            return (n, answer);
        }
    }
    unreachable!("numbers have no end")
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_client_with_many_wrong_tokens_is_rate_limited() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let began = Instant::now();
    let (answered, refused) = guess_until_limited(&api).await;
    let refilled = (began.elapsed().as_secs_f64() / limits::AUTH_FAILURE_PERIOD.as_secs_f64()) as u32;
    let failures = limits::AUTH_FAILURES.get();
    assert!((failures..=failures + refilled).contains(&answered), "{answered}");
    refused.refused(ErrorCode::RateLimited, "one too many");
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=2).contains(&wait), "{wait} s");

    // The right token is accepted from the same address, and a missing token is reported as such.
    assert_eq!(with(&api, TOKEN).await.status, 200);
    Answer::to(api.without_token("POST", PATH)).await.refused(ErrorCode::Unauthenticated, "no token");
    assert_eq!(Answer::to(api.without_token("GET", "/v1/health")).await.status, 200);
    // Every address has its own count. Every address of 127.0.0.0/8 is this machine's.
    let other = HttpClient::from(&daemon, IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)));
    with(&other, "wrong").await.refused(ErrorCode::Unauthenticated, "another address");
    // The limit expires.
    until("it may try again", || async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        with(&api, "wrong").await.status == 401
    })
    .await;
    assert!(began.elapsed() < SOON);
    daemon.stop().await;
}
