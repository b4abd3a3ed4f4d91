//! The agent's proxy, as commands find it. What it connects them to is the daemon's.

use std::collections::BTreeMap;

use sandbox_api::command::StartCommand;

use crate::support::harness::{Daemon, outcome, over_each_transport, script, under_gvisor};

over_each_transport!(
    commands_are_told_of_the_proxy_and_a_callers_word_wins,
    the_proxy_says_what_it_is_and_no_command_can_take_its_place,
    what_listens_in_the_sandbox_is_not_asked_of_the_proxy,
    localhost_is_a_name_for_every_program,
);

async fn commands_are_told_of_the_proxy_and_a_callers_word_wins(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let told = daemon.output(&sandbox, "env | grep -i proxy | sort").await;
    let proxy = "http://127.0.0.1:13128";
    let here = "localhost,127.0.0.1,::1";
    let wanted = format!(
        "ALL_PROXY={proxy}\nHTTPS_PROXY={proxy}\nHTTP_PROXY={proxy}\nNODE_USE_ENV_PROXY=1\nNO_PROXY={here}\n\
         all_proxy={proxy}\nhttp_proxy={proxy}\nhttps_proxy={proxy}\nno_proxy={here}\n"
    );
    assert_eq!(told, wanted);
    let wish = StartCommand {
        env: Some(BTreeMap::from([("HTTPS_PROXY".into(), "http://mine:1".into())])),
        ..script("echo $HTTPS_PROXY $HTTP_PROXY")
    };
    let heard = outcome(daemon.client.run(&sandbox, &wish).await.unwrap()).await;
    assert_eq!(heard.text(), format!("http://mine:1 {proxy}\n"));
}

async fn the_proxy_says_what_it_is_and_no_command_can_take_its_place(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let answer = daemon.output(&sandbox, "curl -sS -w '%{http_code}' http://127.0.0.1:13128/").await;
    assert!(answer.starts_with("this is a proxy: ") && answer.ends_with("400"), "{answer}");
    // gVisor lets a program bind every address beside one that is taken; who connects to that one is not led astray by it.
    let addresses = if under_gvisor() { "127.0.0.1" } else { "127.0.0.1 0.0.0.0" };
    let take = format!("for a in {addresses}; do timeout 5 python3 -m http.server -b $a 13128; done");
    let taken = daemon.run(&sandbox, &take).await;
    assert_eq!(taken.exit_code, 1, "{taken:?}");
    assert!(String::from_utf8_lossy(&taken.stderr).contains("Address already in use"), "{taken:?}");
}

async fn what_listens_in_the_sandbox_is_not_asked_of_the_proxy(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let serve = "echo hello >page; (python3 -m http.server -b 127.0.0.1 8000 >/dev/null 2>&1 &); \
                 curl -sS --retry 50 --retry-connrefused --retry-delay 0 http://localhost:8000/page";
    assert_eq!(daemon.output(&sandbox, serve).await, "hello\n");
    let fetch = "node -e \"fetch('http://127.0.0.1:8000/page').then(r => r.text()).then(console.log)\"";
    assert_eq!(daemon.output(&sandbox, fetch).await.trim(), "hello");
}

async fn localhost_is_a_name_for_every_program(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    // A server that is told no address listens on this name.
    let node = "require('dns').lookup('localhost', {all: true}, (error, found) => \
                console.log(error ?? found.map((one) => one.address).sort().join(' ')))";
    assert_eq!(daemon.output(&sandbox, &format!("node -e \"{node}\"")).await, "127.0.0.1 ::1\n");
    let python = "import socket; print(sorted({at[4][0] for at in socket.getaddrinfo('localhost', 80)}))";
    assert_eq!(daemon.output(&sandbox, &format!("python3 -c \"{python}\"")).await, "['127.0.0.1', '::1']\n");
    let write = daemon.run(&sandbox, "echo '127.0.0.2 localhost' >>/etc/hosts || rm -f /etc/hosts").await;
    assert_ne!(write.exit_code, 0, "what it means is not the sandbox's to say");
}
