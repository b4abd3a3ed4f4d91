//! A daemon that is killed during a fetch.

use sandbox_api::sandbox::ListSandboxes;
use test_git::GitServer;

use super::{home, in_repository};
use crate::support::harness::{DaemonProcess, free_port, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_fetch_leaves_nothing_and_is_repeated() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", "echo x >file; git add .; git commit -qm x").await;
    let home = home(&server);
    let (seam_file, manifests) = (home.path().join("seam"), home.path().join("state/snapshots/manifests"));
    let home = home.set("SANDBOXD_SEAM_FILE", seam_file.to_str().unwrap());
    let port = free_port();
    let mut daemon = DaemonProcess::start(&home, port).await;
    let request = in_repository("owner/name", "cat file");
    for seam in ["fetch.helper", "fetch.snapshot"] {
        std::fs::write(&seam_file, seam).unwrap();
        daemon.client.run_in_repository(&request).await.unwrap_err();
        daemon.child.wait().await.unwrap();
        std::fs::remove_file(&seam_file).unwrap();
        let snapshots = || std::fs::read_dir(&manifests).map_or(0, Iterator::count);
        assert_eq!(snapshots(), usize::from(seam == "fetch.snapshot"));
        daemon = DaemonProcess::start(&home, port).await;
        let left = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
        assert!(left.is_empty(), "{seam}: {left:?}");
        until(&format!("{seam}: no snapshot is left"), async || snapshots() == 0).await;
    }
    let ran = daemon.client.run_in_repository(&request).await.unwrap();
    assert_eq!((ran.stdout.as_str(), ran.cached), ("x\n", false));
    daemon = {
        daemon.kill().await;
        DaemonProcess::start(&home, port).await
    };
    assert!(daemon.client.run_in_repository(&request).await.unwrap().cached);
    daemon.kill().await;
}
