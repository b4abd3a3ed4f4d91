//! Destinations that a sandbox may not reach, checked at the destination.

use std::net::Ipv4Addr;

use sandbox_api::SandboxId;
use sandbox_api::network::DenialReason;
use sandbox_api::sandbox::Network;
use tokio::net::TcpListener;

use crate::support::harness::{Daemon, Home, LINK_PORTS};
use crate::support::network::{sandbox_with, statuses};
use crate::support::sink::{HERE, LAN, METADATA, OPENED, Sink};

/// All spellings of an address that some parser reads as that address.
fn notations(address: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = address.octets();
    let whole = address.to_bits();
    let low = whole & 0x00ff_ffff;
    vec![
        format!("{address}"),
        format!("{address}."),
        format!("{whole}"),
        format!("0x{whole:08x}"),
        format!("0X{whole:X}"),
        format!("0{whole:o}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"),
        format!("{a}.{b}.{}", u16::from_be_bytes([c, d])),
        format!("{a}.{low}"),
        format!("{a:03}.{b:03}.{c:03}.{d:03}"),
        format!("[::ffff:{address}]"),
        format!("[::{address}]"),
        format!("[64:ff9b::{address}]"),
        format!("[64:ff9b:1::{address}]"),
        format!("[2002:{:x}:{:x}::1]", u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        format!("[::ffff:0:{address}]"),
        format!("{address}%eth0"),
        format!("[fe80::1%25eth0]"),
    ]
}

/// Names with all kinds of addresses, as a resolver controlled by an attacker would answer.
fn names() -> String {
    let to = |name: &str, address: &str| format!("{name}.example={address}");
    [
        to("lan", &LAN.to_string()),
        to("both", "8.8.8.8"),
        to("both", &LAN.to_string()),
        to("meta", &METADATA.to_string()),
        to("mapped", &format!("::ffff:{LAN}")),
        to("nat", &format!("64:ff9b::{LAN}")),
        to("loop", "127.0.0.1"),
        to("loop6", "::1"),
        to("zero", "0.0.0.0"),
        to("here", &HERE.to_string()),
        to("local6", "fe80::1"),
        to("opened", &OPENED.to_string()),
    ]
    .join(",")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lan_and_the_metadata_service_are_reachable_only_if_the_operator_allows_them() {
    let Some(sink) = Sink::open() else { return };
    // First all of them must be reachable. Otherwise the checks below prove nothing.
    let ranges = format!("{LAN}/32,{METADATA}/32,{OPENED}/32");
    let home = Home::new().set("SANDBOXD_EGRESS_ALLOW_CIDR", &ranges).set("SANDBOXD_EGRESS_HOSTS", &names());
    let daemon = Daemon::start_in(home).await;
    let sandbox = daemon.sandbox("chat:1").await;
    for url in [format!("http://{LAN}/"), format!("http://{METADATA}/"), "http://lan.example/".to_owned()] {
        assert_eq!(daemon.output(&sandbox, &format!("curl -sS -m 20 {url}")).await, "the sink\n", "{url}");
    }
    let reached = statuses(&daemon, &sandbox, &[format!("{LAN}:443"), "meta.example:80".into()]).await;
    assert_eq!(reached, [format!("{LAN}:443 200"), "meta.example:80 200".into()]);
    assert_eq!((sink.arrivals(LAN).len(), sink.arrivals(METADATA).len()), (3, 2));
    assert!(daemon.client.denials(&sandbox).await.unwrap().denials.is_empty());
    let home = daemon.stop().await;

    // From now on only one host is allowed, and the sandbox tries to reach the others in every way.
    let home = home.set("SANDBOXD_EGRESS_ALLOW_CIDR", &format!("{OPENED}/32"));
    let daemon = Daemon::start_in(home).await;
    let everything =
        ["*", "*:22", "*:25", "*:53", "*:8080", "10.77.0.2", "169.254.169.254", "[::ffff:10.77.0.2]"];
    let listed = sandbox_with(&daemon, "chat:2", "allowlist", &everything).await;
    for sandbox in [&sandbox, &listed] {
        rejects_every_notation(&daemon, sandbox).await;
        rejects_every_name_and_protocol(&daemon, sandbox).await;
    }
    // The client follows redirects with a new request.
    for path in ["lan", "metadata"] {
        let script = format!("curl -sS -m 20 -L -w '%{{http_code}}' http://opened.example/{path}");
        let answer = daemon.output(&sandbox, &script).await;
        assert!(answer.contains("is refused") && answer.ends_with("403"), "{path}: {answer}");
    }
    assert_eq!(sink.arrivals(OPENED).len(), 2, "the redirects came from somewhere");
    assert_eq!(
        (sink.arrivals(LAN).len(), sink.arrivals(METADATA).len()),
        (3, 2),
        "no more connections have arrived"
    );
    let denials = daemon.client.denials(&sandbox).await.unwrap().denials;
    assert!(
        denials.iter().any(|it| it.host == "meta.example" && it.reason == DenialReason::NotPublic),
        "{denials:?}"
    );
    assert!(denials.iter().any(|it| it.reason == DenialReason::Invalid), "{denials:?}");
    daemon.stop().await;
}

async fn rejects_every_notation(daemon: &Daemon, sandbox: &SandboxId) {
    let hosts: Vec<String> = [LAN, METADATA].into_iter().flat_map(notations).collect();
    let targets: Vec<String> = hosts.iter().map(|host| format!("{host}:80")).collect();
    for (target, status) in targets.iter().zip(statuses(daemon, sandbox, &targets).await) {
        assert!(status.starts_with(&format!("{target} 4")), "CONNECT {status}");
    }
    // A whole URL, and the same over SOCKS, with a client that parses numbers in its own way.
    let urls: Vec<String> = hosts.iter().map(|host| format!("'http://{host}/'")).collect();
    let script = format!(
        "for url in {}; do for how in '' '--socks5-hostname 127.0.0.1:13128'; do
           curl -g -sS -m 20 $how -o answer \"$url\" 2>/dev/null && grep -q 'the sink' answer && echo \"$url $how\"
         done; done; true",
        urls.join(" ")
    );
    assert_eq!(daemon.output(sandbox, &script).await, "", "these came back with the sink's answer");
}

async fn rejects_every_name_and_protocol(daemon: &Daemon, sandbox: &SandboxId) {
    let names = ["lan", "LAN", "both", "meta", "mapped", "nat", "loop", "loop6", "zero", "here", "local6"];
    let targets: Vec<String> = names.iter().map(|name| format!("{name}.example:80")).collect();
    for (target, status) in targets.iter().zip(statuses(daemon, sandbox, &targets).await) {
        assert_eq!(status, format!("{target} 403"));
    }
    // Without the proxy there is no network.
    let raw = format!(
        "for p in 22 53 80 443 8080; do timeout 2 bash -c \"echo hi >/dev/tcp/{LAN}/$p\" 2>/dev/null && echo tcp $p; done
         for p in 53 443 9999; do timeout 2 bash -c \"echo hi >/dev/udp/{LAN}/$p\" 2>/dev/null && echo udp $p; done
         timeout 3 dig +tries=1 +time=1 @{LAN} example.com >/dev/null 2>&1 && echo dns
         timeout 2 ping -c1 -W1 {LAN} >/dev/null 2>&1 && echo ping
         curl -s -m 5 --noproxy '*' http://{LAN}/ && echo direct
         getent hosts lan.example && echo resolved
         curl -s -m 5 --socks5 127.0.0.1:13128 http://{LAN}/ && echo socks
         ls /var/run/docker.sock /run/docker.sock 2>/dev/null && echo engine
         true"
    );
    assert_eq!(daemon.output(sandbox, &raw).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemons_own_ports_stay_blocked_even_if_this_machine_is_allowed() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let control = server.local_addr().unwrap().port();
    let home = Home::new().set("SANDBOXD_EGRESS_ALLOW_CIDR", "127.0.0.0/8");
    let daemon = Daemon::start_in(home).await;
    let api: u16 = daemon.base.rsplit(':').next().unwrap().parse().unwrap();
    // The ports of links are ports of the gateway as well.
    let link = *LINK_PORTS.start();
    let rules: Vec<String> = [control, api, link].iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let sandbox = sandbox_with(&daemon, "chat:1", "default", &rules).await;
    let found = daemon.client.get(&sandbox).await.unwrap();
    assert_eq!(found.network.allow.unwrap(), rules);
    let targets: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
    let asked = statuses(&daemon, &sandbox, &targets).await;
    let wanted = [(control, 200), (api, 403), (link, 403)];
    assert_eq!(asked, wanted.map(|(port, status)| format!("127.0.0.1:{port} {status}")));
    server.accept().await.unwrap();
    daemon.stop().await;

    // Without that setting, no port of this machine is reachable.
    let daemon = Daemon::start().await;
    let own = own_address();
    let rules = [format!("127.0.0.1:{control}"), format!("[::1]:{control}"), format!("{own}:{control}")];
    let names: Vec<&str> = rules.iter().map(String::as_str).collect();
    let sandbox = sandbox_with(&daemon, "chat:1", "default", &names).await;
    for (rule, status) in rules.iter().zip(statuses(&daemon, &sandbox, &rules).await) {
        assert_eq!(status, format!("{rule} 403"));
    }
    daemon.stop().await;
}

/// The source address of this machine.
fn own_address() -> std::net::IpAddr {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    match socket.connect("198.51.100.1:9") {
        Ok(()) => socket.local_addr().unwrap().ip(),
        Err(_) => Ipv4Addr::LOCALHOST.into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_and_ssh_ports_are_blocked_unless_named() {
    let Some(sink) = Sink::open() else { return };
    let home = Home::new()
        .set("SANDBOXD_EGRESS_ALLOW_CIDR", &format!("{OPENED}/32"))
        .set("SANDBOXD_EGRESS_HOSTS", &names());
    let daemon = Daemon::start_in(home).await;
    let sandbox = daemon.sandbox("chat:1").await;
    let ports = |ports: &[u16]| ports.iter().map(|port| format!("opened.example:{port}")).collect::<Vec<_>>();
    let tried = statuses(&daemon, &sandbox, &ports(&[22, 25, 53, 8080, 80])).await;
    let wanted = [(22, 403), (25, 403), (53, 403), (8080, 403), (80, 200)];
    assert_eq!(tried, wanted.map(|(port, status)| format!("opened.example:{port} {status}")));
    assert_eq!(sink.arrivals(OPENED).len(), 1);
    let reported = daemon.output(&sandbox, "curl -sS -m 20 http://opened.example:8080/").await;
    assert!(reported.contains("ask for opened.example:8080 to be allowed"), "{reported}");

    let request = Network { mode: None, allow: Some(vec!["opened.example:22".into(), "*:8080".into()]) };
    daemon.client.change_network(&sandbox, &request).await.unwrap();
    let tried = statuses(&daemon, &sandbox, &ports(&[22, 25, 8080, 443])).await;
    let wanted = [(22, 200), (25, 403), (8080, 200), (443, 200)];
    assert_eq!(tried, wanted.map(|(port, status)| format!("opened.example:{port} {status}")));
    assert!(sink.arrivals(OPENED).iter().all(|arrival| arrival.at.port() != 25));
    daemon.stop().await;
}
