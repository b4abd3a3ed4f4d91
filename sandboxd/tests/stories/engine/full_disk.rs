//! The engine's disk fills up: writes are rejected in time, and written files are kept.

use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Error, WriteOptions};

use crate::support::files::{file, read, write};
use crate::support::harness::{Daemon, Home, skipped_under_gvisor, until};
use crate::support::http::HttpClient;
use crate::support::metrics::Samples;
use crate::support::private_engine::OwnEngine;

const MIB: u64 = 1024 * 1024;

/// Room for the image, a few disks, and more than the reserve.
const ENGINE_DISK: u64 = 6 * 1024 * MIB;

fn is_full<T: std::fmt::Debug>(what: &str, answer: Result<T, Error>) {
    let error = answer.expect_err(what);
    assert_eq!(error.code(), Some(ErrorCode::InsufficientStorage), "{what}: {error}");
}

/// Waits until a sandbox waits for a session, which takes space too.
async fn one_waits(daemon: &Daemon) {
    until("one waits", || async { Samples::of(daemon).await.sum("sandboxd_pool", &[]) == 1.0 }).await;
}

async fn put(daemon: &Daemon, sandbox: &SandboxId, path: &str) -> Result<(), Error> {
    let content = vec![7; 8 * MIB as usize];
    daemon.client.put_file(sandbox, path, content, WriteOptions::default()).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_engine_disk_rejects_writes_and_loses_no_file() {
    if skipped_under_gvisor("the private engine does not know the runtime") {
        return;
    }
    let engine = OwnEngine::start_on_disk(&Home::new().config().image, ENGINE_DISK);
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &engine.socket().to_string_lossy());
    let daemon = Daemon::start_in(home.set("SANDBOXD_POOL_SIZE", "1")).await;
    one_waits(&daemon).await;
    let sandbox = daemon.sandbox("chat:1").await;
    one_waits(&daemon).await;
    put(&daemon, &sandbox, "before").await.unwrap();
    assert!(!daemon.client.ready().await.unwrap().disk_short);

    // More than an upload needs, and less than the reserve.
    let ballast = engine.fill(64 * MIB);
    until("the daemon notices", || async { daemon.client.ready().await.is_ok_and(|ready| ready.disk_short) })
        .await;
    is_full("PUT", put(&daemon, &sandbox, "after").await);
    is_full("files:write", write(&daemon, &sandbox, [file("after", "x")]).await);
    is_full("unpack", daemon.client.unpack_files(&sandbox, "to", vec![0; 10_240]).await);
    let request = CreateSandbox { session_key: "chat:2".into(), ..CreateSandbox::default() };
    is_full("create", daemon.client.create_or_reconnect(&request).await);
    let shown = HttpClient::of(&daemon).get(&format!("/v1/sandboxes/{sandbox}")).await.json();
    assert!(shown.to_string().contains("disk space: the engine's disk is nearly full"), "{shown}");
    let metrics = HttpClient::of(&daemon).get("/metrics").await;
    let metrics = String::from_utf8(metrics.body).unwrap();
    let free = metrics.lines().find_map(|line| line.strip_prefix("sandboxd_disk_free_bytes ")).unwrap();
    assert!(free.parse::<u64>().unwrap() <= 64 * MIB, "{free}");

    // The written files are readable, also from the next container.
    daemon.client.park(&sandbox, false).await.unwrap();
    let kept = read(&daemon, &sandbox, "before").await.unwrap().expect("the file is lost");
    assert!(kept.len() == 8 * MIB as usize && kept.iter().all(|byte| *byte == 7));
    assert_eq!(read(&daemon, &sandbox, "after").await.unwrap(), None);

    drop(ballast);
    one_waits(&daemon).await;
    daemon.client.create_or_reconnect(&request).await.unwrap();
    put(&daemon, &sandbox, "after").await.unwrap();
    daemon.client.park(&sandbox, false).await.unwrap();
    assert!(read(&daemon, &sandbox, "after").await.unwrap().is_some());
    daemon.stop().await;
}
