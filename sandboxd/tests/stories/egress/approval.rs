//! Denials as they happen, and allowing a denied host.

use std::time::Duration;

use futures::StreamExt;
use sandbox_api::network::{AllowScope, Denial, DenialReason, DenialRecord};
use sandbox_api::sandbox::SandboxState;
use sandbox_api::{DenialId, ErrorCode, SandboxId};
use sandbox_client::Denials;
use sandboxd::model::limits;

use crate::support::harness::{Daemon, Home, outcome, script};
use crate::support::network::{network, sandbox_with};
use crate::support::sink::{LAN, METADATA, OPENED, Sink};

/// A home with names of a host that sandboxes may reach, and of two that they must not.
fn home() -> Home {
    let names = ["a", "b"].map(|name| format!("{name}.example={OPENED}")).join(",");
    Home::new()
        .set("SANDBOXD_EGRESS_ALLOW_CIDR", &format!("{OPENED}/32"))
        .set("SANDBOXD_EGRESS_HOSTS", &format!("{names},lan.example={LAN},cloud.example={METADATA}"))
}

async fn get(daemon: &Daemon, sandbox: &SandboxId, url: &str) -> String {
    daemon.output(sandbox, &format!("curl -sS -m 20 {url} || true")).await
}

async fn denied(denials: &mut Denials) -> Denial {
    match denials.next().await {
        Some(Ok(DenialRecord::Denied(denial))) => denial,
        other => panic!("{other:?}"),
    }
}

/// The latest denial of a host.
async fn denial_of(daemon: &Daemon, sandbox: &SandboxId, host: &str) -> Denial {
    let denials = daemon.client.denials(sandbox).await.unwrap().denials;
    denials.into_iter().find(|denial| denial.host == host).unwrap_or_else(|| panic!("no denial of {host}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_command_has_the_number_of_its_denials() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with(&daemon, "chat:1", "allowlist", &[]).await;
    for (text, denials) in [
        ("curl -sS -m 20 http://a.example/ http://b.example/; curl -sS -m 20 http://a.example/", 3),
        ("true", 0),
    ] {
        let ended = outcome(daemon.client.run(&sandbox, &script(text)).await.unwrap()).await;
        assert_eq!(ended.denials, Some(denials), "{text}");
    }
    // Another reader does not know when the command started.
    let listed = &daemon.client.commands(&sandbox, 1).await.unwrap().commands[0];
    let logged = outcome(daemon.client.logs(&sandbox, &listed.command_id, 0, true).await.unwrap()).await;
    assert_eq!(logged.denials, None);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn denials_are_streamed_while_they_happen_and_do_not_keep_a_sandbox_in_use() {
    let Some(_sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(home()).await;
    let sandbox = sandbox_with(&daemon, "chat:1", "allowlist", &[]).await;
    get(&daemon, &sandbox, "http://a.example/").await;
    let mut denials = daemon.client.follow_denials(&sandbox).await.unwrap();
    let first = denied(&mut denials).await;
    assert_eq!((first.host.as_str(), first.port, first.count), ("a.example", 80, 1));
    assert_eq!((first.reason, first.allowable), (DenialReason::HostNotAllowed, true));
    let ready = denials.next().await.unwrap().unwrap();
    assert!(matches!(ready, DenialRecord::Ready { at } if at >= first.last_at), "{ready:?}");
    get(&daemon, &sandbox, "http://a.example/").await;
    let again = denied(&mut denials).await;
    assert_eq!((again.id, again.count), (first.id, 2));
    get(&daemon, &sandbox, &format!("http://{METADATA}/")).await;
    let metadata = denied(&mut denials).await;
    assert_eq!((metadata.reason, metadata.allowable), (DenialReason::AddressNotAllowed, false));
    daemon.client.park(&sandbox, false).await.unwrap();
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().state, SandboxState::Parked);
    get(&daemon, &sandbox, "http://b.example/").await;
    assert_eq!(
        denied(&mut denials).await.host,
        "b.example",
        "the stream continues after the sandbox was parked"
    );
    daemon.client.delete(&sandbox).await.unwrap();
    assert_eq!(denials.next().await.unwrap().unwrap(), DenialRecord::Gone);
    assert!(denials.next().await.is_none());
    assert!(daemon.client.follow_denials(&sandbox).await.is_err());

    let other = sandbox_with(&daemon, "chat:2", "allowlist", &[]).await;
    let mut denials = daemon.client.follow_denials(&other).await.unwrap();
    assert!(matches!(denials.next().await, Some(Ok(DenialRecord::Ready { .. }))));
    daemon.stop().await;
    assert_eq!(denials.next().await.unwrap().unwrap(), DenialRecord::Lost);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_host_is_allowed_for_one_use_or_for_the_sandbox() {
    let Some(_sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(home()).await;
    let sandbox = sandbox_with(&daemon, "chat:1", "allowlist", &[]).await;
    let is_denied = || async { get(&daemon, &sandbox, "http://a.example/").await.contains("is refused") };
    assert!(is_denied().await);
    let denial = denial_of(&daemon, &sandbox, "a.example").await.id.unwrap();
    let once = daemon.client.allow_denied(&sandbox, &denial, AllowScope::Once).await.unwrap();
    assert_eq!((once.host.as_str(), once.port, once.rule.as_str()), ("a.example", 80, "a.example"));
    assert!(once.until.is_some());
    let twice = "curl -sS -m 20 http://a.example/; curl -sS -m 20 http://a.example/";
    assert_eq!(
        daemon.output(&sandbox, twice).await,
        "the sink\nthe sink\n",
        "one use has several connections"
    );
    assert!(get(&daemon, &sandbox, "http://b.example/").await.contains("is refused"));
    let allow = || async { daemon.client.get(&sandbox).await.unwrap().network.allow.unwrap() };
    assert_eq!(allow().await, [""; 0], "the policy is the same");
    tokio::time::sleep(limits::PASS_IDLE + Duration::from_secs(1)).await;
    assert!(is_denied().await, "one use is over");

    daemon.client.allow_denied(&sandbox, &denial, AllowScope::Once).await.unwrap();
    daemon.client.change_network(&sandbox, &network("allowlist", &["c.example"]).unwrap()).await.unwrap();
    assert!(is_denied().await, "another policy ends what was allowed");

    for _ in 0..2 {
        let allowed = daemon.client.allow_denied(&sandbox, &denial, AllowScope::Sandbox).await.unwrap();
        assert_eq!((allowed.rule.as_str(), allowed.until), ("a.example", None));
        assert_eq!(allow().await, ["c.example", "a.example"]);
    }
    assert_eq!(get(&daemon, &sandbox, "http://a.example/").await, "the sink\n");
    get(&daemon, &sandbox, "http://a.example:8080/").await;
    let with_port = denial_of(&daemon, &sandbox, "a.example").await;
    assert_eq!((with_port.port, with_port.reason), (8080, DenialReason::PortNotAllowed));
    let allowed =
        daemon.client.allow_denied(&sandbox, &with_port.id.unwrap(), AllowScope::Sandbox).await.unwrap();
    assert_eq!(allowed.rule, "a.example:8080");
    let daemon = Daemon::start_in(daemon.stop().await).await;
    let kept = daemon.client.get(&sandbox).await.unwrap().network.allow.unwrap();
    assert_eq!(kept, ["c.example", "a.example", "a.example:8080"]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_allows_an_address_that_is_not_public() {
    let Some(sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(home()).await;
    let sandbox = sandbox_with(&daemon, "chat:1", "allowlist", &[]).await;
    let hosts = [
        "lan.example",
        "cloud.example",
        &LAN.to_string(),
        &METADATA.to_string(),
        "127.0.0.1",
        "100.64.0.1",
        "224.0.0.1",
        "fd00::1",
        "fe80::1",
        "::ffff:8.8.8.8",
    ];
    for host in hosts {
        let url = if host.contains(':') { format!("http://[{host}]/") } else { format!("http://{host}/") };
        let asked = format!("curl -gsS -m 20 -x http://127.0.0.1:13128 --noproxy '' {url} || true");
        let answer = daemon.output(&sandbox, &asked).await;
        assert!(answer.contains("is refused"), "{host}: {answer}");
        let denial = denial_of(&daemon, &sandbox, host).await;
        assert_eq!(denial.allowable, host.ends_with(".example"), "{host}");
        for scope in [AllowScope::Once, AllowScope::Sandbox] {
            let error =
                daemon.client.allow_denied(&sandbox, denial.id.as_ref().unwrap(), scope).await.unwrap_err();
            let body = error.body().unwrap();
            assert_eq!(body.code, ErrorCode::Refused, "{host}: {body:?}");
            assert!(body.error.contains("outside the public internet"), "{body:?}");
        }
        assert!(daemon.output(&sandbox, &asked).await.contains("is refused"), "{host}");
    }
    assert!(sink.arrivals(LAN).is_empty() && sink.arrivals(METADATA).is_empty());

    get(&daemon, &sandbox, "http://a.example/").await;
    let allowable = denial_of(&daemon, &sandbox, "a.example").await.id.unwrap();
    let code = |error: sandbox_client::Error| error.code();
    let (client, sandbox) = (&daemon.client, &sandbox);
    let allow = async |denial: &DenialId| client.allow_denied(sandbox, denial, AllowScope::Sandbox).await;
    let unknown: DenialId = "den_0123456789abcdef".parse().unwrap();
    let other = sandbox_with(&daemon, "chat:2", "allowlist", &[]).await;
    let of_other = daemon.client.allow_denied(&other, &allowable, AllowScope::Sandbox).await;
    assert_eq!(of_other.map_err(code), Err(Some(ErrorCode::NotFound)), "it belongs to another sandbox");
    assert_eq!(allow(&unknown).await.map_err(code), Err(Some(ErrorCode::NotFound)));
    client.change_network(sandbox, &network("none", &[]).unwrap()).await.unwrap();
    assert_eq!(allow(&allowable).await.map_err(code), Err(Some(ErrorCode::Refused)), "nothing means nothing");
    daemon.stop().await;
}
