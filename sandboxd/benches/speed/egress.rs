//! Outgoing connections: a server of this machine, reached directly and from a sandbox through its proxy. The same
//! client sends `CONNECT` requests from within the sandbox's network namespace both times. So the difference is the
//! path: the agent, its connection to the daemon, and the daemon.

use sandbox_api::sandbox::{CreateSandbox, Network};

use crate::commands::agent_pid;
use crate::home::Home;
use crate::memory::{peak_kib, resident_kib};
use crate::web::{Way, compare, start_relays, start_server};

const PROXY: &str = "127.0.0.1:13128";

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let address = start_server("127.0.0.1:0".parse().unwrap(), None).await;
    let network = Network { mode: None, allow: Some(vec![address.to_string()]) };
    let request = CreateSandbox {
        session_key: "bench:egress".into(),
        network: Some(network),
        ..CreateSandbox::default()
    };
    let sandbox = home.client().create_or_reconnect(&request).await.unwrap().sandbox_id;
    let agent = agent_pid(&sandbox).await;
    let direct = Way { address, within: None, connect: None, host: "x".into() };
    let proxied = Way {
        address: PROXY.parse().unwrap(),
        within: Some(agent),
        connect: Some(address.to_string()),
        host: "x".into(),
    };
    let relay = start_relays(home.path("relay.sock"), Some(agent), address, None).await;
    let relayed = Way { address: relay, within: Some(agent), connect: None, host: "x".into() };
    println!("\nto the outside, by a sandbox's proxy");
    compare(&direct, "by the proxy", &proxied, &relayed).await;
    println!(
        "  resident memory, current and peak: daemon {} and {} KiB, agent {} and {} KiB",
        resident_kib(home.daemon_pid()),
        peak_kib(home.daemon_pid()),
        resident_kib(agent),
        peak_kib(agent)
    );
}
