//! The gates that stand against those who try: wrong tokens, and what the log says of them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use sandbox_api::{ErrorCode, TOKEN_HEADER};
use sandboxd::model::limits;

use crate::support::harness::{Daemon, SOON, TOKEN, until};
use crate::support::http::{Answer, Asker};

const PATH: &str = "/v1/sandboxes/sbx_0000000000000000:stop";

async fn with(asker: &Asker, token: &str) -> Answer {
    Answer::to(asker.without_token("POST", PATH).header(TOKEN_HEADER, token)).await
}

/// Tries wrong tokens until it is told to wait; how many were answered before.
async fn tries(asker: &Asker) -> (u32, Answer) {
    for n in 0.. {
        let answer = with(asker, &format!("wrong-{n}")).await;
        if answer.status != ErrorCode::Unauthenticated.status() {
            return (n, answer);
        }
    }
    unreachable!("numbers have no end")
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_often_wrong_about_the_token_must_wait_and_nobody_else() {
    let daemon = Daemon::start().await;
    let asker = Asker::of(&daemon);
    let began = Instant::now();
    let (answered, refused) = tries(&asker).await;
    let refilled = (began.elapsed().as_secs_f64() / limits::AUTH_FAILURES.period.as_secs_f64()) as u32;
    let failures = limits::AUTH_FAILURES.failures.get();
    assert!((failures..=failures + refilled).contains(&answered), "{answered}");
    refused.refused(ErrorCode::RateLimited, "one too many");
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=2).contains(&wait), "{wait} s");

    // The right one is let in from the same address, and who has none yet is told so.
    assert_eq!(with(&asker, TOKEN).await.status, 200);
    Answer::to(asker.without_token("POST", PATH)).await.refused(ErrorCode::Unauthenticated, "no token");
    assert_eq!(Answer::to(asker.without_token("GET", "/v1/health")).await.status, 200);
    // Others have their own count: every address of 127.0.0.0/8 is this machine's.
    let other = Asker::from(&daemon, IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)));
    with(&other, "wrong").await.refused(ErrorCode::Unauthenticated, "another address");
    // And it passes.
    until("it may try again", || async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        with(&asker, "wrong").await.status == 401
    })
    .await;
    assert!(began.elapsed() < SOON);
    daemon.stop().await;
}
