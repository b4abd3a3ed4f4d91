//! Network policies of sandboxes: allowed destinations, changes, and the list of denials.

use sandbox_api::network::{Denial, DenialReason};
use sandbox_api::sandbox::Network;
use sandbox_api::{ErrorCode, SandboxId};
use sandboxd::model::limits;
use serde_json::json;

use crate::support::harness::{Daemon, Home, over_each_transport, script, until};
use crate::support::http::Answer;
use crate::support::http::HttpClient;
use crate::support::network::{network, sandbox_with};
use crate::support::sink::{OPENED, Sink};

/// A home whose resolver maps names below `example` to the sink's allowed host.
fn home() -> Home {
    let names = ["a", "b", "deep.c", "c"].map(|name| format!("{name}.example={OPENED}")).join(",");
    Home::new()
        .set("SANDBOXD_EGRESS_ALLOW_CIDR", &format!("{OPENED}/32"))
        .set("SANDBOXD_EGRESS_HOSTS", &names)
}

async fn get(daemon: &Daemon, sandbox: &SandboxId, url: &str) -> String {
    daemon.output(sandbox, &format!("curl -sS -m 20 {url} || true")).await
}

/// The denial without its time.
fn plain(denials: Vec<Denial>) -> Vec<(String, u16, u64, DenialReason)> {
    denials.into_iter().map(|it| (it.host, it.port, it.count, it.reason)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowlist_allows_only_its_names_and_lists_the_denials() {
    let Some(sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(home()).await;
    let sandbox = sandbox_with(&daemon, "chat:1", "allowlist", &["A.example.", "*.c.example"]).await;
    let reported = daemon.client.get(&sandbox).await.unwrap().network;
    assert_eq!(reported, network("allowlist", &["a.example", "*.c.example"]).unwrap());
    assert_eq!(get(&daemon, &sandbox, "http://a.example/").await, "the sink\n");
    assert_eq!(get(&daemon, &sandbox, "http://deep.C.example./").await, "the sink\n");
    let arrived = sink.arrivals(OPENED).len();
    for _ in 0..2 {
        let refused = get(&daemon, &sandbox, "http://b.example/").await;
        assert!(refused.contains("ask for b.example to be allowed"), "{refused}");
    }
    get(&daemon, &sandbox, "http://c.example/").await;
    get(&daemon, &sandbox, "https://b.example/").await;
    get(&daemon, &sandbox, &format!("http://{OPENED}/")).await;
    assert_eq!(sink.arrivals(OPENED).len(), arrived, "denied connections do not arrive");
    let denials = daemon.client.denials(&sandbox).await.unwrap().denials;
    assert!(denials.is_sorted_by(|newer, older| newer.last_at >= older.last_at));
    let wanted = [
        (OPENED.to_string(), 80, 1, DenialReason::AddressNotAllowed),
        ("b.example".into(), 443, 1, DenialReason::HostNotAllowed),
        ("c.example".into(), 80, 1, DenialReason::HostNotAllowed),
        ("b.example".into(), 80, 2, DenialReason::HostNotAllowed),
    ];
    assert_eq!(plain(denials), wanted);
    let metrics = HttpClient::of(&daemon).get("/metrics").await;
    let metrics = String::from_utf8(metrics.body).unwrap();
    let line = r#"sandboxd_egress_decisions_total{result="denied",reason="host_not_allowed"} 4"#;
    assert!(metrics.contains(line) && metrics.contains("sandboxd_egress_bytes_total"), "{metrics}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_is_complete_when_the_server_closes_after_it() {
    let Some(_sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(home()).await;
    let sandbox = sandbox_with(&daemon, "chat:1", "allowlist", &["a.example"]).await;
    for path in ["leave", "old"] {
        let script = format!("for i in $(seq 10); do curl -sS -m 20 http://a.example/{path}; done");
        assert_eq!(daemon.output(&sandbox, &script).await, "the sink\n".repeat(10), "{path}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_not_used_for_another_host_of_the_same_server() {
    let Some(sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(home()).await;
    let sandbox = sandbox_with(&daemon, "chat:1", "allowlist", &["a.example"]).await;
    let bytes = || sink.arrivals(OPENED).last().unwrap().bytes.clone();
    // The tunnel leads to the allowed name, and the request inside names the other host.
    let fronted = "curl -sS -m 10 -k --connect-to b.example:443:a.example:443 https://b.example/; true";
    daemon.output(&sandbox, fronted).await;
    assert_eq!(bytes(), b"", "nothing of the TLS hello for the other host has arrived");
    let http = "exec 3<>/dev/tcp/127.0.0.1/13128
        printf 'CONNECT a.example:80 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; until [ \"$line\" = $'\\r' ]; do read -r -t 10 line <&3 || break; done
        printf 'GET / HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' HOST >&3; timeout 5 head -c 17 <&3; true";
    assert_eq!(daemon.output(&sandbox, &http.replace("HOST", "b.example")).await, "");
    assert_eq!(bytes(), b"");
    let nothing = "exec 3<>/dev/tcp/127.0.0.1/13128
        printf 'CONNECT a.example:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\nSSH-2.0-sneaky\\r\\n' >&3; timeout 5 cat <&3; true";
    daemon.output(&sandbox, nothing).await;
    assert_eq!(bytes(), b"", "neither TLS nor HTTP");
    let denials = daemon.client.denials(&sandbox).await.unwrap().denials;
    let wanted = [
        ("a.example".into(), 443, 2, DenialReason::NameMismatch),
        ("a.example".into(), 80, 1, DenialReason::NameMismatch),
    ];
    assert_eq!(plain(denials), wanted);
    // A hello for the allowed name arrives.
    assert_eq!(daemon.output(&sandbox, &http.replace("HOST", "a.example")).await, "HTTP/1.1 200 OK\r\n");
    daemon.output(&sandbox, "curl -sS -m 5 -k https://a.example/; true").await;
    let hello = bytes();
    assert!(hello.starts_with(&[22, 3]) && hello.windows(9).any(|part| part == b"a.example"), "{hello:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_policy_applies_at_once_and_cuts_denied_connections() {
    let Some(_sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(home()).await;
    let sandbox = daemon.sandbox("chat:1").await;
    // Receives a byte now and then from each of two hosts and reports how each connection ended.
    let hold = "for h in a b; do (
          exec 3<>/dev/tcp/127.0.0.1/13128
          printf 'CONNECT %s.example:80 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' $h >&3; until [ \"$line\" = $'\\r' ]; do read -r line <&3 || break; done
          touch open-$h
          while [ ! -e done ] && echo x >&3 && read -r -t 10 line <&3; do sleep 0.05; done 2>/dev/null
          [ -e done ] && echo stayed >how-$h || echo cut >how-$h ) & done; wait";
    let held = daemon.client.start(&sandbox, &script(hold)).await.unwrap();
    let is_there = |name: &'static str| {
        let (daemon, sandbox) = (&daemon, &sandbox);
        async move { daemon.client.read_file(sandbox, name).await.unwrap().is_some() }
    };
    until("a is open", || is_there("open-a")).await;
    until("b is open", || is_there("open-b")).await;
    let changed =
        daemon.client.change_network(&sandbox, &network("allowlist", &["a.example"]).unwrap()).await;
    assert_eq!(changed.unwrap(), network("allowlist", &["a.example"]).unwrap());
    until("b is cut", || is_there("how-b")).await;
    // It is on the list, but its requests cannot be inspected.
    until("a is cut", || is_there("how-a")).await;
    daemon.client.wait(&sandbox, &held.command_id, None).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat how-a how-b").await, "cut\ncut\n");

    let off = Network { mode: Some("none".into()), allow: None };
    let changed = daemon.client.change_network(&sandbox, &off).await.unwrap();
    assert_eq!(changed, network("none", &["a.example"]).unwrap(), "the list is kept");
    assert!(get(&daemon, &sandbox, "http://a.example/").await.contains("this sandbox has no network"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_survives_a_lost_daemon_container_and_store() {
    let Some(_sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(home()).await;
    let sandbox = sandbox_with(&daemon, "chat:1", "allowlist", &["a.example"]).await;
    let check = async |daemon: &Daemon| {
        assert_eq!(get(daemon, &sandbox, "http://a.example/").await, "the sink\n");
        assert!(get(daemon, &sandbox, "http://b.example/").await.contains("is refused"));
    };
    check(&daemon).await;
    // A daemon that restores the running container.
    let daemon = Daemon::start_in(daemon.stop().await).await;
    check(&daemon).await;
    // A change does not wake a parked sandbox.
    daemon.client.park(&sandbox, true).await.unwrap();
    let request = Network { mode: None, allow: Some(vec!["*.example".into()]) };
    daemon.client.change_network(&sandbox, &request).await.unwrap();
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().state, sandbox_api::sandbox::SandboxState::Parked);
    assert_eq!(
        get(&daemon, &sandbox, "http://b.example/").await,
        "the sink\n",
        "the woken sandbox has the new policy"
    );
    // Another request for the same session, with another policy.
    let found = sandbox_with(&daemon, "chat:1", "allowlist", &["a.example"]).await;
    assert_eq!(found, sandbox);
    check(&daemon).await;
    // Without the store, the policy in the container's labels applies.
    let home = daemon.stop().await;
    for file in ["sandboxd.db", "sandboxd.db-wal", "sandboxd.db-shm"] {
        let _ = std::fs::remove_file(home.path().join("state").join(file));
    }
    let daemon = Daemon::start_in(home).await;
    let reported = daemon.client.get(&sandbox).await.unwrap().network;
    assert_eq!(
        reported,
        network("allowlist", &["*.example"]).unwrap(),
        "the policy from the container's creation"
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_change_of_the_network_names_its_field_and_changes_nothing() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with(&daemon, "chat:1", "allowlist", &["a.example"]).await;
    let api = HttpClient::of(&daemon);
    let path = format!("/v1/sandboxes/{sandbox}/network");
    let patch = |body: serde_json::Value| Answer::to(api.with_token("PATCH", &path).json(&body));
    let cases = [
        (json!({ "mode": "all" }), "mode"),
        (json!({ "mode": 1 }), "mode"),
        (json!({ "allow": "a.example" }), "allow"),
        (json!({ "allow": ["b.example", "10.0.0.0/8"] }), "allow[1]"),
        (json!({ "mode": "none", "allow": [""] }), "allow[0]"),
        (json!([]), "body"),
    ];
    for (body, field) in cases {
        patch(body.clone()).await.faults(field, &body.to_string());
    }
    for unchanged in [json!({}), json!({ "mode": null, "allow": null, "more": 1 })] {
        let answer = patch(unchanged).await;
        assert_eq!(answer.json(), json!({ "mode": "allowlist", "allow": ["a.example"] }));
    }
    daemon.client.delete(&sandbox).await.unwrap();
    for (method, path) in [("PATCH", path.clone()), ("GET", format!("{path}/denials"))] {
        let answer = Answer::to(api.with_token(method, &path).json(&json!({}))).await;
        assert_eq!(answer.refused(ErrorCode::NotFound, &path).details["resource"], "sandbox");
    }
    daemon.stop().await;
}

over_each_transport!(a_denied_request_of_a_default_sandbox_gets_an_explanation);

async fn a_denied_request_of_a_default_sandbox_gets_an_explanation(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let refused = get(daemon, &sandbox, "http://127.1:81/; curl -sS -m 20 http://169.254.169.254/").await;
    assert!(refused.contains("is refused") || refused.contains("is not a host"), "{refused}");
    let missing = daemon.run(&sandbox, "curl -sS -m 30 http://nowhere.invalid/").await;
    assert!(missing.text().contains("there is no such host"), "{missing:?}");
    answers_a_burst(daemon, &sandbox).await;
}

/// Requests of a burst: more than may begin in a second, and fewer than may be open at once.
const BURST: u64 = 250;

/// Sends all of them before it reads the first answer. Prints the status of each.
const BURST_OF_REQUESTS: &str = "python3 - <<'END'
import socket
ends = [socket.create_connection(('127.0.0.1', 13128), 60) for _ in range(BURST)]
for end in ends:
    end.sendall(b'GET http://10.0.0.1/ HTTP/1.1\\r\\nHost: 10.0.0.1\\r\\nConnection: close\\r\\n\\r\\n')
for end in ends:
    print(end.makefile('rb').readline().split()[1].decode())
END";

/// The policy refuses as many as may begin at once, the limit refuses others, and each gets an answer.
async fn answers_a_burst(daemon: &Daemon, sandbox: &SandboxId) {
    let denied = async |reason| {
        let denials = daemon.client.denials(sandbox).await.unwrap().denials;
        denials
            .iter()
            .filter(|it| it.host == "10.0.0.1" && it.reason == reason)
            .map(|it| it.count)
            .sum::<u64>()
    };
    let said = daemon.output(sandbox, &BURST_OF_REQUESTS.replace("BURST", &BURST.to_string())).await;
    let count = |code: &str| said.lines().filter(|line| *line == code).count() as u64;
    let (by_policy, by_limit) = (count("403"), count("503"));
    assert_eq!(by_policy + by_limit, BURST, "{said}");
    // Requests before the burst count too.
    assert!(by_policy >= u64::from(limits::EGRESS_CONNECTIONS_PER_SECOND) - 5, "{by_policy} by the policy");
    assert!(by_limit > 0, "the limit refused none of {BURST}");
    assert_eq!(denied(DenialReason::AddressNotAllowed).await, by_policy);
    assert_eq!(denied(DenialReason::Limit).await, by_limit);
    // A moment later there is room again.
    let one = async || daemon.output(sandbox, "curl -s -m 20 http://10.0.0.1/").await;
    until("the policy answers again", async || one().await.contains("is refused")).await;
}
