//! The state directory becomes read-only: before a start, while a daemon runs, and back.

use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox_api::command::EndReason;
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::Error;
use sandboxd::model::layout::container_name;
use tempfile::TempDir;

use crate::support::engine_proxy::EngineProxy;
use crate::support::engine_view::objects_of;
use crate::support::fault_injection::{Immutable, SmallDisk, connect};
use crate::support::harness::{Collected, Daemon, Home, docker, outcome, script, until};
use crate::support::processes::serve;

fn succeeds(program: &str, args: &[&str], path: &Path) -> bool {
    Command::new(program).args(args).arg(path).status().unwrap().success()
}

fn run(program: &str, args: &[&str], path: &Path) {
    assert!(succeeds(program, args, path), "{program} {args:?} {}", path.display());
}

/// The audit record is elsewhere: without it, no command starts.
fn with_state(path: &Path) -> Home {
    let home = Home::new();
    let audit = home.path().join("audit");
    let home = home.set("SANDBOXD_AUDIT_DIR", &audit.to_string_lossy());
    home.set("SANDBOXD_STATE_DIR", &path.to_string_lossy())
}

/// Standard error of a daemon that does not start.
async fn refusal(home: &Home) -> String {
    let output = serve(home).output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_state_dir_stops_the_start_and_loses_nothing() {
    let disk = SmallDisk::new("16m");
    let remount = async |how: &str| {
        // Busy for a moment after a stop, while the kernel still releases files that were deleted when they were open.
        let options = format!("remount,{how}");
        until("the file system is mounted again", async || succeeds("mount", &["-o", &options], disk.path()))
            .await;
    };
    let is_reported = |said: &str| {
        let facts = [&*disk.path().to_string_lossy(), "state dir", "Read-only file system", "`mount`"];
        assert!(facts.iter().all(|fact| said.contains(fact)), "{said}");
    };
    remount("ro").await;
    is_reported(&refusal(&with_state(disk.path())).await);
    remount("rw").await;
    assert_eq!(std::fs::read_dir(disk.path()).unwrap().count(), 0);

    let daemon = Daemon::start_in(with_state(disk.path())).await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > file").await;
    let home = daemon.stop().await;
    let objects = objects_of(&home).await;
    remount("ro").await;
    is_reported(&refusal(&home).await);
    assert_eq!(objects_of(&home).await, objects);
    remount("rw").await;
    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
    daemon.stop().await;
}

async fn create(daemon: &Daemon, key: &str) -> Result<SandboxId, Error> {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    Ok(daemon.client.create_or_reconnect(&request).await?.sandbox_id)
}

#[track_caller]
fn is_unavailable<T: std::fmt::Debug>(what: &str, answer: Result<T, Error>) {
    let error = answer.expect_err(what);
    assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{what}: {error:?}");
    assert!(error.to_string().contains("store"), "{what}: {error}");
}

const OTHER_IDLE_TTL_MS: u64 = 123_456;

async fn idle_ttl_in_row(daemon: &Daemon, sandbox: &SandboxId) -> u64 {
    let mut database = connect(&daemon.home.config().state_dir).await;
    let select = sqlx::query_scalar::<_, i64>("SELECT idle_ttl_ms FROM sandboxes WHERE id = ?");
    let found = select.bind(sandbox.as_str()).fetch_one(&mut database).await.unwrap();
    found.cast_unsigned()
}

/// Three sandboxes: a running one, one with a foreground command, and a parked one.
struct Scene {
    daemon: Daemon,
    runs: SandboxId,
    busy: SandboxId,
    parked: SandboxId,
}

impl Scene {
    async fn new(home: Home) -> Self {
        let daemon = Daemon::start_in(home).await;
        let [runs, busy, parked] = ["chat:1", "chat:2", "chat:3"].map(|key| daemon.sandbox(key));
        let (runs, busy, parked) = (runs.await, busy.await, parked.await);
        daemon.output(&parked, "echo kept > file").await;
        daemon.client.park(&parked, false).await.unwrap();
        Self { daemon, runs, busy, parked }
    }

    /// Requests that write are rejected and change nothing. All others succeed.
    async fn only_reading_works(&self) {
        let Self { daemon, runs, busy, parked } = self;
        let before = objects_of(&daemon.home).await;
        let client = &daemon.client;
        let command = script("echo begun; while [ ! -e over ]; do sleep 0.1; done; echo done");
        let mut records = client.run(busy, &command).await.unwrap();
        let mut collected = Collected::default();
        while collected.stdout.is_empty() {
            let record = futures::StreamExt::next(&mut records).await.unwrap().unwrap();
            assert!(collected.take(record).is_none());
        }

        is_unavailable("ready", client.ready().await);
        client.health().await.unwrap();
        is_unavailable("create", create(daemon, "chat:new").await);
        is_unavailable("wake", client.touch(parked, None).await);
        is_unavailable("a change", client.touch(runs, Some(OTHER_IDLE_TTL_MS)).await);
        is_unavailable("park", client.park(runs, false).await);
        is_unavailable("park by force", client.park(busy, true).await);
        for sandbox in [runs, busy, parked] {
            is_unavailable("delete", client.delete(sandbox).await);
        }
        assert_eq!(objects_of(&daemon.home).await, before);
        assert_eq!(daemon.output(runs, "echo on").await, "on\n");
        assert_eq!(daemon.output(busy, "touch over; echo on").await, "on\n");
        let ended = outcome(records).await;
        assert_eq!((ended.text().as_str(), ended.reason), ("done\n", EndReason::Exited));
        for (sandbox, state) in
            [(runs, SandboxState::Running), (busy, SandboxState::Running), (parked, SandboxState::Parked)]
        {
            assert_eq!(client.get(sandbox).await.unwrap().state, state);
        }
        // The failed sandbox stays listed until the store has removed it.
        for sandbox in client.list(&ListSandboxes::default()).await.unwrap().sandboxes {
            let is_known = [runs, busy, parked].contains(&&sandbox.sandbox_id);
            assert!(is_known || sandbox.state == SandboxState::Failed, "{sandbox:?}");
        }
    }

    async fn everything_works(self) {
        let Self { daemon, runs, busy, parked } = self;
        until("a sandbox can be created", || async { create(&daemon, "chat:new").await.is_ok() }).await;
        daemon.client.ready().await.unwrap();
        assert_eq!(daemon.output(&parked, "cat file").await, "kept\n");
        until("its agent responds", || async { daemon.client.park(&busy, false).await.is_ok() }).await;
        until("commands run meanwhile are in the history", || async {
            let commands = daemon.client.commands(&busy, 10).await.unwrap().commands;
            commands.iter().filter(|command| command.exit_code == Some(0)).count() == 2
        })
        .await;
        // A rejected change that is sent again is also written.
        daemon.client.touch(&runs, Some(OTHER_IDLE_TTL_MS)).await.unwrap();
        assert_eq!(idle_ttl_in_row(&daemon, &runs).await, OTHER_IDLE_TTL_MS);
        daemon.client.delete(&runs).await.unwrap();
        // The next daemon restores the same from the rows.
        let daemon = Daemon::start_in(daemon.stop().await).await;
        let mut states: Vec<_> = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
        states.sort_by(|one, other| one.session_key.cmp(&other.session_key));
        let states: Vec<_> = states.iter().map(|found| (found.session_key.as_str(), found.state)).collect();
        let (running, at_rest) = (SandboxState::Running, SandboxState::Parked);
        assert_eq!(states, [("chat:2", at_rest), ("chat:3", running), ("chat:new", running)]);
        daemon.stop().await;
    }
}

/// A read-only mount over a directory until it is dropped. Files that are already open are not affected.
struct ReadOnlyMount(PathBuf);

impl ReadOnlyMount {
    fn over(dir: &Path) -> Self {
        run("mount", &["--bind", &dir.to_string_lossy()], dir);
        let mount = Self(dir.to_owned());
        run("mount", &["-o", "remount,bind,ro"], dir);
        mount
    }
}

impl Drop for ReadOnlyMount {
    fn drop(&mut self) {
        run("umount", &["--lazy"], &self.0);
    }
}

/// The kernel does not remount a file system read-only while a file is open for writing, as the store's files always
/// are. So the files first reject writes, which makes the store reopen them. Then it finds them on a read-only mount.
#[tokio::test(flavor = "multi_thread")]
async fn a_temporarily_read_only_state_dir_blocks_changes_and_no_command() {
    let home = Home::new();
    let state = home.path().join("state");
    let scene = Scene::new(home).await;
    let immutable = Immutable::new(&state, &["sandboxd.db", "sandboxd.db-wal"]);
    is_unavailable("create", create(&scene.daemon, "chat:new").await);
    drop(immutable);
    let mount = ReadOnlyMount::over(&state);
    scene.only_reading_works().await;
    drop(mount);
    scene.everything_works().await;
}

/// A paused container does not respond, so a request to it stays in progress until the pause is noticed.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_forced_park_interrupts_no_request() {
    let proxy = EngineProxy::start();
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy());
    let state = home.path().join("state");
    let daemon = Daemon::start_in(home).await;
    let sandbox = daemon.sandbox("chat:1").await;
    proxy.silence("/events");
    let (engine, name) = (docker().await, container_name(&sandbox));
    engine.pause_container(&name).await.unwrap();
    let immutable = Immutable::new(&state, &["sandboxd.db", "sandboxd.db-wal"]);
    let meanwhile = async {
        is_unavailable("park by force", daemon.client.park(&sandbox, true).await);
        engine.unpause_container(&name).await.unwrap();
    };
    let (made, ()) = tokio::join!(daemon.client.make_dir(&sandbox, "dir"), meanwhile);
    made.unwrap();
    drop(immutable);
    proxy.clear_faults();
    daemon.client.park(&sandbox, true).await.unwrap();
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().state, SandboxState::Parked);
    daemon.stop().await;
}

/// A trigger that rejects changes to a row in state `deleting`.
const REFUSE_ANOTHER_WORD: &str = "
CREATE TRIGGER refuse_update BEFORE UPDATE ON sandboxes WHEN OLD.stage = 'deleting'
BEGIN SELECT RAISE(ABORT, 'refused by the test'); END;
CREATE TRIGGER refuse_insert BEFORE INSERT ON sandboxes
WHEN EXISTS (SELECT 1 FROM sandboxes WHERE id = NEW.id AND stage = 'deleting')
BEGIN SELECT RAISE(ABORT, 'refused by the test'); END";

/// The row says `deleting` and cannot change, so the delete can neither continue nor be undone.
#[tokio::test(flavor = "multi_thread")]
async fn a_partial_delete_blocks_the_sandbox_and_can_be_repeated() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > file").await;
    let before = objects_of(&daemon.home).await;
    let mut database = connect(&daemon.home.config().state_dir).await;
    sqlx::raw_sql(REFUSE_ANOTHER_WORD).execute(&mut database).await.unwrap();
    daemon.client.delete(&sandbox).await.unwrap_err();
    let refused = daemon.client.run(&sandbox, &script("cat file")).await.err().unwrap();
    assert_eq!(refused.code(), Some(ErrorCode::NotFound), "{refused}");
    assert_eq!(objects_of(&daemon.home).await, before);
    sqlx::raw_sql("DROP TRIGGER refuse_update; DROP TRIGGER refuse_insert")
        .execute(&mut database)
        .await
        .unwrap();
    daemon.client.delete(&sandbox).await.unwrap();
    assert_eq!(objects_of(&daemon.home).await, [""; 0]);
    daemon.stop().await;
}

/// A request stays in progress in a paused container, so park and delete meet while it uses the sandbox.
#[tokio::test(flavor = "multi_thread")]
async fn a_delete_during_a_forced_park_is_never_undone() {
    let proxy = EngineProxy::start();
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let sandbox = daemon.sandbox("chat:1").await;
    proxy.silence("/events");
    docker().await.pause_container(&container_name(&sandbox)).await.unwrap();
    let client = &daemon.client;
    let (_, parked, deleted) =
        tokio::join!(client.make_dir(&sandbox, "dir"), client.park(&sandbox, true), client.delete(&sandbox));
    deleted.unwrap();
    if let Err(error) = parked {
        assert_eq!(error.code(), Some(ErrorCode::NotFound), "{error}");
    }
    assert_eq!(client.get(&sandbox).await.unwrap_err().code(), Some(ErrorCode::NotFound));
    assert_eq!(objects_of(&daemon.home).await, [""; 0]);
    let mut database = connect(&daemon.home.config().state_dir).await;
    let rows = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM sandboxes").fetch_one(&mut database);
    assert_eq!(rows.await.unwrap(), 0);
    proxy.clear_faults();
    daemon.stop().await;
}

/// An ext4 file system in a file, which the kernel makes read-only after an error. Needs root.
struct Ext4 {
    dir: TempDir,
    is_mounted: bool,
}

impl Ext4 {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        std::fs::File::create_new(&image).unwrap().set_len(32 * 1024 * 1024).unwrap();
        run("mke2fs", &["-q", "-F", "-t", "ext4"], &image);
        std::fs::create_dir(dir.path().join("mount")).unwrap();
        let mut disk = Self { dir, is_mounted: false };
        disk.mount();
        disk
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("mount")
    }

    fn mount(&mut self) {
        let image = self.dir.path().join("image");
        run("mount", &["-o", "loop,errors=remount-ro", &image.to_string_lossy()], &self.path());
        self.is_mounted = true;
    }

    /// What the kernel knows of the file system while it is mounted anywhere.
    fn in_the_kernel(&self) -> PathBuf {
        let found = Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(self.path()).output().unwrap();
        let device = String::from_utf8(found.stdout).unwrap().trim().replace("/dev/", "");
        Path::new("/sys/fs/ext4").join(device)
    }

    /// Uses the kernel's own fault injection. Everything is written back first, so that every mapped page must be
    /// requested again.
    fn fail(&self) {
        run("sync", &["--file-system"], &self.path());
        std::fs::write(self.in_the_kernel().join("trigger_fs_error"), "1").unwrap();
    }

    /// A process that starts elsewhere can hold a copy of the mount for a moment, and a mount of the same device would
    /// then find the failed file system again.
    async fn clear_faults(&mut self) {
        let in_the_kernel = self.in_the_kernel();
        run("umount", &[], &self.path());
        self.is_mounted = false;
        until("the failed file system is released", async || !in_the_kernel.exists()).await;
        let check = Command::new("e2fsck").args(["-p", "-f"]).arg(self.dir.path().join("image")).output();
        assert!(check.unwrap().status.code().is_some_and(|code| code <= 1));
        self.mount();
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        if self.is_mounted {
            run("umount", &["--lazy"], &self.path());
        }
    }
}

/// Like a broken disk: open files cannot be written either, and only an unmount ends the fault.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_dir_on_a_failed_file_system_blocks_changes_and_no_command() {
    let mut disk = Ext4::new();
    let scene = Scene::new(with_state(&disk.path())).await;
    disk.fail();
    scene.only_reading_works().await;
    let Scene { daemon, runs, busy, parked } = scene;
    let home = daemon.stop().await;
    let said = refusal(&home).await;
    assert!(said.contains("Read-only file system") && said.contains("`mount`"), "{said}");
    disk.clear_faults().await;
    let daemon = Daemon::start_in(home).await;
    let scene = Scene { daemon, runs, busy, parked };
    assert_eq!(scene.daemon.client.get(&scene.runs).await.unwrap().state, SandboxState::Running);
    scene.everything_works().await;
}
