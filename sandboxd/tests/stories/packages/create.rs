//! Sandboxes that are created with packages.

use futures::future::join_all;
use sandbox_api::sandbox::ListSandboxes;

use super::{created, home, server, with_packages};
use crate::support::harness::Daemon;

#[tokio::test]
async fn sandboxes_share_a_set_that_was_resolved_once() {
    let Some(server) = server().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    let request = with_packages("chat:1", &["shapes==1.*"]);
    let first = created(&daemon, &request).await;
    let run =
        "python3 -c 'import shapes; shapes.main()'; shapes; python3 -c 'import numpy; print(numpy.__name__)'";
    let expected = "shapes 1.1 lines\nshapes 1.1 lines\nnumpy\n";
    assert_eq!(daemon.output(&first, run).await, expected);
    assert_eq!(daemon.output(&first, "ls -A; ls -A $TMPDIR").await, "", "nothing else is left");
    let compiled = "python3 -c 'import os, shapes; print(os.path.exists(shapes.__cached__))'";
    assert_eq!(daemon.output(&first, compiled).await, "True\n");

    let requests = server.requests().len();
    let second = created(&daemon, &with_packages("chat:2", &["Shapes == 1.*", "shapes==1.*"])).await;
    assert_eq!(daemon.output(&second, run).await, expected);
    assert_eq!(server.requests().len(), requests, "the set is known");
    let changed = "rm -r ~/../.local/share/packages/*; python3 -c 'import shapes' 2>&1 | tail -1";
    assert!(daemon.output(&first, changed).await.contains("ModuleNotFoundError"));
    assert_eq!(daemon.output(&second, run).await, expected, "each has its own files");

    let again = daemon.client.create_or_reconnect(&request).await.unwrap();
    assert!(!again.created && again.ignored == ["packages"], "{again:?}");
    let other = created(&daemon, &with_packages("chat:3", &["shapes"])).await;
    assert_eq!(daemon.output(&other, "shapes").await, "shapes 2.0 lines\n");
    let left = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    assert_eq!(left.len(), 3, "no sandbox of a resolution is left: {left:?}");
}

#[tokio::test]
async fn packages_survive_a_park() {
    let Some(server) = server().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    let sandbox = created(&daemon, &with_packages("chat:1", &["shapes"])).await;
    daemon.client.park(&sandbox, false).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "shapes").await, "shapes 2.0 lines\n");
}

#[tokio::test]
async fn requests_at_the_same_time_resolve_once() {
    let Some(server) = server().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    let keys: Vec<String> = (0..20).map(|number| format!("chat:{number}")).collect();
    let requests: Vec<_> = keys.iter().map(|key| with_packages(key, &["shapes"])).collect();
    // Only some of the sandboxes fit, and all of the requests wait for the set first.
    let created = join_all(requests.iter().map(|request| daemon.client.create_or_reconnect(request))).await;
    assert!(created.iter().flatten().count() > 0, "{created:?}");
    let pages = server.requests().iter().filter(|(_, path, _)| path == "/simple/shapes/").count();
    assert_eq!(pages, 1);
}

#[tokio::test]
async fn a_large_set_is_shared_as_a_base() {
    let Some(server) = server().await else { return };
    let modules: Vec<(String, String)> =
        (0..600).map(|number| (format!("large/m{number}.py"), format!("N = {number}\n"))).collect();
    let modules: Vec<(&str, &str)> = modules.iter().map(|(path, code)| (&**path, &**code)).collect();
    server.publish_wheel("large", "1.0", &modules, &[]);
    let daemon = Daemon::start_in(home(&server)).await;
    let run = "python3 -c 'from large import m599; print(m599.N)'; touch ~/../.local/share/packages/own";
    let mut bases = Vec::new();
    for key in ["chat:1", "chat:2"] {
        let sandbox = created(&daemon, &with_packages(key, &["large"])).await;
        assert_eq!(daemon.output(&sandbox, run).await, "599\n");
        bases.push(daemon.client.get(&sandbox).await.unwrap().posture.unwrap().base);
    }
    assert_eq!(bases[0], bases[1], "they share a base, or have none here");
}
