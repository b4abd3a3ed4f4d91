//! A daemon for one test: its own state, run directory and instance, on the machine's engine, all of which is removed
//! at the end. Only for tests: everything here panics on errors.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue ends")]

mod daemon;
mod home;
mod outcome;
pub mod packages;

use std::net::TcpListener;
use std::ops::{Range, RangeInclusive};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bollard::Docker;

pub use daemon::{Daemon, DaemonProcess};
pub use home::{Home, agent_program, remove_all};
pub use outcome::{Collected, Outcome, outcome, script};

/// The token of every test daemon.
pub const TOKEN: &str = "a-token-for-tests-of-at-least-32-characters";

/// Ports of preview links. No sandbox reaches them, so none of them is a port that the system chooses for a test's server.
pub const LINK_PORTS: RangeInclusive<u16> = 21_000..=21_099;

/// Time limit of every wait for a condition.
pub const SOON: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(20);

/// A client of the engine, for changes without the daemon's knowledge.
pub async fn docker() -> Docker {
    Docker::connect_with_local_defaults().unwrap().negotiate_version().await.unwrap()
}

/// The OCI runtime to test, if it is not the engine's default. `make test-gvisor` sets it.
fn runtime() -> Option<String> {
    std::env::var("SANDBOXD_TEST_RUNTIME").ok().filter(|runtime| !runtime.is_empty())
}

/// Whether each sandbox has its own kernel.
pub fn under_gvisor() -> bool {
    runtime().is_some_and(|runtime| runtime.starts_with("runsc"))
}

/// Reports that a test is skipped because this machine lacks something. Fails in continuous integration, which installs
/// everything that tests need.
#[expect(clippy::print_stderr, reason = "a skipped test must not look like one that passed")]
#[track_caller]
pub fn skip(reason: impl std::fmt::Display) {
    assert!(std::env::var_os("CI").is_none(), "nothing is skipped under CI: {reason}");
    eprintln!("skipped: {reason}");
}

/// For the first line of a story that cannot hold under gVisor. Prints why it is skipped.
#[expect(clippy::print_stderr, reason = "a skipped story must not look like one that passed")]
pub fn skipped_under_gvisor(reason: &str) -> bool {
    if under_gvisor() {
        eprintln!("skipped under gVisor: {reason}");
    }
    under_gvisor()
}

/// Ports for tests: below the range that Linux uses for outgoing connections and the engine for published ports.
const PORTS: Range<u16> = 20_000..30_000;

/// The ports that this process has reserved, until it ends.
static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// A free TCP port. No other test gets it while this process runs, and no outgoing connection uses it.
pub fn free_port() -> u16 {
    free_ports(1).start
}

/// Free TCP ports in a row, reserved like [`free_port`].
pub fn free_ports(count: u16) -> Range<u16> {
    // Processes begin at different ports, so that they rarely compete for one.
    let first = (std::process::id() * u32::from(count) % PORTS.len() as u32) as u16;
    let rotated = PORTS.cycle().skip(usize::from(first)).take(PORTS.len());
    for start in rotated.filter(|start| start + count <= PORTS.end) {
        let ports = start..start + count;
        if let Some(reserved) = ports.clone().map(reserve).collect::<Option<Vec<_>>>() {
            RESERVED.lock().unwrap_or_else(PoisonError::into_inner).extend(reserved);
            return ports;
        }
    }
    panic!("no {count} free ports in {PORTS:?}");
}

/// Takes the abstract socket that stands for the port. The kernel frees it when the process ends.
fn reserve(port: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("sandboxd-test-port-{port}")).ok()?;
    let reservation = UnixListener::bind_addr(&name).ok()?;
    TcpListener::bind(("0.0.0.0", port)).ok().map(|_| reservation)
}

/// Waits for a condition, with a time limit.
pub async fn until<F: Future<Output = bool>>(what: &str, condition: impl FnMut() -> F) {
    until_within(SOON, what, condition).await;
}

/// As [`until`], with another time limit.
pub async fn until_within<F: Future<Output = bool>>(
    limit: Duration,
    what: &str,
    mut condition: impl FnMut() -> F,
) {
    let deadline = Instant::now() + limit;
    while !condition().await {
        assert!(Instant::now() < deadline, "timed out after {limit:?} waiting until {what}");
        tokio::time::sleep(POLL).await;
    }
}
