//! One installation: its daemon's process, its kills, and its findings.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_client::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use crate::{fetches, inventory};
use test_daemon::{Home, TOKEN, free_port};

/// Time limit for readiness, after any kill.
const READY: Duration = Duration::from_secs(10);

/// Time limit until a request's effect is visible on the host.
pub(crate) const SETTLED: Duration = Duration::from_secs(30);

/// Time limit of a stop.
const STOPPED: Duration = Duration::from_secs(40);

pub(crate) const RUNNING_AT_ONCE: &str = "4";

/// Space for snapshots in MiB, so little that a start has to make room: see [`crate::snapshots`].
const SNAPSHOTS_MB: &str = "3";

pub(crate) const POLL: Duration = Duration::from_millis(20);

pub(crate) struct World {
    number: usize,
    pub(crate) home: Home,
    pub(crate) client: Client,
    port: u16,
    child: Option<Child>,
    /// How many sandboxes the next daemon starts before sessions want them.
    pub(crate) pool: usize,
    pub(crate) kills: usize,
    pub(crate) at_seams: usize,
    pub(crate) restarts: Vec<Duration>,
    pub(crate) found: Vec<String>,
}

impl World {
    pub(crate) fn new(number: usize) -> Self {
        let home = Home::new()
            .with_first_start()
            .set("SANDBOXD_MAX_CONCURRENT", RUNNING_AT_ONCE)
            .set("SANDBOXD_SNAPSHOTS_MB", SNAPSHOTS_MB)
            .set("SANDBOXD_LOG", "info");
        let home = fetches::allow(home);
        let port = free_port();
        let client = Client::new(format!("http://127.0.0.1:{port}"), TOKEN).unwrap();
        let _ = fs::remove_file(log_path(number));
        Self {
            number,
            home,
            client,
            port,
            child: None,
            pool: 0,
            kills: 0,
            at_seams: 0,
            restarts: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Records a violation.
    pub(crate) fn found(&mut self, what: impl std::fmt::Display) {
        let line = format!("daemon {}, after {} kills: {what}", self.number, self.kills);
        println!("FOUND {line}");
        self.log(&line);
        self.found.push(line);
    }

    /// Writes a line to the daemon's log.
    pub(crate) fn log(&self, line: &str) {
        use std::io::Write;
        let _ = writeln!(self.log_file(), "=== {line}");
    }

    fn log_file(&self) -> File {
        let path = log_path(self.number);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        OpenOptions::new().create(true).append(true).open(path).unwrap()
    }

    fn seam_file(&self) -> PathBuf {
        self.home.path().join("seam")
    }

    /// Makes the daemon end at this seam.
    pub(crate) fn arm(&self, seam: &str) {
        self.log(&format!("armed: {seam}"));
        let file = self.seam_file();
        fs::write(file.with_extension("new"), seam).unwrap();
        fs::rename(file.with_extension("new"), file).unwrap();
    }

    pub(crate) fn disarm(&self) {
        let _ = fs::remove_file(self.seam_file());
    }

    /// Starts the daemon without waiting for it.
    pub(crate) fn spawn(&mut self) {
        let mut command = self.home.program(&["serve"]);
        command.env("SANDBOXD_PREVIEW_BIND", "127.0.0.1:0");
        command.env("SANDBOXD_POOL_SIZE", self.pool.to_string());
        command.env("SANDBOXD_PORT", self.port.to_string()).env("SANDBOXD_SEAM_FILE", self.seam_file());
        command.stdout(self.log_file()).stderr(self.log_file());
        self.child = Some(command.spawn().unwrap());
    }

    /// Starts the daemon, which must become ready in time.
    pub(crate) async fn start(&mut self) {
        let began = Instant::now();
        self.spawn();
        while self.client.ready().await.is_err() {
            if let Some(status) = self.ended() {
                self.found(format!("the daemon ended while it started: {status}"));
                self.spawn();
            }
            if began.elapsed() > READY * 4 {
                panic!("the daemon does not become ready");
            }
            sleep(POLL).await;
        }
        let took = began.elapsed();
        if took > READY {
            self.found(format!("the daemon was ready after {took:?} only"));
        }
        if self.kills > 0 {
            self.restarts.push(took);
        }
    }

    /// Waits until a sandbox waits for a session, according to the metrics.
    pub(crate) async fn until_one_waits(&mut self) {
        let began = Instant::now();
        while !self.metrics().await.is_ok_and(|text| text.contains("\nsandboxd_pool 1\n")) {
            if began.elapsed() > SETTLED {
                return self.found("no sandbox waits for a session");
            }
            sleep(POLL).await;
        }
    }

    async fn metrics(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let head =
            format!("GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\nx-remcochat-admin-token: {TOKEN}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().unwrap()
    }

    /// `kill -9`
    pub(crate) async fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().await.unwrap();
        self.kills += 1;
        self.log(&format!("kill {}", self.kills));
    }

    /// Waits until the daemon ends at its seam. Returns whether it did.
    pub(crate) async fn dies_within(&mut self, limit: Duration) -> bool {
        let died = timeout(limit, self.child.as_mut().unwrap().wait()).await.is_ok();
        if died {
            self.child = None;
            self.kills += 1;
            self.at_seams += 1;
            self.log(&format!("kill {} (at the seam)", self.kills));
        }
        self.disarm();
        died
    }

    /// Compares the API's list with the host. No request may be in progress.
    pub(crate) async fn check(&mut self, when: &str) {
        let deadline = Instant::now() + SETTLED;
        loop {
            let difference = inventory::difference(&self.home, &self.client).await;
            let Err(difference) = difference else { return };
            if Instant::now() > deadline {
                self.found(format!("{when}: {difference}"));
                return;
            }
            sleep(POLL * 5).await;
        }
    }

    /// Stops the daemon. Only the disks' volume may be left.
    pub(crate) async fn end(&mut self) {
        let mut child = self.child.take().unwrap();
        kill_process(Pid::from_raw(child.id().unwrap().cast_signed()).unwrap(), Signal::TERM).unwrap();
        match timeout(STOPPED, child.wait()).await {
            Ok(status) if status.as_ref().is_ok_and(ExitStatus::success) => {}
            other => self.found(format!("the daemon did not stop as it should: {other:?}")),
        }
        if let Err(left) = inventory::nothing_but_disks(&self.home).await {
            self.found(format!("after the end: {left}"));
        }
    }
}

fn log_path(number: usize) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_BIN_EXE_sandboxd")).ancestors().nth(2).unwrap().to_owned();
    target.join(format!("torture/daemon-{number}.log"))
}
