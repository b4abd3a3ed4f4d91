//! Shells that wait for commands: a command in one is the same as in a new one, and whatever happens to a waiting shell, each
//! command runs once.

mod faults;
mod scripts;

use std::collections::BTreeMap;
use std::time::Duration;

use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;

use self::scripts::scripts;
use crate::support::harness::{Daemon, Home, outcome, skipped_under_gvisor, until, until_within};

/// Whether it runs in a shell that has waited. Two commands, so that bash does not replace itself with the first.
const IN_WAITING_SHELL: &str = "grep -q waiting-shell /proc/$$/maps; echo $?";

/// Share of the commands that a waiting shell must take, in percent. One that is still starting when a command comes takes
/// none.
const MIN_TAKEN_PERCENT: usize = 80;

/// The three ways in which chat apps run a script.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// `bash -c`.
    Plain,
    /// `bash -lc`, the only form of RemcoChat.
    Login,
    /// As bash-tools does, with variables, a directory and input.
    Tools,
}

impl Form {
    fn command(self, script: &str, id: &str) -> StartCommand {
        let args = |option: &str| Some(vec![option.into(), script.into()]);
        let mut command = StartCommand { command_id: Some(id.parse().unwrap()), ..StartCommand::default() };
        match self {
            Self::Plain => command.args = args("-c"),
            Self::Login => command.args = args("-lc"),
            Self::Tools => {
                let env = [("GREETING", "hello world"), ("EMPTY", ""), ("LINES_OF", "a\nb")];
                command.script = Some(script.into());
                command.env = Some(env.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
                command.cwd = Some("project".into());
                command.stdin = Some("first\nsecond line\nthird".into());
                command.save_output = Some(true);
            }
        }
        command
    }
}

/// A sandbox, and the texts in its output that no other sandbox has.
struct Side {
    daemon: Daemon,
    sandbox: SandboxId,
    own: BTreeMap<String, &'static str>,
}

impl Side {
    async fn start(has_waiting_shells: bool) -> Self {
        let home = Home::new().set("SANDBOXD_WAITING_SHELLS", if has_waiting_shells { "1" } else { "0" });
        let daemon = Daemon::start_in(home).await;
        let sandbox = daemon.sandbox("chat:1").await;
        daemon.output(&sandbox, "mkdir -p project").await;
        let uid = daemon.output(&sandbox, "id -u").await;
        let own = [(uid.trim().to_owned(), "UID")].into();
        Self { daemon, sandbox, own }
    }

    /// Exit code, reason, signal, standard output and standard error.
    async fn run(&self, command: &StartCommand) -> String {
        let ran = outcome(self.daemon.client.run(&self.sandbox, command).await.unwrap()).await;
        let [stdout, stderr] =
            [&ran.stdout, &ran.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let mut text = format!(
            "{} {:?} {:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}",
            ran.exit_code, ran.reason, ran.signal
        );
        for (found, name) in &self.own {
            text = text.replace(found, name);
        }
        text
    }
}

/// Whether the next command is handed to a waiting shell.
async fn is_handed_over(daemon: &Daemon, sandbox: &SandboxId) -> bool {
    daemon.output(sandbox, IN_WAITING_SHELL).await == "0\n"
}

/// Returns when commands are handed to waiting shells.
async fn until_handed_over(daemon: &Daemon, sandbox: &SandboxId) {
    until("a command is handed over", || is_handed_over(daemon, sandbox)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_in_a_waiting_shell_is_the_same_as_in_a_new_one() {
    if skipped_under_gvisor("no shell waits, because it lacks PR_SET_MM_MAP") {
        return;
    }
    let (waiting, new) = tokio::join!(Side::start(true), Side::start(false));
    until_handed_over(&waiting.daemon, &waiting.sandbox).await;
    let scripts = scripts();
    assert!(scripts.len() >= 500, "{} scripts", scripts.len());
    let (mut taken, mut different) = (0, Vec::new());
    for (number, text) in scripts.iter().enumerate() {
        for form in [Form::Plain, Form::Login, Form::Tools] {
            let command = form.command(text, &format!("cmd_{number:0>16}{form:?}"));
            let (in_waiting, in_new) = tokio::join!(waiting.run(&command), new.run(&command));
            if in_waiting != in_new {
                different.push(format!("=== {form:?}: {text}\n{in_waiting}\n--- in a new shell\n{in_new}"));
            }
        }
        taken += usize::from(is_handed_over(&waiting.daemon, &waiting.sandbox).await);
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
    assert!(taken * 100 >= scripts.len() * MIN_TAKEN_PERCENT, "{taken} of {} taken", scripts.len());
    assert!(!is_handed_over(&new.daemon, &new.sandbox).await);
    tokio::join!(waiting.daemon.stop(), new.daemon.stop());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_shell_ends_when_no_command_comes() {
    if skipped_under_gvisor("no shell waits, because it lacks PR_SET_MM_MAP") {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    until_handed_over(&daemon, &sandbox).await;
    // The count does not go through a command, which would be a reason to keep a shell.
    let processes = || async { daemon.client.get(&sandbox).await.unwrap().usage.unwrap().pids };
    let with_shell = processes().await;
    until_within(Duration::from_secs(100), "the shells have ended", || async {
        processes().await + 2 <= with_shell
    })
    .await;
    assert!(!is_handed_over(&daemon, &sandbox).await);
    until_handed_over(&daemon, &sandbox).await;
    daemon.stop().await;
}
