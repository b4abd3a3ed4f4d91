//! The gate's decisions.

use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};

use sandbox_api::network::DenialReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{SOON, host};
use crate::blocked::Blocked;
use crate::here::Here;
use crate::{Error, Gate};
use sandboxd_model::{EgressSettings, NetworkMode, NetworkPolicy, Upstream, Upstreams};

fn policy(mode: NetworkMode, allow: &[String]) -> NetworkPolicy {
    NetworkPolicy::from_texts(mode, allow).unwrap()
}

fn gate(opened: &[&str], hosts: &[(&str, &str)]) -> Gate {
    let mut settings = EgressSettings {
        allow_cidr: opened.iter().map(|range| range.parse().unwrap()).collect(),
        ..EgressSettings::default()
    };
    for (name, address) in hosts {
        settings.hosts.entry((*name).to_owned()).or_default().push(address.parse().unwrap());
    }
    Gate::new(settings, Vec::new())
}

fn one_permit() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(1))
}

async fn reason(gate: &Gate, policy: &NetworkPolicy, name: &str, port: u16) -> Option<DenialReason> {
    match gate.connect(policy, &host(name), port, &one_permit()).await {
        Err(Error::Denied { reason }) => Some(reason),
        _ => None,
    }
}

#[tokio::test]
async fn a_name_with_any_non_public_address_is_rejected() {
    let addresses = [
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "192.168.1.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "0.0.0.0",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
    ];
    let open = policy(NetworkMode::Default, &[]);
    for address in addresses {
        let only = gate(&[], &[("a.example", address)]);
        assert_eq!(reason(&only, &open, "a.example", 443).await, Some(DenialReason::NotPublic), "{address}");
        let both =
            gate(&[], &[("a.example", "198.51.100.9"), ("a.example", "8.8.8.8"), ("a.example", address)]);
        assert_eq!(reason(&both, &open, "a.example", 443).await, Some(DenialReason::NotPublic), "{address}");
        let named = policy(NetworkMode::Allowlist, &[address.to_owned(), "a.example".into()]);
        assert_eq!(reason(&only, &named, "a.example", 443).await, Some(DenialReason::NotPublic), "{address}");
        assert_eq!(reason(&only, &named, address, 443).await, Some(DenialReason::NotPublic), "{address}");
    }
}

#[test]
fn hosts_on_local_networks_are_not_public_unless_permitted() {
    let here = Here::at(&["192.0.2.2/24", "2600:1::5/64"]);
    let reached = |gate: &Gate, address: &str| gate.may_reach(&here, address.parse().unwrap(), 443);
    let closed = gate(&[], &[]);
    for address in ["2600:1::5", "2600:1::9", "192.0.2.9"] {
        assert!(!reached(&closed, address), "{address}");
    }
    for address in ["2600:1:0:1::9", "203.0.113.9", "8.8.8.8"] {
        assert!(reached(&closed, address), "{address}");
    }
    let opened = gate(&["2600:1::8/125"], &[]);
    assert!(reached(&opened, "2600:1::9") && !reached(&opened, "2600:1::10"));
}

#[tokio::test]
async fn the_connection_is_made_to_the_address_that_was_checked() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    // The first address of the name, and the address on the next look-up.
    static LAST_OCTET: AtomicU8 = AtomicU8::new(1);
    let mut gate = gate(&["127.0.0.1/32"], &[]);
    gate.resolver.resolve = |_| Ok(vec![[127, 0, 0, LAST_OCTET.fetch_add(1, Ordering::SeqCst)].into()]);
    let open = policy(NetworkMode::Default, &[format!("*:{port}")]);
    let far = gate.connect(&open, &host("a.example"), port, &one_permit()).await.unwrap();
    assert_eq!(far.stream.peer_addr().unwrap(), server.local_addr().unwrap());
    assert_eq!(LAST_OCTET.load(Ordering::SeqCst), 2, "the name was resolved once");
    assert_eq!(
        reason(&gate, &open, "a.example", port).await,
        Some(DenialReason::NotPublic),
        "the second address"
    );
}

#[tokio::test]
async fn permitted_addresses_are_reachable_except_the_daemons_listeners() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    let named = policy(NetworkMode::Allowlist, &[format!("127.0.0.1:{port}")]);
    assert_eq!(reason(&gate(&[], &[]), &named, "127.0.0.1", port).await, Some(DenialReason::NotPublic));
    let opened = gate(&["127.0.0.0/8"], &[]);
    assert!(opened.connect(&named, &host("127.0.0.1"), port, &one_permit()).await.is_ok());
    let mut closed = gate(&["127.0.0.0/8"], &[]);
    closed.blocked = Blocked::new(vec![1..=1, port..=port]);
    assert_eq!(reason(&closed, &named, "127.0.0.1", port).await, Some(DenialReason::NotPublic));
    let named = policy(NetworkMode::Allowlist, &[format!("127.0.0.2:{port}")]);
    assert!(matches!(
        opened.connect(&named, &host("127.0.0.2"), port, &one_permit()).await,
        Err(Error::ByPeer { .. })
    ));
}

#[tokio::test]
async fn an_unknown_name_is_not_a_denial() {
    let gate = gate(&[], &[]);
    let open = policy(NetworkMode::Default, &[]);
    let answer = gate.connect(&open, &host("nowhere.invalid"), 443, &one_permit()).await;
    assert!(matches!(answer, Err(Error::NotFound { .. } | Error::Timeout)), "{answer:?}");
}

#[tokio::test]
async fn an_abandoned_lookup_keeps_its_permit_until_the_resolver_is_done() {
    static DONE: Barrier = Barrier::new(2);
    let mut gate = gate(&[], &[]);
    gate.resolver.resolve = |_| {
        DONE.wait();
        Ok(Vec::new())
    };
    let (open, lookups) = (policy(NetworkMode::Default, &[]), one_permit());
    let until_permits = async |count| {
        let wait = async {
            while lookups.available_permits() != count {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, wait).await.unwrap();
    };
    let host = host("slow.example");
    let asked = gate.connect(&open, &host, 443, &lookups);
    tokio::select! {
        _ = asked => panic!("the resolver has not answered"),
        () = until_permits(0) => {}
    }
    let permits = lookups.available_permits();
    spawn_blocking(|| DONE.wait()).await.unwrap();
    assert_eq!(permits, 0, "the thread was still busy");
    until_permits(1).await;
}

#[tokio::test]
async fn an_upstream_proxy_resolves_names_and_private_addresses_are_rejected() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = Upstream::parse(&format!("http://me:secret@{}", proxy.local_addr().unwrap())).unwrap();
    let upstreams = Upstreams { https: Some(upstream), ..Upstreams::default() };
    let hosts = [("in.example".to_owned(), vec!["10.0.0.1".parse().unwrap()])].into();
    let gate = Gate::new(EgressSettings { upstreams, hosts, ..EgressSettings::default() }, Vec::new());
    let open = policy(NetworkMode::Default, &[]);
    assert_eq!(reason(&gate, &open, "in.example", 443).await, Some(DenialReason::NotPublic));
    let serve = async {
        let mut heads = Vec::new();
        for answer in
            ["HTTP/1.1 200 OK\r\n\r\nearly data", "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"]
        {
            let (mut stream, _) = proxy.accept().await.unwrap();
            let mut head = vec![0; 1024];
            let length = stream.read(&mut head).await.unwrap();
            heads.push(String::from_utf8(head[..length].to_vec()).unwrap());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        heads
    };
    let ask = async {
        let lookups = one_permit();
        let asked =
            gate.connect(&open, &host("out.invalid"), 443, &lookups).await.map(|far| far.early.clone());
        let refused = gate.connect(&open, &host("out.invalid"), 80, &lookups).await.map(drop);
        (asked, refused)
    };
    let (heads, (asked, refused)) = timeout(SOON * 3, async { tokio::join!(serve, ask) }).await.unwrap();
    assert!(heads[0].starts_with("CONNECT out.invalid:443 HTTP/1.1\r\n"), "{}", heads[0]);
    assert!(heads[0].contains("proxy-authorization: Basic bWU6c2VjcmV0"), "{}", heads[0]);
    assert!(heads[1].starts_with("CONNECT out.invalid:80 "), "{}", heads[1]);
    // Whether it arrived with the head or after it.
    assert!(b"early data".starts_with(&asked.unwrap()[..]));
    assert!(matches!(refused, Err(Error::Upstream { status: 403 })), "{refused:?}");
}
