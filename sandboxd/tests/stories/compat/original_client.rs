//! The client of the original chat app, unmodified, against this daemon. Its steps are in `tests/original-client`.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::support::engine_view::objects_of;
use crate::support::harness::{Daemon, TOKEN};

/// Time for all of its steps on a busy machine.
const ALL_STEPS: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn the_original_client_works_unmodified() {
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
    let reported = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{reported}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        reported.lines().count() >= 12 && reported.lines().all(|line| line.starts_with("ok ")),
        "{reported}"
    );
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new(), "it removed its sandboxes");
    daemon.stop().await;
}
