//! Previews: a server in a sandbox, reached from within its network and through the gateway. Also the time to publish a
//! port, beside a plain container with one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bollard::models::{ContainerCreateBody, HostConfig, PortBinding};
use bollard::query_parameters::CreateContainerOptions;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;

use crate::commands::agent_pid;
use crate::contenders::Api;
use crate::home::{Home, IMAGE, docker, remove_container};
use crate::table::{heading, ratio, row};
use crate::web::{Way, compare, start_relays, start_server};

const PORT: u16 = 3000;
const PUBLISHED: usize = 8;

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    gateway(&home).await;
    publish(&home).await;
}

async fn sandbox(home: &Home, key: &str) -> SandboxId {
    let request =
        CreateSandbox { session_key: key.into(), ports: Some(vec![PORT.into()]), ..CreateSandbox::default() };
    home.client().create_or_reconnect(&request).await.unwrap().sandbox_id
}

async fn gateway(home: &Home) {
    let sandbox = sandbox(home, "bench:preview").await;
    let agent = agent_pid(&sandbox).await;
    let address = start_server(([127, 0, 0, 1], PORT).into(), Some(agent)).await;
    let found = home.client().find_port(&sandbox, PORT).await.unwrap();
    let host = found.url.unwrap().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let direct = Way { address, within: Some(agent), connect: None, host: "x".into() };
    let gateway = ([127, 0, 0, 1], found.host_port.unwrap()).into();
    let previewed = Way { address: gateway, within: None, connect: None, host };
    let relay = start_relays(home.path("relay.sock"), None, address, Some(agent)).await;
    let relayed = Way { address: relay, within: None, connect: None, host: "x".into() };
    println!("\na server in a sandbox, by the preview gateway");
    compare(&direct, "by the gateway", &previewed, &relayed).await;
}

async fn publish(home: &Home) {
    let mut api = Api::connect(home.port).await;
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for round in 0..PUBLISHED {
        let sandbox = sandbox(home, &format!("bench:publish:{round}")).await;
        let (took, answer) = api.get(&format!("/v1/sandboxes/{sandbox}/ports/{PORT}?style=publish")).await;
        assert!(answer.starts_with(br#"{"found":true"#), "{}", String::from_utf8_lossy(&answer));
        ours.push(took);
        plain.push(plain_container(home, round).await);
        home.client().delete(&sandbox).await.unwrap();
    }
    heading("a port is published for the first time");
    let (ours, plain) = (row("sandboxd", ours), row("a plain container with a port", plain));
    ratio("time: sandboxd / plain", ours.p50 / plain.p50, "none; for comparison");
}

/// Creates and starts a container of the same image that publishes a port, without hardening.
async fn plain_container(home: &Home, round: usize) -> Duration {
    let docker = docker().await;
    let name = format!("bench-publish-{}-{round}", home.instance.id());
    let port = format!("{PORT}/tcp");
    let binding = PortBinding { host_ip: Some("127.0.0.1".into()), host_port: None };
    let host_config = HostConfig {
        port_bindings: Some(HashMap::from([(port.clone(), Some(vec![binding]))])),
        ..HostConfig::default()
    };
    let body = ContainerCreateBody {
        image: Some(IMAGE.into()),
        cmd: Some(["socat", "TCP-LISTEN:3000,fork", "EXEC:true"].map(str::to_owned).into()),
        exposed_ports: Some(vec![port]),
        host_config: Some(host_config),
        ..ContainerCreateBody::default()
    };
    let began = Instant::now();
    let options = CreateContainerOptions { name: Some(name.clone()), ..CreateContainerOptions::default() };
    docker.create_container(Some(options), body).await.unwrap();
    docker.start_container(&name, None).await.unwrap();
    let took = began.elapsed();
    remove_container(&docker, &name).await;
    took
}
