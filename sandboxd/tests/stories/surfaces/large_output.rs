//! A gigabyte of output over MCP: counted, cut and kept within bounds, without memory for it.

use serde_json::json;

use super::mcp_client::Mcp;
use super::stdio::Host;
use crate::support::harness::{Daemon, DaemonProcess, Home, free_port};
use crate::support::processes::{peak_kib, resident_kib};

/// How much more memory the daemon may have afterwards, in KiB. The output is a thousand times as long.
const GROWTH_KIB: u64 = 96 * 1024;

/// The same for the daemon and the program on standard input and output, each in a process of its own.
const OWN_GROWTH_KIB: u64 = 48 * 1024;

/// 2^26 lines of 16 bytes, and one more.
const COMMAND: &str = "yes 0123456789abcde | head -n 67108864; echo last line";

#[tokio::test(flavor = "multi_thread")]
async fn a_gibibyte_is_counted_cut_and_kept_up_to_the_limit() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("gibibyte");
    client.output("true").await;
    let before = resident_kib();
    let arguments = json!({ "command": COMMAND, "timeoutMs": 300_000, "waitMs": 300_000 });
    let called = client.call_with_progress("bash", arguments).await;
    let after = resident_kib();
    assert!(after.saturating_sub(before) < GROWTH_KIB, "{before} KiB before, {after} KiB after");
    let result = called.structured;
    assert_eq!((&result["exitCode"], &result["truncated"]), (&0.into(), &true.into()), "{result}");
    let path = result["outputPath"].as_str().unwrap();
    let stdout = result["stdout"].as_str().unwrap();
    let (head, rest) = stdout.split_once('[').unwrap();
    let (notice, tail) = rest.split_once("]\n").unwrap();
    let shown = (head.len() + tail.len()) as u64;
    assert_eq!(notice.split(' ').next().unwrap().parse::<u64>().unwrap() + shown, (1 << 30) + 10, "{notice}");
    assert!(notice.ends_with(path) && tail.ends_with("0123456789abcde\nlast line\n"), "{notice}");
    assert_eq!(result["outputComplete"], false);
    assert_eq!(client.output(&format!("stat -c %s {path}")).await, format!("{}\n", 64 << 20));
    let messages = called.notifications.iter().filter_map(|sent| sent["params"]["message"].as_str());
    assert!(
        messages.clone().count() > 0
            && messages.clone().all(|line| line == "0123456789abcde" || line == "last line")
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gibibyte_over_standard_output_takes_no_memory() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let mut host = Host::start(&home, port, &[]);
    host.initialize().await;
    let first = json!({ "name": "bash", "arguments": { "command": "true" } });
    host.ask(1, "tools/call", first).await;
    let processes = [("daemon", daemon.child.id().unwrap()), ("program", host.id())];
    let before = processes.map(|(_, pid)| peak_kib(pid));
    let arguments = json!({ "command": COMMAND, "timeoutMs": 300_000, "waitMs": 300_000 });
    let call = json!({ "name": "bash", "arguments": arguments, "_meta": { "progressToken": "1" } });
    let result = host.ask(2, "tools/call", call).await["result"]["structuredContent"].clone();
    assert_eq!((&result["exitCode"], &result["truncated"]), (&0.into(), &true.into()), "{result}");
    assert!(result["stdout"].as_str().unwrap().ends_with("0123456789abcde\nlast line\n"), "{result}");
    for ((name, pid), before) in processes.into_iter().zip(before) {
        let after = peak_kib(pid);
        println!("large output | peak of the {name}: {before} KiB before, {after} KiB after");
        assert!(after - before < OWN_GROWTH_KIB, "{name}: {before} KiB before, {after} KiB after");
    }
    daemon.kill().await;
}
