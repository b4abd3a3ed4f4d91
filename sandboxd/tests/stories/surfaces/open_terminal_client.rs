//! Open WebUI's own code for terminal servers, from its Python package.

use std::path::{Path, PathBuf};
use std::process::Command;

use test_daemon::packages::{python_with, run, wheel_of};

use crate::support::harness::{Daemon, TOKEN};

/// The version whose code runs here.
const OPEN_WEBUI: &str = "open-webui==0.12.4";

/// What its code for terminal servers needs. All of its dependencies are some gigabytes.
const LIBRARIES: [&str; 5] =
    ["aiohttp==3.14.5", "fastapi==0.136.3", "pyjwt==2.13.0", "uvicorn==0.54.0", "websockets==17.4"];

/// Installs both. `None` without Python or the registry.
fn install() -> Option<(PathBuf, PathBuf)> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("open-webui");
    let python = python_with(&directory.join("python"), &LIBRARIES)?;
    let wheel = wheel_of(&python, &directory.join(OPEN_WEBUI), OPEN_WEBUI)?;
    Some((python, wheel))
}

#[tokio::test(flavor = "multi_thread")]
async fn open_webui_uses_the_tools_files_and_terminals() {
    let Some((python, wheel)) = tokio::task::spawn_blocking(install).await.unwrap() else {
        return test_daemon::skip(format!("{OPEN_WEBUI} cannot be installed here"));
    };
    let daemon = Daemon::start().await;
    let script = wheel.with_file_name("client.py");
    std::fs::write(&script, include_str!("published/open_webui.py")).unwrap();
    let mut client = Command::new(python);
    client.arg(script).arg(wheel).args([&daemon.base, TOKEN]);
    let (is_passed, text) = run(client).await;
    assert!(is_passed && text.contains("as published"), "{text}");
    daemon.stop().await;
}
