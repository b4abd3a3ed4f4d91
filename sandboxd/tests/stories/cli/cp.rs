//! `sandboxd cp`, run as a separate process.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Output, Stdio};

use tokio::io::AsyncWriteExt;

use crate::support::harness::Daemon;

async fn cp(daemon: &Daemon, dir: &Path, args: &[&str]) -> Output {
    let mut program = daemon.home.program(&[&["cp", "--url", &daemon.base], args].concat());
    program.current_dir(dir).output().await.unwrap()
}

async fn copied(daemon: &Daemon, dir: &Path, args: &[&str]) -> Vec<u8> {
    let output = cp(daemon, dir, args).await;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{args:?}: a progress bar without a terminal");
    output.stdout
}

/// Standard error of a copy that must fail.
async fn fails(daemon: &Daemon, dir: &Path, args: &[&str]) -> String {
    let output = cp(daemon, dir, args).await;
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_copied_both_ways_with_its_mode() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let content: Vec<u8> = (0..=255).cycle().take(3_000_001).collect();
    std::fs::write(dir.join("tool"), &content).unwrap();
    std::fs::set_permissions(dir.join("tool"), PermissionsExt::from_mode(0o750)).unwrap();
    daemon.output(&sandbox, "mkdir there").await;
    for to in ["chat:1:", "chat:1:there", "chat:1:new/", "chat:1:other", &format!("{sandbox}:by-id")] {
        copied(&daemon, dir, &["tool", to]).await;
    }
    let listed = daemon.output(&sandbox, "find -type f | LC_ALL=C sort | xargs stat -c '%n %a %s'").await;
    let expected = ["./by-id", "./new/tool", "./other", "./there/tool", "./tool"];
    assert_eq!(listed, expected.map(|name| format!("{name} 750 3000001\n")).concat());
    copied(&daemon, dir, &["chat:1:there/tool", "back"]).await;
    std::fs::create_dir(dir.join("here")).unwrap();
    copied(&daemon, dir, &["-s", "chat:1", ":there/tool", "here"]).await;
    for back in ["back", "here/tool"] {
        assert_eq!(std::fs::read(dir.join(back)).unwrap(), content, "{back}");
        assert_eq!(std::fs::metadata(dir.join(back)).unwrap().permissions().mode() & 0o777, 0o750);
    }
    assert_eq!(copied(&daemon, dir, &["chat:1:other", "-"]).await, content);
    assert_eq!(names(dir), ["back", "here", "tool"]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_copied_both_ways_unchanged() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    std::fs::create_dir_all(dir.join("tree/sub/empty")).unwrap();
    std::fs::write(dir.join("tree/sub/file"), "1").unwrap();
    symlink("sub/file", dir.join("tree/link")).unwrap();
    daemon.output(&sandbox, "mkdir there").await;
    copied(&daemon, dir, &["tree", "chat:1:there"]).await;
    copied(&daemon, dir, &["tree", "chat:1:as"]).await;
    let look =
        "cd as; find -mindepth 1 -printf '%P %y %l\\n' | LC_ALL=C sort; diff -r . ../there/tree && echo same";
    assert_eq!(
        daemon.output(&sandbox, look).await,
        "link l sub/file\nsub d \nsub/empty d \nsub/file f \nsame\n"
    );
    copied(&daemon, dir, &["chat:1:as", "back"]).await;
    copied(&daemon, dir, &["chat:1:as", "back"]).await;
    assert_eq!(names(&dir.join("back")), ["as", "link", "sub"]);
    assert_eq!(std::fs::read_link(dir.join("back/link")).unwrap(), Path::new("sub/file"));
    assert_eq!(std::fs::read(dir.join("back/as/sub/file")).unwrap(), b"1");
    assert_eq!(names(dir), ["back", "tree"]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_from_a_sandbox_stay_in_the_target_directory() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let outside = dir.join("outside");
    std::fs::create_dir(&outside).unwrap();
    let script = format!(
        "mkdir evil; ln -s {} evil/out; echo x > evil/tool; chmod 4755 evil/tool; ln -s /etc/passwd evil/passwd",
        outside.display()
    );
    daemon.output(&sandbox, &script).await;
    copied(&daemon, dir, &["chat:1:evil", "evil"]).await;
    // The link exists now, and a directory of the same name arrives. Nothing may be written through the link.
    daemon.output(&sandbox, "rm evil/out; mkdir evil/out; echo x > evil/out/file").await;
    let reported = fails(&daemon, dir, &["chat:1:evil", "."]).await;
    assert!(reported.contains("evil is only partly written"), "{reported}");
    assert!(names(&outside).is_empty());
    let mode = std::fs::metadata(dir.join("evil/tool")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7000, 0, "{mode:o}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_is_copied_to_a_file_and_errors_are_reported() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let mut program = daemon.home.program(&["cp", "--url", &daemon.base, "-", "chat:1:typed"]);
    let mut child = program.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"typed").await.unwrap();
    assert!(child.wait().await.unwrap().success());
    assert_eq!(daemon.output(&sandbox, "cat typed").await, "typed");
    for (args, said) in [
        (["absent", "chat:1:"], "absent"),
        (["chat:1:absent", "."], "no such file"),
        (["chat:2:x", "."], "no such sandbox"),
        (["a", "b"], "both paths are on this machine"),
        (["chat:1:a", "chat:1:b"], "both paths are in a sandbox"),
        (["chat:1:../x", "."], "leads out of the workspace"),
        (["chat:1:typed", "no/such/dir"], "no/such"),
    ] {
        let reported = fails(&daemon, dir, &args).await;
        assert!(reported.contains(said), "{args:?}: {reported}");
    }
    assert!(names(dir).is_empty());
    daemon.stop().await;
}
