//! The original chat app's client, unmodified, against this daemon. What it asks is in `tests/original-client`.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::support::engine_view::objects_of;
use crate::support::harness::{Daemon, TOKEN};

/// All of its steps, with a machine that is busy.
const ALL_STEPS: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn the_original_client_finds_everything_as_it_knows_it() {
    let daemon = Daemon::start().await;
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/original-client/chat.mjs");
    let mut node = Command::new("node");
    node.arg(program).arg(&daemon.base).env("SANDBOXD_ADMIN_TOKEN", TOKEN).kill_on_drop(true);
    node.env_remove("NODE_OPTIONS").stdin(Stdio::null());
    let output = match timeout(ALL_STEPS, node.output()).await.expect("the client does not end") {
        Ok(output) => output,
        Err(error) => panic!(
            "this story needs Node 20 or later as `node` on the PATH; `make test` installs it: {error}"
        ),
    };
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.lines().count() >= 12 && told.lines().all(|line| line.starts_with("ok ")), "{told}");
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new(), "it stopped what it made");
    daemon.stop().await;
}
