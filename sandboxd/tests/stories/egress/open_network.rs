//! Sandboxes with their own network, which only the operator can allow.

use bollard::query_parameters::InspectContainerOptions;
use sandbox_api::sandbox::{Network, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::Error;
use sandboxd::model::layout::container_name;
use tokio::net::TcpStream;

use crate::support::engine_view::networks_of;
use crate::support::harness::{Daemon, Home, docker, skipped_under_gvisor, until};
use crate::support::network::{network, sandbox_with};
use crate::support::sink::{HERE, LAN, METADATA, Sink};
use crate::support::visitor::{PORT, node, serve, visit};

/// gVisor on this machine is configured without a network, and then an open sandbox has none either.
fn is_skipped() -> bool {
    skipped_under_gvisor("its runtime is set up without a network")
}

fn allowed() -> Home {
    Home::new().set("SANDBOXD_ALLOW_OPEN_NETWORK", "1")
}

fn code(refused: Result<impl Sized, Error>) -> Option<ErrorCode> {
    let error = refused.err().unwrap();
    assert_ne!(error.to_string(), "");
    error.code()
}

/// The address of a sandbox on its bridge.
async fn address(sandbox: &SandboxId) -> String {
    let (docker, name) = (docker().await, container_name(sandbox));
    let inspected = docker.inspect_container(&name, None::<InspectContainerOptions>).await.unwrap();
    let networks = inspected.network_settings.unwrap().networks.unwrap();
    networks.into_values().find_map(|endpoint| endpoint.ip_address).unwrap()
}

async fn state(daemon: &Daemon, sandbox: &SandboxId) -> SandboxState {
    daemon.client.get(sandbox).await.unwrap().state
}

async fn open(daemon: &Daemon, key: &str) -> SandboxId {
    sandbox_with(daemon, key, "open", &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_network_is_rejected_unless_the_operator_allows_it() {
    let daemon = Daemon::start().await;
    let request = sandbox_api::sandbox::CreateSandbox {
        session_key: "chat:1".into(),
        network: network("open", &[]),
        ..Default::default()
    };
    let refused = daemon.client.create_or_reconnect(&request).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::Forbidden));
    assert!(refused.to_string().contains("SANDBOXD_ALLOW_OPEN_NETWORK"), "{refused}");
    let sandbox = daemon.sandbox("chat:1").await;
    let refused = daemon.client.change_network(&sandbox, &network("open", &[]).unwrap()).await;
    assert_eq!(code(refused), Some(ErrorCode::Forbidden));
    assert_eq!(code(daemon.client.create_or_reconnect(&request).await), Some(ErrorCode::Forbidden));
    let reported = daemon.client.get(&sandbox).await.unwrap();
    assert_eq!(reported.network, network("default", &[]).unwrap());
    assert_eq!(reported.posture.unwrap().network, "none");
    assert_eq!(networks_of(&daemon.home).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_sandbox_reaches_the_networks_of_its_machine_and_no_other_sandbox() {
    if is_skipped() {
        return;
    }
    let Some(sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(allowed()).await;
    let (one, other) = (open(&daemon, "chat:1").await, open(&daemon, "chat:2").await);
    assert_eq!(daemon.output(&one, "env | grep -i _proxy; true").await, "", "no proxy is set");
    for host in [LAN, METADATA] {
        assert_eq!(daemon.output(&one, &format!("curl -sS -m 20 http://{host}/")).await, "the sink\n");
    }
    daemon.output(&one, &format!("echo hello >/dev/udp/{LAN}/9999; echo hello >/dev/tcp/{LAN}/25")).await;
    until("mail and a datagram have arrived", || async {
        let arrivals = sink.arrivals(LAN);
        let ports: Vec<u16> = arrivals.iter().map(|arrival| arrival.at.port()).collect();
        ports.contains(&25) && ports.contains(&9999)
    })
    .await;

    // A server on all addresses: this machine reaches it, and the neighbour does not.
    let listen = "(python3 -m http.server -b 0.0.0.0 9000 >/dev/null 2>&1 &); \
                  curl -sS --retry 50 --retry-connrefused --retry-delay 0 -o /dev/null http://127.0.0.1:9000/";
    daemon.output(&one, listen).await;
    let there = address(&one).await;
    TcpStream::connect(format!("{there}:9000")).await.unwrap();
    let try_it = format!("curl -sS -m 3 -o /dev/null http://{there}:9000/; echo $?");
    assert_eq!(daemon.output(&other, &try_it).await, "28\n", "the neighbour gets no response");
    assert_eq!(daemon.output(&other, &format!("curl -sS -m 20 http://{LAN}/")).await, "the sink\n");

    let reported = daemon.client.get(&one).await.unwrap();
    let posture = reported.posture.unwrap();
    assert_eq!(vec![posture.network.clone()], networks_of(&daemon.home).await);
    assert!(posture.network.starts_with("remcochat-sandbox-net-"), "{}", posture.network);
    assert_eq!(posture.unenforced.iter().filter(|it| it.starts_with("network: ")).count(), 4, "{posture:?}");
    assert!(posture.capabilities.is_empty() && posture.readonly_rootfs);

    // A sandbox that is not open is as isolated as before.
    let closed = daemon.sandbox("chat:3").await;
    let direct =
        format!("curl -sS -m 3 --noproxy '*' http://{HERE}/ http://{there}:9000/ && echo reached; true");
    assert_eq!(daemon.output(&closed, &direct).await, "");
    let reported = daemon.client.get(&closed).await.unwrap().posture.unwrap().unenforced;
    assert!(!reported.iter().any(|it| it.starts_with("network: ")), "{reported:?}");

    daemon.client.delete(&one).await.unwrap();
    assert_eq!(networks_of(&daemon.home).await, [posture.network], "the other sandbox needs the network");
    daemon.client.park(&other, true).await.unwrap();
    assert_eq!(
        networks_of(&daemon.home).await,
        Vec::<String>::new(),
        "the network is removed with the last sandbox"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_sandbox_has_previews_and_survives_a_lost_container_daemon_and_store() {
    if is_skipped() {
        return;
    }
    let Some(_sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(allowed()).await;
    let request = sandbox_api::sandbox::CreateSandbox {
        session_key: "chat:1".into(),
        ports: Some(vec![PORT.into()]),
        network: network("open", &[]),
        ..Default::default()
    };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let reaches = async |daemon: &Daemon| {
        assert_eq!(daemon.output(&sandbox, &format!("curl -sS -m 20 http://{LAN}/")).await, "the sink\n");
    };
    serve(&daemon, &sandbox, &node("res.end('the server listens on its loopback')")).await;
    let url = daemon.client.find_port(&sandbox, PORT).await.unwrap().url.unwrap();
    assert_eq!(visit(&url).await.body, "the server listens on its loopback");
    daemon.client.park(&sandbox, true).await.unwrap();
    reaches(&daemon).await;
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(state(&daemon, &sandbox).await, SandboxState::Running, "the sandbox was restored");
    reaches(&daemon).await;
    let home = daemon.stop().await;
    for file in ["sandboxd.db", "sandboxd.db-wal", "sandboxd.db-shm"] {
        let _ = std::fs::remove_file(home.path().join("state").join(file));
    }
    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().network, network("open", &[]).unwrap());
    reaches(&daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_open_network_can_be_set_and_unset_only_while_parked() {
    if is_skipped() {
        return;
    }
    let Some(sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(allowed()).await;
    let sandbox = daemon.sandbox("chat:1").await;
    let change = |mode: &'static str| {
        let (client, sandbox) = (daemon.client.clone(), sandbox.clone());
        async move { client.change_network(&sandbox, &Network { mode: Some(mode.into()), allow: None }).await }
    };
    assert_eq!(code(change("open").await), Some(ErrorCode::WrongState), "it runs");
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().network.mode.unwrap(), "default");
    daemon.client.park(&sandbox, true).await.unwrap();
    assert_eq!(change("open").await.unwrap().mode.unwrap(), "open");
    let direct = format!("curl -sS -m 5 http://{LAN}/ || true");
    assert_eq!(daemon.output(&sandbox, &direct).await, "the sink\n");
    assert_eq!(code(change("none").await), Some(ErrorCode::WrongState), "it runs again");
    let request = sandbox_api::sandbox::CreateSandbox {
        session_key: "chat:1".into(),
        network: network("none", &[]),
        ..Default::default()
    };
    assert_eq!(code(daemon.client.create_or_reconnect(&request).await), Some(ErrorCode::WrongState));
    daemon.client.park(&sandbox, true).await.unwrap();
    // A request for a parked session gets the network that it asks for.
    assert!(daemon.client.create_or_reconnect(&request).await.unwrap().woken);
    let arrived = sink.arrivals(LAN).len();
    assert!(daemon.output(&sandbox, &direct).await.contains("has no network"));
    assert_eq!(sink.arrivals(LAN).len(), arrived);
    assert_eq!(networks_of(&daemon.home).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_sandbox_stops_when_the_operator_no_longer_allows_it() {
    if is_skipped() {
        return;
    }
    let daemon = Daemon::start_in(allowed()).await;
    let sandbox = open(&daemon, "chat:1").await;
    daemon.output(&sandbox, "echo kept >file").await;
    let home = daemon.stop().await.set("SANDBOXD_ALLOW_OPEN_NETWORK", "0");
    let daemon = Daemon::start_in(home).await;
    assert_eq!(state(&daemon, &sandbox).await, SandboxState::Parked);
    assert_eq!(networks_of(&daemon.home).await, Vec::<String>::new());
    let refused = daemon.client.run(&sandbox, &crate::support::harness::script("true")).await;
    assert_eq!(code(refused), Some(ErrorCode::Forbidden));
    daemon.client.change_network(&sandbox, &network("none", &[]).unwrap()).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
}
