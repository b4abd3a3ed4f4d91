//! Python packages on request: resolved once, shared, and kept apart between contexts.

mod contexts;
mod create;
mod faults;
mod index;
mod killed;
mod sources;

use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;
use test_git::{GitServer, NAME};

use crate::support::harness::{Daemon, Home};

/// Settings of a daemon whose package index is the server.
fn home(server: &GitServer) -> Home {
    server.home().set("SANDBOXD_PACKAGE_INDEX", &format!("https://{NAME}/simple"))
}

/// A server with a package `shapes` in two versions, which requires `lines`.
async fn server() -> Option<GitServer> {
    let server = GitServer::start().await?;
    for version in ["1.0", "1.1", "2.0"] {
        let code = format!("import lines\n\ndef main():\n    print('shapes {version}', lines.NAME)\n");
        server.publish_wheel("shapes", version, &[("shapes.py", &code)], &["lines>=1"]);
    }
    server.publish_wheel("lines", "1.0", &[("lines/__init__.py", "NAME = 'lines'\n")], &[]);
    Some(server)
}

fn with_packages(session_key: &str, packages: &[&str]) -> CreateSandbox {
    CreateSandbox {
        session_key: session_key.into(),
        packages: Some(packages.iter().map(|one| (*one).to_owned()).collect()),
        ..CreateSandbox::default()
    }
}

/// Creates a sandbox. Not as [`Daemon::create`], because packages are not combined with a base of its own.
async fn created(daemon: &Daemon, request: &CreateSandbox) -> SandboxId {
    daemon.client.create_or_reconnect(request).await.unwrap().sandbox_id
}
