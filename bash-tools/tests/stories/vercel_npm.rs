//! Checks the fake: Vercel's own client works with it, and validates every field of its responses.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::vercel_fake::{Fake, PROJECT, TEAM, TOKEN};

/// The client version that the fake was written for.
const CLIENT: &str = "@vercel/sandbox@3.5.0";

const SCRIPT: &str = include_str!("vercel_npm.mjs");

/// The directory of the client, or `None` without npm or the registry.
fn client() -> Option<PathBuf> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vercel-npm");
    std::fs::create_dir_all(&home).unwrap();
    let quiet = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--fetch-retries=0"];
    let mut npm = Command::new("npm");
    npm.args(["install", "--prefix"]).arg(&home).args(quiet).arg(CLIENT);
    let installed = npm.output().is_ok_and(|output| output.status.success());
    installed.then_some(home)
}

#[tokio::test(flavor = "multi_thread")]
async fn vercels_client_works_with_the_fake() {
    let Some(home) = tokio::task::spawn_blocking(client).await.unwrap() else {
        test_daemon::skip(format!("{CLIENT} cannot be installed here"));
        return;
    };
    let fake = Fake::start().await;
    std::fs::write(home.join("story.mjs"), SCRIPT).unwrap();
    let base = fake.base.clone();
    let node = move || {
        Command::new("node").current_dir(home).args(["story.mjs", &base, TOKEN, TEAM, PROJECT]).output()
    };
    let Output { status, stdout, stderr } = tokio::task::spawn_blocking(node).await.unwrap().unwrap();
    assert!(status.success(), "{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(String::from_utf8_lossy(&stdout), "as Vercel\n");
}
