//! Sandboxes with a network policy, and the hosts that they and this machine reach.

use std::path::Path;

use sandbox_api::SandboxId;
use sandbox_api::sandbox::{CreateSandbox, Network};

use crate::support::harness::{Daemon, Home, skip};

/// Sends `CONNECT` for each target to the sandbox's proxy, exactly as written, without an HTTP client. Prints the
/// statuses, and sends a request to a target that is connected.
const CONNECT_EACH: &str = r#"
for target in "$@"; do
  exec 3<>/dev/tcp/127.0.0.1/13128
  printf 'CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n' "$target" >&3
  read -r -t 20 _ status _ <&3
  [ "$status" = 200 ] && printf 'GET /hello HTTP/1.1\r\nHost: x\r\n\r\n' >&3 && timeout 2 head -c 200 <&3 >/dev/null
  echo "$target $status"
  exec 3>&-
done
"#;

pub(crate) fn network(mode: &str, allow: &[&str]) -> Option<Network> {
    let allow = allow.iter().map(|rule| (*rule).to_owned()).collect();
    Some(Network { mode: Some(mode.to_owned()), allow: Some(allow) })
}

pub(crate) async fn sandbox_with(daemon: &Daemon, key: &str, mode: &str, allow: &[&str]) -> SandboxId {
    let request =
        CreateSandbox { session_key: key.into(), network: network(mode, allow), ..CreateSandbox::default() };
    daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id
}

/// Statuses of the proxy's responses to CONNECT.
pub(crate) async fn statuses(daemon: &Daemon, sandbox: &SandboxId, targets: &[String]) -> Vec<String> {
    let targets: Vec<String> = targets.iter().map(|target| format!("'{target}'")).collect();
    let script = format!("set -- {}\n{CONNECT_EACH}", targets.join(" "));
    daemon.output(sandbox, &script).await.lines().map(str::to_owned).collect()
}

/// The trusted certificates of the machine, in the place that common distributions use.
pub(crate) const CA_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Whether this machine reaches a host. Skips the test if not.
pub(crate) async fn reaches(host: &str) -> bool {
    let connect = tokio::net::TcpStream::connect((host, 443));
    let reached = tokio::time::timeout(std::time::Duration::from_secs(5), connect).await;
    let is_reached = matches!(reached, Ok(Ok(_)));
    if !is_reached {
        skip(format!("{host} is not reached from here"));
    }
    is_reached
}

pub(crate) fn home() -> Home {
    if Path::new(CA_BUNDLE).exists() { Home::new().set("SANDBOXD_CA_BUNDLE", CA_BUNDLE) } else { Home::new() }
}
