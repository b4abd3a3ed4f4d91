//! Checks the fake: Vercel's own client works with it, and validates every field of its responses.

use std::path::Path;

use test_daemon::packages::{NpmPackages, run};

use crate::vercel_fake::{Fake, PROJECT, TEAM, TOKEN};

/// The client version that the fake was written for.
const CLIENT: &str = "@vercel/sandbox@3.5.0";

const SCRIPT: &str = include_str!("vercel_npm.mjs");

fn client() -> Option<NpmPackages> {
    NpmPackages::install(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("vercel-npm"), &[CLIENT], None)
}

#[tokio::test(flavor = "multi_thread")]
async fn vercels_client_works_with_the_fake() {
    let Some(packages) = tokio::task::spawn_blocking(client).await.unwrap() else {
        test_daemon::skip(format!("{CLIENT} cannot be installed here"));
        return;
    };
    let fake = Fake::start().await;
    let mut client = packages.script("story.mjs", SCRIPT);
    client.args([&fake.base, TOKEN, TEAM, PROJECT]);
    let (is_passed, text) = run(client).await;
    assert!(is_passed && text.contains("as Vercel\n"), "{text}");
}
