//! The daemon starts while its engine is absent, hangs or lacks the image: it responds, reports why, and recovers.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use bollard::query_parameters::{RemoveImageOptions, TagImageOptions};
use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::ErrorCode;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::{Client, Error};
use sandboxd::model::layout::container_name;
use sandboxd::model::limits;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

use crate::support::engine_proxy::{EngineProxy, Fault};
use crate::support::engine_view::objects_of;
use crate::support::harness::{Daemon, Home, SOON, TOKEN, docker, free_port, until};

/// Time that a response may take beyond the engine's own deadline on a busy machine.
const A_LITTLE: Duration = Duration::from_secs(5);

/// A daemon that may not be ready.
struct Starting {
    client: Client,
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
}

impl Starting {
    async fn of(home: &Home) -> Self {
        Self::from(home.program(&["serve"])).await
    }

    /// Returns when it listens.
    async fn from(mut program: Command) -> Self {
        let port = free_port();
        program.env("SANDBOXD_PORT", port.to_string()).stderr(std::process::Stdio::piped());
        let mut child = program.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        until("it listens", || async { tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() })
            .await;
        let client = Client::new(format!("http://127.0.0.1:{port}"), TOKEN).unwrap();
        Self { client, child, log }
    }

    /// Waits for a line of the log that contains all of these.
    async fn says(&mut self, facts: &[&str]) {
        let mut others = Vec::new();
        let said = async {
            while let Some(line) = self.log.next_line().await.unwrap() {
                if facts.iter().all(|fact| line.contains(fact)) {
                    return true;
                }
                others.push(line);
            }
            false
        };
        let said = timeout(SOON, said).await.unwrap_or(false);
        assert!(said, "no line with {facts:?}: {others:#?}");
    }

    /// Checks that requests are rejected in time, and that the error names what is missing.
    async fn waits_for(&self, missing: &str) {
        // During a retry, other steps are missing for a moment.
        until(&format!("{missing} is missing"), || async {
            let began = Instant::now();
            let error = self.client.ready().await.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error:?}");
            assert!(began.elapsed() < limits::ENGINE_PING + A_LITTLE, "{:?}", began.elapsed());
            error.to_string().contains(missing)
        })
        .await;
        let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
        let error = self.client.create_or_reconnect(&request).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error:?}");
    }

    async fn has_no_engine(&self) {
        let began = Instant::now();
        let error = self.client.health().await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error:?}");
        assert!(began.elapsed() < limits::ENGINE_PING + A_LITTLE, "{:?}", began.elapsed());
        self.waits_for("engine").await;
    }

    async fn recovers(&self) {
        let bound = *limits::START_RETRY.end() + SOON;
        let ready = async {
            while self.client.ready().await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(bound, ready).await.expect("it is not ready");
        let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
        let sandbox = self.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
        self.client.delete(&sandbox).await.unwrap();
    }

    /// Checks that a stop works whatever the daemon waits for.
    async fn stops(mut self) {
        kill_process(Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap(), Signal::TERM).unwrap();
        let ended =
            timeout(limits::DRAIN * 2, self.child.wait()).await.expect("the daemon does not end").unwrap();
        assert_eq!(ended.code(), Some(0));
    }
}

fn with_socket(path: &Path) -> Home {
    Home::new().set("SANDBOXD_DOCKER_SOCKET", &path.to_string_lossy())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_waits_for_an_absent_engine() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("engine.sock");
    let home = with_socket(&socket);
    let mut daemon = Starting::of(&home).await;
    let path = socket.to_string_lossy();
    daemon.says(&[&path, "Docker engine", "systemctl start docker", "SANDBOXD_DOCKER_SOCKET"]).await;
    daemon.has_no_engine().await;
    // A stale socket of an earlier engine.
    drop(UnixListener::bind(&socket).unwrap());
    daemon.says(&[&path, "no Docker engine answers", "systemctl start docker"]).await;
    daemon.has_no_engine().await;
    std::fs::remove_file(&socket).unwrap();
    symlink("/var/run/docker.sock", &socket).unwrap();
    daemon.recovers().await;
    daemon.stops().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_waits_for_an_engine_that_hangs() {
    let proxy = EngineProxy::start();
    proxy.freeze();
    let home = with_socket(&proxy.socket());
    let mut daemon = Starting::of(&home).await;
    daemon.says(&[&proxy.socket().to_string_lossy(), "does not answer", "systemctl start docker"]).await;
    daemon.has_no_engine().await;
    proxy.clear_faults();
    daemon.recovers().await;
    proxy.freeze();
    daemon.stops().await;
    proxy.clear_faults();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_fails_during_the_start_is_retried() {
    let proxy = EngineProxy::start();
    let home = with_socket(&proxy.socket());
    for (step, fault, missing) in [
        ("/info", Fault::Garbage, "engine"),
        ("/images/", Fault::Fail, "image"),
        ("/volumes/", Fault::Fail, "engine"),
        ("/volumes/", Fault::Garbage, "is not ready"),
        ("/containers/create", Fault::Cut, "is not ready"),
        ("/containers/json", Fault::Garbage, "is not ready"),
    ] {
        proxy.set(step, fault);
        let mut daemon = Starting::of(&home).await;
        daemon.says(&["the start is incomplete"]).await;
        daemon.waits_for(missing).await;
        proxy.clear_faults();
        daemon.recovers().await;
        daemon.stops().await;
    }
    until("nothing is left", || async { objects_of(&home).await.is_empty() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_of_another_program_is_not_taken_for_an_engine() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("other.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let other = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"220 mail.example ESMTP\r\n").await;
        }
    });
    let home = with_socket(&socket);
    let mut daemon = Starting::of(&home).await;
    daemon.says(&[&socket.to_string_lossy(), "no Docker engine answers"]).await;
    daemon.has_no_engine().await;
    daemon.stops().await;
    other.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_waits_for_a_missing_image() {
    let image = "sandboxd-test-degraded:later";
    let home = Home::new().set("SANDBOXD_IMAGE", image).set("SANDBOXD_DISABLE_AUTOBUILD", "1");
    let mut daemon = Starting::of(&home).await;
    daemon.says(&[image, "missing", "sandboxd build-image"]).await;
    daemon.client.health().await.unwrap();
    daemon.waits_for("image").await;
    assert_eq!(objects_of(&home).await, Vec::<String>::new());

    let engine = docker().await;
    let tag = TagImageOptions { repo: Some("sandboxd-test-degraded".into()), tag: Some("later".into()) };
    engine.tag_image("remcochat-sandbox:node24", Some(tag)).await.unwrap();
    daemon.recovers().await;
    daemon.stops().await;
    let _ = engine.remove_image(image, None::<RemoveImageOptions>, None).await;
}

/// Runs the program as a user without permissions. Root passes every permission check. So as root the program runs as
/// `nobody`, from a copy, because other users may lack access to the build directory.
fn without_permissions(home: &Home, command: Command) -> Command {
    if !rustix::process::geteuid().is_root() {
        return command;
    }
    let nobody = 65534;
    let dir = home.path().join("nobody");
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o711)).unwrap();
    let program = dir.join("sandboxd");
    std::fs::copy(env!("CARGO_BIN_EXE_sandboxd"), &program).unwrap();
    chown(&dir, Some(nobody), Some(nobody)).unwrap();
    let mut copy = Command::new(program);
    let std = command.as_std();
    let settings: Vec<_> = std.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
    copy.args(std.get_args()).env_clear().envs(settings).kill_on_drop(true);
    copy.env("SANDBOXD_STATE_DIR", dir.join("state")).env("SANDBOXD_RUN_DIR", dir.join("run"));
    copy.uid(nobody).gid(nobody);
    copy
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_the_log_says_how_to_get_it() {
    let home = Home::new();
    let path = home.path().join("closed.sock");
    let _closed = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    let path = path.to_string_lossy().into_owned();
    let home = home.set("SANDBOXD_DOCKER_SOCKET", &path);
    let mut daemon = Starting::from(without_permissions(&home, home.program(&["serve"]))).await;
    daemon.says(&[&path, "no permission", "usermod -aG docker"]).await;
    daemon.has_no_engine().await;
    daemon.stops().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_hangs_does_not_delay_the_start_of_others() {
    let proxy = EngineProxy::start();
    let daemon = Daemon::start_in(with_socket(&proxy.socket())).await;
    let (stuck, other) = (daemon.sandbox("chat:stuck").await, daemon.sandbox("chat:other").await);
    daemon.output(&stuck, "echo kept > file").await;
    let home = daemon.stop().await;
    let began = Instant::now();
    let daemon = Daemon::start_in(home).await;
    let alone = began.elapsed();
    let home = daemon.stop().await;

    proxy.set(&container_name(&stuck), Fault::Hang);
    let began = Instant::now();
    let daemon = Daemon::start_in(home).await;
    let with_one_that_hangs = began.elapsed();
    assert!(
        with_one_that_hangs < alone * 2 + limits::RESTORE_WAIT + A_LITTLE,
        "{with_one_that_hangs:?} and not {alone:?}"
    );
    assert_eq!(daemon.output(&other, "echo on").await, "on\n");
    let began = Instant::now();
    let error: Error = daemon.client.touch(&stuck, None).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error:?}");
    assert!(error.to_string().contains("not restored yet"), "{error}");
    assert!(began.elapsed() < A_LITTLE, "{:?}", began.elapsed());

    proxy.clear_faults();
    until("it is restored", || async { daemon.client.touch(&stuck, None).await.is_ok() }).await;
    assert_eq!(daemon.output(&stuck, "cat file").await, "kept\n");
    for sandbox in [stuck, other] {
        daemon.client.delete(&sandbox).await.unwrap();
    }
    daemon.stop().await;
}
