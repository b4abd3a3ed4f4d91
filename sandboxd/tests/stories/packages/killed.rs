//! A daemon that is killed while it resolves packages.

use sandbox_api::sandbox::ListSandboxes;

use super::{home, server, with_packages};
use crate::support::harness::{DaemonProcess, free_port};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_resolution_leaves_no_sandbox() {
    let Some(server) = server().await else { return };
    let home = home(&server);
    let seam_file = home.path().join("seam");
    let home = home.set("SANDBOXD_SEAM_FILE", seam_file.to_str().unwrap());
    let port = free_port();
    let mut daemon = DaemonProcess::start(&home, port).await;
    let request = with_packages("chat:1", &["shapes"]);
    let pages = || server.requests().iter().filter(|(_, path, _)| path == "/simple/shapes/").count();
    for (seam, expected) in [("packages.helper", 0), ("packages.snapshot", 1)] {
        std::fs::write(&seam_file, seam).unwrap();
        daemon.client.create_or_reconnect(&request).await.unwrap_err();
        daemon.child.wait().await.unwrap();
        std::fs::remove_file(&seam_file).unwrap();
        daemon = DaemonProcess::start(&home, port).await;
        let left = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
        assert!(left.is_empty(), "{seam}: {left:?}");
        assert_eq!(pages(), expected, "{seam}");
    }
    // The snapshot was complete, and it is the record of the set.
    assert!(daemon.client.create_or_reconnect(&request).await.unwrap().created);
    assert_eq!(pages(), 1);
    daemon.kill().await;
}
