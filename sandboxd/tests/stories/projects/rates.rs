//! Limits on the number of requests.

use sandbox_api::ErrorCode;
use sandbox_api::sandbox::CreateSandbox;

use super::{client_of, token_of};
use crate::support::harness::{Daemon, Home, script};
use crate::support::http::{Answer, HttpClient};

fn header(answer: &Answer, name: &str) -> String {
    answer.headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_that_reads_too_often_can_still_run_commands() {
    let home = Home::new().set("SANDBOXD_READS_PER_MINUTE", "20").set("SANDBOXD_COMMANDS_PER_MINUTE", "50");
    let daemon = Daemon::start_in(home).await;
    let token = token_of(&daemon, "lab", Some("ann"), &["use"]).await.token;
    let ann = sandbox_client::Client::new(&daemon.base, &token).unwrap();
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let id = ann.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let api = HttpClient::of(&daemon);
    let read = async |token: &str| {
        let request =
            api.without_token("GET", "/v1/whoami").header("authorization", format!("Bearer {token}"));
        Answer::to(request).await
    };
    let first = read(&token).await;
    assert_eq!(header(&first, "ratelimit-policy"), r#""reads";q=20;w=60"#);
    assert!(header(&first, "ratelimit").starts_with(r#""reads";r="#), "{}", header(&first, "ratelimit"));
    let mut refused = None;
    for _ in 0..40 {
        let answer = read(&token).await;
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("more than 20 reads are served");
    assert_eq!(refused.status, 429);
    let seconds: u64 = header(&refused, "retry-after").parse().unwrap();
    assert!((1..=4).contains(&seconds), "{seconds}");
    assert_eq!(header(&refused, "ratelimit"), format!(r#""reads";r=0;t={seconds}"#));
    let refused = refused.refused(ErrorCode::RateLimited, "requests in a minute (reads)");
    assert_eq!((&refused.details["limit"], &refused.details["class"]), (&20.into(), &"reads".into()));

    // Commands, other subjects and the operator have counts of their own.
    ann.run(&id, &script("true")).await.unwrap();
    client_of(&daemon, "lab", Some("bob"), &["use"]).await.whoami().await.unwrap();
    for _ in 0..60 {
        assert_eq!(Answer::to(api.with_token("GET", "/v1/whoami")).await.status, 200);
    }
    let unlimited = Answer::to(api.with_token("GET", "/v1/whoami")).await;
    assert_eq!(header(&unlimited, "ratelimit"), "", "the operator has no limit");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_that_of_the_client_behind_a_trusted_proxy() {
    let home = Home::new().set("SANDBOXD_READS_PER_MINUTE", "2").set("SANDBOXD_TRUSTED_PROXIES", "127.0.0.1");
    let daemon = Daemon::start_in(home).await;
    let api = HttpClient::of(&daemon);
    let mut tokens = Vec::new();
    for number in 0..30 {
        tokens.push(token_of(&daemon, "lab", Some(&format!("user{number}")), &["use"]).await.token);
    }
    let served = async |address: &str| {
        let mut served = 0;
        for token in &tokens {
            let request = api.without_token("GET", "/v1/whoami").header("x-forwarded-for", address);
            let answer = Answer::to(request.header("authorization", format!("Bearer {token}"))).await;
            served += usize::from(answer.status == 200);
        }
        served
    };
    // Ten times as many as a subject, and a few more if the requests take seconds.
    for address in ["192.0.2.7", "192.0.2.8"] {
        let served = served(address).await;
        assert!((20..25).contains(&served), "{address}: {served}");
    }
    daemon.stop().await;
}
