//! Checks whether a daemon runs, and otherwise whether one could start.

use std::net::TcpListener;

use sandbox_api::ErrorCode;
use sandbox_api::orphan::Orphan;
use sandbox_api::sandbox::{ListSandboxes, SandboxState};
use sandbox_client::{Client, Error};

use super::finding::Finding;
use crate::{DaemonArgs, orphan};
use sandboxd_config::Config;

const CHECK: &str = "daemon";

pub(super) async fn check(config: &Config) -> Vec<Finding> {
    // The readiness endpoint needs no token.
    let Ok(client) = Client::new(config.url.as_str(), "") else {
        return vec![Finding::fault(CHECK, "cannot create an HTTP client", "report this as a bug")];
    };
    match client.ready().await {
        Ok(_) => {
            let mut found = vec![Finding::ok(CHECK, format!("runs at {} and is ready", config.url))];
            found.push(token(config).await);
            found.extend(inventory(config).await);
            found
        }
        Err(Error::Refused { body, .. }) => {
            let found = format!("runs at {} but is not ready: {}", config.url, body.error);
            vec![Finding::warning(
                CHECK,
                found,
                "wait for it to start; if it does not become ready, see its log",
            )]
        }
        Err(Error::Broken(error)) if error.is_connect() => vec![address(config)],
        Err(error @ Error::Deadline { .. }) => {
            let found =
                format!("a program accepts connections at {} but does not answer: {error}", config.url);
            let fix = "see the daemon's log (`journalctl -u sandboxd`) and restart it, or set SANDBOXD_PORT to a free port";
            vec![Finding::fault(CHECK, found, fix)]
        }
        Err(error) => {
            let found = format!("a program other than sandboxd answers at {}: {error}", config.url);
            vec![Finding::fault(CHECK, found, "set SANDBOXD_PORT to a free port, or stop the other program")]
        }
    }
}

/// Checks for orphans and for lost sandboxes. Empty if the daemon cannot be queried.
async fn inventory(config: &Config) -> Vec<Finding> {
    let Ok(client) = DaemonArgs::default().client(config) else { return Vec::new() };
    let lost = ListSandboxes { state: Some(SandboxState::Lost), ..ListSandboxes::default() };
    let (Ok(orphans), Ok(lost)) = (client.orphans().await, client.list(&lost).await) else {
        return Vec::new();
    };
    let lost: Vec<_> = lost.sandboxes.iter().map(|sandbox| sandbox.sandbox_id.to_string()).collect();
    vec![orphans_found(&orphans.orphans), lost_found(&lost)]
}

fn orphans_found(orphans: &[Orphan]) -> Finding {
    const CHECK: &str = "orphans";
    if orphans.is_empty() {
        return Finding::ok(CHECK, "every workspace and disk on the engine belongs to a sandbox");
    }
    let lines: Vec<_> = orphans.iter().map(orphan::describe).collect();
    let found = format!("without a sandbox: {}", lines.join("; "));
    Finding::warning(
        CHECK,
        found,
        "remove them with `sandboxd prune --orphans`, or restore the database with their sandboxes",
    )
}

fn lost_found(lost: &[String]) -> Finding {
    const CHECK: &str = "lost sandboxes";
    if lost.is_empty() {
        return Finding::ok(CHECK, "the files of every sandbox are on the engine");
    }
    let found = format!("the files of {} are missing on the engine", lost.join(", "));
    Finding::warning(CHECK, found, "restore their volumes or disks, or delete them with `sandboxd stop`")
}

/// Checks whether a daemon could listen on its address.
fn address(config: &Config) -> Finding {
    let address = format!("{}:{}", config.bind_host.text, config.port);
    match TcpListener::bind((config.bind_host.address, config.port)) {
        Ok(_) => Finding::ok(CHECK, format!("not running; {address} is free")),
        Err(error) => {
            let fix = "set SANDBOXD_BIND_HOST and SANDBOXD_PORT to a free address and port of this machine";
            Finding::fault(CHECK, format!("not running, and cannot listen on {address}: {error}"), fix)
        }
    }
}

/// Checks whether the daemon accepts the token from the settings.
async fn token(config: &Config) -> Finding {
    const CHECK: &str = "daemon's token";
    let fix = "set SANDBOXD_ADMIN_TOKEN to the daemon's token, or SANDBOXD_STATE_DIR to its state dir";
    let client = match DaemonArgs::default().client(config) {
        Ok(client) => client,
        Err(error) => return Finding::warning(CHECK, error.to_string(), fix),
    };
    let one = ListSandboxes { limit: Some(1), ..ListSandboxes::default() };
    match client.list(&one).await {
        Err(error) if matches!(error.code(), Some(ErrorCode::Unauthenticated | ErrorCode::RateLimited)) => {
            Finding::warning(CHECK, "the daemon rejects the token from these settings", fix)
        }
        _ => Finding::ok(CHECK, "the daemon accepts the token from these settings"),
    }
}
