//! `sandboxd try`, run as a separate process.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::sandbox::ListSandboxes;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use crate::support::harness::{Daemon, SOON};
use crate::support::user_terminal::UserTerminal;

async fn trial(daemon: &Daemon, args: &[&str]) -> Output {
    let mut program = daemon.home.program(&[&["try", "--url", &daemon.base], args].concat());
    let ended = timeout(SOON, program.stdin(Stdio::null()).output()).await;
    ended.expect("the program does not end").unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_owned()).unwrap()
}

/// Names, kinds, modes and contents of everything in a directory.
fn contents(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            if meta.is_symlink() {
                found.push(format!("{name} -> {}", fs::read_link(&path).unwrap().display()));
            } else if meta.is_dir() {
                found.push(format!("{name}/"));
                pending.push(path);
            } else {
                let mode = meta.permissions().mode() & 0o777;
                found.push(format!("{name} {mode:o} {}", text(&fs::read(&path).unwrap())));
            }
        }
    }
    found.sort();
    found
}

fn project() -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    fs::create_dir_all(dir.join("src/old")).unwrap();
    fs::write(dir.join("src/main"), "one").unwrap();
    fs::write(dir.join("src/old/gone"), "gone").unwrap();
    fs::write(dir.join("kept"), "kept").unwrap();
    symlink("src/main", dir.join("link")).unwrap();
    temp
}

async fn nothing_is_left(daemon: &Daemon) {
    let left = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    assert!(left.is_empty(), "{left:?}");
}

const CHANGE: &str = "printf two > src/main; rm -r src/old; mkdir new; printf x > new/file; chmod 755 new/file; \
     mv kept moved; ln -sfn new link; ln -s /etc/passwd new/passwd; mkfifo new/pipe";

#[tokio::test(flavor = "multi_thread")]
async fn the_changes_of_a_copy_are_listed_and_the_directory_stays() {
    let daemon = Daemon::start().await;
    let project = project();
    let before = contents(project.path());
    let dir = project.path().to_str().unwrap();
    let tried = trial(&daemon, &[dir, "--", &format!("{CHANGE}; echo out; exit 7")]).await;
    assert_eq!((tried.status.code(), text(&tried.stdout)), (Some(7), "out\n".into()));
    let listed = text(&tried.stderr);
    for line in
        ["M src/main\n", "D src/old\n", "D src/old/gone\n", "A new/file\n", "R kept -> moved\n", "M link\n"]
    {
        assert!(listed.contains(line), "{line} is not in {listed}");
    }
    assert_eq!(contents(project.path()), before);
    let unchanged = trial(&daemon, &[dir, "--", "ls", "src"]).await;
    assert_eq!(text(&unchanged.stdout), "main\nold\n");
    assert!(text(&unchanged.stderr).contains("nothing has changed"), "{unchanged:?}");
    nothing_is_left(&daemon).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_applied_without_what_leaves_the_directory() {
    let daemon = Daemon::start().await;
    let project = project();
    let dir = project.path().to_str().unwrap();
    // As in a virtual environment of Python.
    symlink("/usr/bin/python3", project.path().join("python")).unwrap();
    let refused = trial(&daemon, &["--apply", dir, "--", "true"]).await;
    assert_eq!(refused.status.code(), Some(1), "without a terminal, it must be confirmed in advance");
    assert!(text(&refused.stderr).contains("--yes"), "{refused:?}");

    let applied =
        trial(&daemon, &["--apply", "--yes", dir, "--", &format!("{CHANGE}; printf own > python")]).await;
    let reported = text(&applied.stderr);
    assert_eq!(applied.status.code(), Some(1), "something is skipped: {reported}");
    // Nothing of the work is lost.
    assert!(reported.contains("the sandbox is kept"), "{reported}");
    let kept = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes.remove(0).sandbox_id;
    assert_eq!(daemon.output(&kept, "cat python").await, "own");
    daemon.client.delete_with_snapshots(&kept).await.unwrap();
    assert!(reported.contains("new/passwd is skipped: it is a link out of the directory"), "{reported}");
    assert!(reported.contains("new/pipe is skipped"), "{reported}");
    assert!(reported.contains("python is not copied: it is a link out of the directory"), "{reported}");
    assert!(reported.contains("python is skipped"), "{reported}");
    fs::remove_file(project.path().join("python")).unwrap();
    assert_eq!(
        contents(project.path()),
        ["link -> new", "moved 644 kept", "new/", "new/file 755 x", "src/", "src/main 644 two"]
    );
    let script = "mkdir -p a/b; mv moved a/b/moved; printf three > src/main";
    let again = trial(&daemon, &["--apply", "--yes", dir, "--", script]).await;
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    assert_eq!(
        contents(project.path()),
        [
            "a/",
            "a/b/",
            "a/b/moved 644 kept",
            "link -> new",
            "new/",
            "new/file 755 x",
            "src/",
            "src/main 644 three"
        ]
    );
    nothing_is_left(&daemon).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_of_the_changes_can_be_applied() {
    let daemon = Daemon::start().await;
    let (project, elsewhere) = (project(), tempfile::tempdir().unwrap());
    let before = contents(project.path());
    let patch = elsewhere.path().join("changes.patch");
    let (dir, file) = (project.path().to_str().unwrap(), patch.to_str().unwrap());
    let script = "printf 'two\\n' > src/main; mkdir new; printf 'x\\n' > 'new/a file'; rm src/old/gone";
    let tried = trial(&daemon, &["--diff", file, dir, "--", script]).await;
    assert_eq!(tried.status.code(), Some(0), "{tried:?}");
    assert_eq!(contents(project.path()), before);
    let applied = tokio::process::Command::new("git").args(["apply", file]).current_dir(dir).output().await;
    assert!(applied.as_ref().unwrap().status.success(), "{applied:?}");
    let after = contents(project.path());
    for line in ["src/main 644 two\n", "new/a file 644 x\n"] {
        assert!(after.contains(&line.to_owned()), "{after:?}");
    }
    assert!(!after.iter().any(|line| line.starts_with("src/old/gone")), "{after:?}");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1, "only the patch is left");
    let inside = project.path().join("inside.patch");
    let tried = trial(&daemon, &["--diff", inside.to_str().unwrap(), dir, "--", "ls -A"]).await;
    assert!(!text(&tried.stdout).contains("sandboxd-try"), "the patch's own file is copied: {tried:?}");
    assert!(inside.exists());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_kept_if_it_cannot_be_saved() {
    let daemon = Daemon::start().await;
    let project = project();
    let dir = project.path().to_str().unwrap();
    let nowhere = trial(&daemon, &["--diff", "/nowhere/changes.patch", dir, "--", "true"]).await;
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(text(&nowhere.stderr).contains("/nowhere is not writable"), "{nowhere:?}");
    let device = trial(&daemon, &["--diff", "/dev/null", dir, "--", "true"]).await;
    assert!(text(&device.stderr).contains("/dev/null is not a regular file"), "{device:?}");
    nothing_is_left(&daemon).await;
    daemon.stop().await;
}

/// The user continues to work in the directory meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_changed_meanwhile_is_not_overwritten() {
    let daemon = Daemon::start().await;
    let project = project();
    let dir = project.path();
    let script = "echo ready; until [ -e go ]; do sleep 0.1; done; rm go; printf theirs > src/main; \
                  printf new > also; rm -r src/old; printf fine > kept";
    let args = ["try", "--url", &daemon.base, "--apply", "--yes", dir.to_str().unwrap(), "--", script];
    let mut program = daemon.home.program(&args);
    let mut child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
    fs::write(dir.join("src/main"), "mine, and longer").unwrap();
    fs::write(dir.join("also"), "mine").unwrap();
    fs::write(dir.join("src/old/mine"), "mine").unwrap();
    let sandbox = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes.remove(0).sandbox_id;
    daemon.output(&sandbox, "touch go").await;
    let ended = timeout(SOON, child.wait_with_output()).await.expect("it does not end").unwrap();
    let reported = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{reported}");
    for path in ["src/main", "also", "src/old"] {
        assert!(reported.contains(&format!("{path} is skipped")), "{path}: {reported}");
    }
    assert_eq!(
        contents(dir),
        [
            "also 644 mine",
            "kept 644 fine",
            "link -> src/main",
            "src/",
            "src/main 644 mine, and longer",
            "src/old/",
            "src/old/mine 644 mine"
        ]
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_trial_and_leaves_nothing() {
    let daemon = Daemon::start().await;
    let project = project();
    let args =
        ["try", "--url", &daemon.base, project.path().to_str().unwrap(), "--", "echo ready; sleep 300"];
    let mut program = daemon.home.program(&args);
    let mut child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
    let pid = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let ended = timeout(Duration::from_secs(30), child.wait()).await.expect("it does not end").unwrap();
    assert_eq!(ended.code(), Some(130));
    nothing_is_left(&daemon).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_works_in_a_shell_and_is_asked_before_changes_are_applied() {
    let daemon = Daemon::start().await;
    let project = project();
    let before = contents(project.path());
    let args = ["try", "--url", &daemon.base, "--apply", project.path().to_str().unwrap()];
    for (answer, applied) in [("n\r", false), ("\r", false), ("y\r", true)] {
        let mut user = UserTerminal::start(&daemon.home, &args);
        user.wait_until_attached("sandbox@sandbox:~$ ").await;
        user.type_keys("cat src/main; printf two > src/main; exit\r").await;
        user.wait_for("M src/main").await;
        user.wait_for("[y/N] ").await;
        assert!(user.is_restored());
        assert_eq!(contents(project.path()), before, "changed before the answer");
        user.type_keys(answer).await;
        assert_eq!(user.exit_code().await, Some(0));
        let after = fs::read(project.path().join("src/main")).unwrap();
        let expected = if applied { *b"two" } else { *b"one" };
        assert_eq!(after, expected, "{answer:?}");
        nothing_is_left(&daemon).await;
    }
    daemon.stop().await;
}
