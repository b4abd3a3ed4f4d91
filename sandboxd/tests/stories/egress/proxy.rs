//! The agent's proxy as commands see it. The daemon makes its outgoing connections.

use std::collections::BTreeMap;

use sandbox_api::command::StartCommand;

use crate::support::harness::{Daemon, outcome, over_each_transport, script, under_gvisor};

over_each_transport!(
    commands_get_the_proxy_settings_unless_the_client_sets_its_own,
    the_proxy_identifies_itself_and_no_command_can_take_its_port,
    servers_in_the_sandbox_are_reached_without_the_proxy,
    every_program_resolves_localhost,
);

async fn commands_get_the_proxy_settings_unless_the_client_sets_its_own(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let reported = daemon.output(&sandbox, "env | grep -i proxy | sort").await;
    let proxy = "http://127.0.0.1:13128";
    let here = "localhost,127.0.0.1,::1";
    let wanted = format!(
        "ALL_PROXY={proxy}\nHTTPS_PROXY={proxy}\nHTTP_PROXY={proxy}\nNODE_USE_ENV_PROXY=1\nNO_PROXY={here}\n\
         all_proxy={proxy}\nhttp_proxy={proxy}\nhttps_proxy={proxy}\nno_proxy={here}\n"
    );
    assert_eq!(reported, wanted);
    let request = StartCommand {
        env: Some(BTreeMap::from([("HTTPS_PROXY".into(), "http://mine:1".into())])),
        ..script("echo $HTTPS_PROXY $HTTP_PROXY")
    };
    let received = outcome(daemon.client.run(&sandbox, &request).await.unwrap()).await;
    assert_eq!(received.text(), format!("http://mine:1 {proxy}\n"));
}

async fn the_proxy_identifies_itself_and_no_command_can_take_its_port(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let answer = daemon.output(&sandbox, "curl -sS -w '%{http_code}' http://127.0.0.1:13128/").await;
    assert!(answer.starts_with("this is a proxy: ") && answer.ends_with("400"), "{answer}");
    // gVisor lets a program bind every address although one is taken. Clients of the taken address still reach the
    // proxy.
    let addresses = if under_gvisor() { "127.0.0.1" } else { "127.0.0.1 0.0.0.0" };
    let take = format!("for a in {addresses}; do timeout 5 python3 -m http.server -b $a 13128; done");
    let taken = daemon.run(&sandbox, &take).await;
    assert_eq!(taken.exit_code, 1, "{taken:?}");
    assert!(String::from_utf8_lossy(&taken.stderr).contains("Address already in use"), "{taken:?}");
}

async fn servers_in_the_sandbox_are_reached_without_the_proxy(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let serve = "echo hello >page; (python3 -m http.server -b 127.0.0.1 8000 >/dev/null 2>&1 &); \
                 curl -sS --retry 50 --retry-connrefused --retry-delay 0 http://localhost:8000/page";
    assert_eq!(daemon.output(&sandbox, serve).await, "hello\n");
    let fetch = "node -e \"fetch('http://127.0.0.1:8000/page').then(r => r.text()).then(console.log)\"";
    assert_eq!(daemon.output(&sandbox, fetch).await.trim(), "hello");
}

async fn every_program_resolves_localhost(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    // A server that gets no address listens on this name.
    let node = "require('dns').lookup('localhost', {all: true}, (error, found) => \
                console.log(error ?? found.map((one) => one.address).sort().join(' ')))";
    assert_eq!(daemon.output(&sandbox, &format!("node -e \"{node}\"")).await, "127.0.0.1 ::1\n");
    let python = "import socket; print(sorted({at[4][0] for at in socket.getaddrinfo('localhost', 80)}))";
    assert_eq!(daemon.output(&sandbox, &format!("python3 -c \"{python}\"")).await, "['127.0.0.1', '::1']\n");
    let write = daemon.run(&sandbox, "echo '127.0.0.2 localhost' >>/etc/hosts || rm -f /etc/hosts").await;
    assert_ne!(write.exit_code, 0, "a sandbox cannot change the meaning of localhost");
}
