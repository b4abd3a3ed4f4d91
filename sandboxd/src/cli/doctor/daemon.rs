//! Whether a daemon runs, and whether one could.

use std::net::TcpListener;

use sandbox_api::ErrorCode;
use sandbox_api::orphan::Orphan;
use sandbox_api::sandbox::{ListSandboxes, SandboxState};
use sandbox_client::{Client, Error};

use super::finding::Finding;
use crate::cli::{DaemonArgs, orphan};
use crate::config::Config;

const CHECK: &str = "daemon";

pub(super) async fn check(config: &Config) -> Vec<Finding> {
    // Its readiness needs no token.
    let Ok(client) = Client::new(config.url.as_str(), "") else {
        return vec![Finding::fault(CHECK, "no HTTP client can be made", "report this as a bug")];
    };
    match client.ready().await {
        Ok(_) => {
            let mut found = vec![Finding::ok(CHECK, format!("runs at {} and is ready", config.url))];
            found.push(token(config).await);
            found.extend(inventory(config).await);
            found
        }
        Err(Error::Refused { body, .. }) => {
            let found = format!("runs at {} and is not ready: {}", config.url, body.error);
            vec![Finding::warning(CHECK, found, "wait while it starts; then look into its log")]
        }
        Err(Error::Broken(error)) if error.is_connect() => vec![address(config)],
        Err(error @ Error::Deadline { .. }) => {
            let found =
                format!("something accepts connections at {} and does not answer: {error}", config.url);
            let fix = "look into the daemon's log (`journalctl -u sandboxd`) and restart it, or set SANDBOXD_PORT to a free port";
            vec![Finding::fault(CHECK, found, fix)]
        }
        Err(error) => {
            let found = format!("something that is not sandboxd answers at {}: {error}", config.url);
            vec![Finding::fault(CHECK, found, "set SANDBOXD_PORT to a free port, or stop the other program")]
        }
    }
}

/// What is on the engine without a sandbox, and sandboxes that are not on the engine. Nothing where nobody can ask.
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
    let lines: Vec<_> = orphans.iter().map(orphan::line).collect();
    let found = format!("no sandbox claims {}", lines.join("; "));
    Finding::warning(
        CHECK,
        found,
        "remove them now with `sandboxd prune --orphans`, or restore the database that knows them",
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

/// Whether a daemon that is not there could listen.
fn address(config: &Config) -> Finding {
    let place = format!("{}:{}", config.bind_host.text, config.port);
    match TcpListener::bind((config.bind_host.address, config.port)) {
        Ok(_) => Finding::ok(CHECK, format!("does not run; {place} is free")),
        Err(error) => {
            let fix = "set SANDBOXD_BIND_HOST and SANDBOXD_PORT to an address and a port that are free here";
            Finding::fault(CHECK, format!("does not run, and cannot listen on {place}: {error}"), fix)
        }
    }
}

/// Whether the token of these settings is the daemon's.
async fn token(config: &Config) -> Finding {
    const CHECK: &str = "daemon's token";
    let fix = "set SANDBOXD_ADMIN_TOKEN to the daemon's, or SANDBOXD_STATE_DIR to its state dir";
    let client = match DaemonArgs::default().client(config) {
        Ok(client) => client,
        Err(error) => return Finding::warning(CHECK, error.to_string(), fix),
    };
    let one = ListSandboxes { limit: Some(1), ..ListSandboxes::default() };
    match client.list(&one).await {
        Err(error) if matches!(error.code(), Some(ErrorCode::Unauthenticated | ErrorCode::RateLimited)) => {
            Finding::warning(CHECK, "these settings have another one", fix)
        }
        _ => Finding::ok(CHECK, "these settings have it"),
    }
}
