//! Ports published on the host, as the original daemon did.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bollard::query_parameters::{InspectContainerOptions, KillContainerOptions, RemoveContainerOptions};
use sandbox_api::SandboxId;
use sandbox_api::port::PortFound;
use sandbox_api::sandbox::CreateSandbox;
use sandboxd::model::layout::{container_name, publisher_name, volume_name};

use crate::support::engine_proxy::{EngineProxy, Fault};
use crate::support::engine_view::networks_of;
use crate::support::harness::{Daemon, Home, docker, skipped_under_gvisor, until};
use crate::support::http::HttpClient;
use crate::support::network::{sandbox_with, statuses};
use crate::support::visitor::{PORT, node, sandbox_with_port, serve, visit};

/// Publishes the sandbox's port.
async fn publish(daemon: &Daemon, sandbox: &SandboxId, port: u16) -> PortFound {
    let answer =
        HttpClient::of(daemon).get(&format!("/v1/sandboxes/{sandbox}/ports/{port}?style=publish")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_slice(&answer.body).unwrap()
}

/// The contract's URL has no path.
fn page(found: &PortFound) -> String {
    format!("{}/", found.url.as_deref().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_published_once_and_removed_with_its_sandbox() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('published')")).await;
    let asked = futures::future::join_all((0..8).map(|_| publish(&daemon, &sandbox, PORT))).await;
    let found = asked[0].clone();
    assert!(asked.iter().all(|other| *other == found), "{asked:?}");
    assert_eq!(found.url, Some(format!("http://127.0.0.1:{}", found.host_port.unwrap())));
    assert_eq!(visit(&page(&found)).await.body, "published");
    let ports = daemon.client.ports(&sandbox).await.unwrap();
    assert_eq!(ports.published.len(), 1);
    assert_eq!(ports.published[0].url, found.url.clone().unwrap());

    let docker = docker().await;
    let name = publisher_name(&sandbox, PORT);
    let container = docker.inspect_container(&name, None::<InspectContainerOptions>).await.unwrap();
    let host = container.host_config.unwrap();
    assert_eq!((host.readonly_rootfs, host.privileged), (Some(true), Some(false)));
    assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]));
    assert_ne!(container.config.unwrap().user.unwrap(), "");
    let labels = ["remcochat.sandboxId", "remcochat.sessionKey", "remcochat.proxyPort", "sandboxd.instance"];
    let listed =
        docker.inspect_container(&name, None::<InspectContainerOptions>).await.unwrap().config.unwrap();
    assert!(labels.iter().all(|label| listed.labels.as_ref().unwrap().contains_key(*label)));

    daemon.client.delete(&sandbox).await.unwrap();
    assert!(
        docker.inspect_container(&name, None::<InspectContainerOptions>).await.is_err(),
        "the publisher is removed with its sandbox"
    );
}

/// An image whose socat starts slowly. Dropping it removes the image.
struct SlowPublisher(String);

impl SlowPublisher {
    fn build() -> Self {
        let tag = format!("sandboxd-test-slow-publisher:{}", std::process::id());
        let image = Home::new().config().image;
        let dockerfile = format!(
            "FROM {image}\nUSER 0\nRUN printf '#!/bin/sh\\nsleep 1\\nexec /usr/bin/socat \"$@\"\\n' \
             > /usr/local/bin/socat && chmod 755 /usr/local/bin/socat\n"
        );
        let mut build = Command::new("docker");
        build.args(["build", "--quiet", "--tag", &tag, "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut build = build.spawn().unwrap();
        build.stdin.take().unwrap().write_all(dockerfile.as_bytes()).unwrap();
        assert!(build.wait().unwrap().success(), "the image could not be built");
        Self(tag)
    }
}

impl Drop for SlowPublisher {
    fn drop(&mut self) {
        let _ = Command::new("docker").args(["rmi", &self.0]).stdout(Stdio::null()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_reported_as_published_once_it_serves() {
    let slow = SlowPublisher::build();
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_PROXY_IMAGE", &slow.0)).await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('at once')")).await;
    let found = publish(&daemon, &sandbox, PORT).await;
    assert_eq!(visit(&page(&found)).await.body, "at once");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_publisher_is_recreated() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('again')")).await;
    publish(&daemon, &sandbox, PORT).await;
    let options = RemoveContainerOptions { force: true, ..Default::default() };
    docker().await.remove_container(&publisher_name(&sandbox, PORT), Some(options)).await.unwrap();
    let found = publish(&daemon, &sandbox, PORT).await;
    assert_eq!(visit(&page(&found)).await.body, "again");
    assert_eq!(
        daemon.output(&sandbox, "echo and the sandbox never noticed").await,
        "and the sandbox never noticed\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_publisher_restarts_at_the_same_address() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('back')")).await;
    let found = publish(&daemon, &sandbox, PORT).await;
    let name = publisher_name(&sandbox, PORT);
    docker().await.kill_container(&name, None::<KillContainerOptions>).await.unwrap();
    // It rejects visitors until its socket is open and socat listens.
    until("the publisher serves again", || async {
        is_running(&name).await && has_socket(&daemon, &sandbox) && visit(&page(&found)).await.body == "back"
    })
    .await;
    assert_eq!(publish(&daemon, &sandbox, PORT).await.host_port, found.host_port);
}

async fn is_running(container: &str) -> bool {
    let container = docker().await.inspect_container(container, None::<InspectContainerOptions>).await;
    container.is_ok_and(|container| container.state.and_then(|state| state.running) == Some(true))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_port_survives_the_daemon_and_parking() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('still here')")).await;
    let found = publish(&daemon, &sandbox, PORT).await;
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(visit(&page(&found)).await.body, "still here");
    assert_eq!(publish(&daemon, &sandbox, PORT).await, found, "the same port");
    daemon.client.park(&sandbox, true).await.unwrap();
    assert_eq!(visit(&page(&found)).await.status, 0, "the sandbox wakes, and no server listens");
    serve(&daemon, &sandbox, &node("res.end('awake')")).await;
    assert_eq!(visit(&page(&found)).await.body, "awake");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_not_offered_is_not_published() {
    let home = Home::new().set("SANDBOXD_PREVIEW", "publish").set("SANDBOXD_PUBLIC_HOST", "box.lan");
    let daemon = Daemon::start_in(home).await;
    let request =
        CreateSandbox { session_key: "chat:1".into(), ports: Some(vec![80]), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    assert!(!publish(&daemon, &sandbox, 81).await.found);
    let found = daemon.client.find_port(&sandbox, 80).await.unwrap();
    assert_eq!(found.url, Some(format!("http://box.lan:{}", found.host_port.unwrap())));
    let name = publisher_name(&sandbox, 80);
    let docker = docker().await;
    until("the publisher runs with a privileged port", || async {
        let container = docker.inspect_container(&name, None::<InspectContainerOptions>).await.unwrap();
        container.state.unwrap().running == Some(true)
    })
    .await;
    let none = CreateSandbox { ports: Some(vec![3000]), ..request };
    daemon.client.create_or_reconnect(&none).await.unwrap();
    let here = format!("http://127.0.0.1:{}/", found.host_port.unwrap());
    assert_eq!(visit(&here).await.status, 0, "a port that is no longer offered is closed");
}

/// The publisher's own address on the engine's bridge.
async fn address_of(container: &str) -> String {
    let found = docker().await.inspect_container(container, None::<InspectContainerOptions>).await.unwrap();
    let networks = found.network_settings.unwrap().networks.unwrap();
    networks.into_values().next().unwrap().ip_address.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn published_ports_are_closed_to_sandboxes_under_every_policy() {
    let ranges = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16";
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_EGRESS_ALLOW_CIDR", ranges)).await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('published')")).await;
    let host_port = publish(&daemon, &sandbox, PORT).await.host_port.unwrap();
    let publisher = address_of(&publisher_name(&sandbox, PORT)).await;
    let other_port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = other_port.local_addr().unwrap().to_string();
    let shut = [format!("127.0.0.1:{host_port}"), format!("{publisher}:{PORT}")];
    let allow = [open.as_str(), &shut[0], &shut[1]];
    let visitor = sandbox_with(&daemon, "chat:2", "default", &allow).await;
    let asked = [open.clone(), shut[0].clone(), shut[1].clone()];
    let expected = [format!("{open} 200"), format!("{} 403", shut[0]), format!("{} 403", shut[1])];
    assert_eq!(statuses(&daemon, &visitor, &asked).await, expected);
    // The publisher keeps running without the daemon, and the next daemon knows it.
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(statuses(&daemon, &visitor, &asked).await, expected);
    // From now on the port belongs to another server.
    daemon.client.delete(&sandbox).await.unwrap();
    let _server = tokio::net::TcpListener::bind(&shut[0]).await.unwrap();
    assert_eq!(statuses(&daemon, &visitor, &asked[1..2]).await, [format!("{} 200", shut[0])]);
}

async fn behind(proxy: &EngineProxy) -> Daemon {
    Daemon::start_in(Home::new().set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy())).await
}

async fn is_there(container: &str) -> bool {
    docker().await.inspect_container(container, None::<InspectContainerOptions>).await.is_ok()
}

/// The daemon's directory for the publishers' sockets.
fn sockets_dir(daemon: &Daemon) -> PathBuf {
    let instance = daemon.home.instance().unwrap();
    // The name is that of earlier versions, whose publishers may still run.
    daemon.home.path().join("run").join(instance.id()).join("doors")
}

/// The number of directories for publisher sockets.
fn socket_dirs(daemon: &Daemon) -> usize {
    std::fs::read_dir(sockets_dir(daemon)).map_or(0, Iterator::count)
}

/// Whether the socket for the sandbox's publisher exists.
fn has_socket(daemon: &Daemon, sandbox: &SandboxId) -> bool {
    sockets_dir(daemon).join(format!("{sandbox}-{PORT}")).join("door.sock").exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_is_being_deleted_publishes_no_port() {
    let proxy = EngineProxy::start();
    let daemon = behind(&proxy).await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    proxy.set(&volume_name(&sandbox), Fault::Hang);
    let publish_meanwhile = async {
        until("its container is deleted", || async { !is_there(&container_name(&sandbox)).await }).await;
        let path = format!("/v1/sandboxes/{sandbox}/ports/{PORT}?style=publish");
        let answer = HttpClient::of(&daemon).get(&path).await;
        proxy.clear_faults();
        answer.status
    };
    let (deleted, status) = tokio::join!(daemon.client.delete(&sandbox), publish_meanwhile);
    deleted.unwrap();
    assert_eq!(status, 404);
    assert!(!is_there(&publisher_name(&sandbox, PORT)).await, "no publisher is left behind");
    assert_eq!((socket_dirs(&daemon), networks_of(&daemon.home).await.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_publication_leaves_nothing_and_can_be_repeated() {
    let proxy = EngineProxy::start();
    let daemon = behind(&proxy).await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('at last')")).await;
    let api = HttpClient::of(&daemon);
    let path = format!("/v1/sandboxes/{sandbox}/ports/{PORT}?style=publish");
    for call in ["/networks/create", "/containers/create"] {
        proxy.set(call, Fault::Fail);
        assert_eq!(api.get(&path).await.status, 503, "{call}");
        assert_eq!((socket_dirs(&daemon), networks_of(&daemon.home).await.len()), (0, 0), "{call}");
        assert!(!is_there(&publisher_name(&sandbox, PORT)).await, "{call}");
        proxy.clear_faults();
    }
    assert_eq!(visit(&page(&publish(&daemon, &sandbox, PORT).await)).await.body, "at last");
    assert_eq!(socket_dirs(&daemon), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_port_is_published_if_containers_cannot_see_the_run_dir() {
    let reason =
        "gVisor does not report the other end of a socket, so the agent cannot verify the engine's call";
    if skipped_under_gvisor(reason) {
        return;
    }
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_AGENT_TRANSPORT", "engine")).await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let answer =
        HttpClient::of(&daemon).get(&format!("/v1/sandboxes/{sandbox}/ports/{PORT}?style=publish")).await;
    assert_eq!(answer.status, 422, "{answer:?}");
}
