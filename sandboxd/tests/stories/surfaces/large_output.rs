//! A gigabyte of output over MCP: counted, cut and kept within bounds, without memory for it.

use serde_json::json;

use super::mcp_client::Mcp;
use crate::support::harness::Daemon;
use crate::support::processes::resident_kib;

/// How much more memory the daemon may have afterwards, in KiB. The output is a thousand times as long.
const GROWTH_KIB: u64 = 96 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn a_gibibyte_is_counted_cut_and_kept_up_to_the_limit() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("gibibyte");
    client.output("true").await;
    let before = resident_kib();
    // 2^26 lines of 16 bytes.
    let command = "yes 0123456789abcde | head -n 67108864; echo last line";
    let arguments = json!({ "command": command, "timeoutMs": 300_000, "waitMs": 300_000 });
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
