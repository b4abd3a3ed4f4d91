//! An attacker and a bystander, and measurements for the stories about limits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sandbox_api::SandboxId;
use sandbox_api::command::EndReason;
use sandbox_api::sandbox::{CreateSandbox, Resources, Sandbox};

use crate::support::harness::{Daemon, Home, Outcome, outcome, script};

pub(crate) const MIB: u64 = 1024 * 1024;

/// Error numbers of errno(3) on Linux.
pub(crate) mod errno {
    pub(crate) const EAGAIN: i32 = 11;
    pub(crate) const ENOMEM: i32 = 12;
    pub(crate) const EMFILE: i32 = 24;
    pub(crate) const EFBIG: i32 = 27;
    pub(crate) const ENOSPC: i32 = 28;
}

/// Minimum number of commands measured before and during an attack.
const SAMPLES: usize = 30;

/// A neighbour's command that takes longer than this has stalled.
const STALL: Duration = Duration::from_secs(2);

/// A daemon with a sandbox that attacks and one that does not.
pub(crate) struct Scene {
    pub(crate) daemon: Daemon,
    pub(crate) attacker: SandboxId,
    pub(crate) bystander: SandboxId,
}

impl Scene {
    pub(crate) async fn with(resources: Resources) -> Self {
        Self::on(Daemon::start_in(Home::new()).await, resources).await
    }

    pub(crate) async fn on(daemon: Daemon, resources: Resources) -> Self {
        let attacker = sandbox_with(&daemon, "chat:attacker", resources).await;
        let bystander = daemon.sandbox("chat:bystander").await;
        Self { daemon, attacker, bystander }
    }

    /// Runs the attack to its end, while the bystander runs one command after the other.
    #[expect(clippy::print_stdout, reason = "its numbers are its output")]
    pub(crate) async fn attack<T>(&self, name: &str, attack: impl Future<Output = T>) -> T {
        let over = AtomicBool::new(true);
        let idle = self.samples(&over).await;
        over.store(false, Ordering::Relaxed);
        let attack = async {
            let result = attack.await;
            over.store(true, Ordering::Relaxed);
            result
        };
        let (result, during) = tokio::join!(attack, self.samples(&over));
        let (idle, worst) = (p95(idle), p95(during.clone()));
        println!(
            "limits | {name:<32} | bystander p95 {worst:>9.1?} of {:>4} | idle p95 {idle:>9.1?}",
            during.len()
        );
        assert!(worst < STALL, "{name}: the bystander took {worst:?}");
        result
    }

    /// Times of the bystander's commands, until the attack is over and there are enough of them.
    async fn samples(&self, over: &AtomicBool) -> Vec<Duration> {
        let mut samples = Vec::new();
        while samples.len() < SAMPLES || !over.load(Ordering::Relaxed) {
            let began = Instant::now();
            self.daemon.output(&self.bystander, "true").await;
            samples.push(began.elapsed());
        }
        samples
    }

    /// Runs a script in the attacker's sandbox.
    pub(crate) async fn run(&self, script: &str) -> Outcome {
        self.daemon.run(&self.attacker, script).await
    }

    /// Runs a Python program in the attacker's sandbox and returns its output.
    pub(crate) async fn python(&self, program: &str) -> String {
        let outcome = self.run(&python(program)).await;
        let said = String::from_utf8_lossy(&outcome.stderr);
        assert_eq!((outcome.exit_code, outcome.reason), (0, EndReason::Exited), "{said}");
        outcome.text()
    }

    pub(crate) async fn attacker_now(&self) -> Sandbox {
        self.daemon.client.get(&self.attacker).await.unwrap()
    }

    /// Checks that both sandboxes are usable, and stops.
    pub(crate) async fn end(self) {
        for sandbox in [&self.attacker, &self.bystander] {
            assert_eq!(self.daemon.output(sandbox, "echo ok").await, "ok\n");
        }
        self.daemon.stop().await;
    }
}

pub(crate) async fn sandbox_with(daemon: &Daemon, key: &str, resources: Resources) -> SandboxId {
    let request =
        CreateSandbox { session_key: key.into(), resources: Some(resources), ..CreateSandbox::default() };
    daemon.create(&request).await
}

/// A script that runs a Python program.
pub(crate) fn python(program: &str) -> String {
    format!("python3 - <<'END'\n{program}\nEND")
}

/// The value of `name` in lines of names and values.
#[track_caller]
pub(crate) fn value_of<T: std::str::FromStr>(text: &str, name: &str) -> T {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.and_then(|value| value.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {text:?}"))
}

fn p95(mut samples: Vec<Duration>) -> Duration {
    samples.sort();
    samples[(samples.len() * 95).div_ceil(100) - 1]
}

/// Runs a script with a time limit.
pub(crate) async fn run_for(daemon: &Daemon, sandbox: &SandboxId, text: &str, limit: Duration) -> Outcome {
    let request =
        sandbox_api::command::StartCommand { timeout_ms: Some(limit.as_millis() as u64), ..script(text) };
    outcome(daemon.client.run(sandbox, &request).await.unwrap()).await
}

pub(crate) fn small() -> Resources {
    Resources { memory_mb: Some(MEMORY_MB), ..Resources::default() }
}

pub(crate) const HOG: &str = "python3 -c 'bytearray(10**9)'";

pub(crate) const MEMORY_MB: u64 = 256;
