//! A daemon for one test: its own state, run dir and instance, on the machine's engine, and nothing left there at the end.
//!
//! For tests alone; everything here panics where a test cannot go on.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod daemon;
mod home;
mod outcome;

use std::time::{Duration, Instant};

use bollard::Docker;

pub use daemon::{Daemon, DaemonProcess};
pub use home::{Home, agent_program, remove_all};
pub use outcome::{Collected, Outcome, outcome, script};

/// The token of every daemon here.
pub const TOKEN: &str = "a-token-for-tests-of-at-least-32-characters";

/// Bound of every wait for a condition.
pub const SOON: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(20);

/// The engine, for looking behind the daemon's back.
pub async fn docker() -> Docker {
    Docker::connect_with_local_defaults().unwrap().negotiate_version().await.unwrap()
}

/// The OCI runtime the stories are about, where it is not the engine's default; `make test-gvisor` sets it.
fn runtime() -> Option<String> {
    std::env::var("SANDBOXD_TEST_RUNTIME").ok().filter(|runtime| !runtime.is_empty())
}

/// Whether the sandboxes have a kernel of their own.
pub fn under_gvisor() -> bool {
    runtime().is_some_and(|runtime| runtime.starts_with("runsc"))
}

/// Says that a test is skipped because this machine lacks something. Continuous integration installs everything that
/// tests need, so there it is a failure.
#[expect(clippy::print_stderr, reason = "a skipped test must not look like one that passed")]
#[track_caller]
pub fn skip(reason: impl std::fmt::Display) {
    assert!(std::env::var_os("CI").is_none(), "nothing is skipped under CI: {reason}");
    eprintln!("skipped: {reason}");
}

/// For the first line of a story that cannot hold under gVisor; says why it is left out.
#[expect(clippy::print_stderr, reason = "a story that is left out is not to look like one that held")]
pub fn left_out_under_gvisor(reason: &str) -> bool {
    if under_gvisor() {
        eprintln!("left out under gVisor: {reason}");
    }
    under_gvisor()
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits for a condition, but not for ever.
pub async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = Instant::now() + SOON;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited {SOON:?} in vain until {what}");
        tokio::time::sleep(POLL).await;
    }
}
