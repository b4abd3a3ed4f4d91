//! Limits of what one command may use, and whether it has exceeded them.
//!
//! Processes, their processor time and the output are looked at ten times a second, so a command may exceed a limit for a
//! moment. The time of processes that their parent has not waited for is not counted. bash counts how often it runs each
//! command of a script, in the script's own shell: a script may turn that off.

use std::time::Duration;

use agent_protocol::v1::{self, ResourceLimit};
use rustix::process::Signal;
use tokio::time::{MissedTickBehavior, interval};

use crate::command::Command;
use crate::members;
use crate::termination::Target;

/// Time between two looks at a command.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Signal by which bash ends itself when a command of the script has run too often.
const LOOP_SIGNAL: Signal = Signal::VTALARM;

/// Limits of one command. 0 is no limit.
pub(crate) type ResourceLimits = v1::ResourceLimits;

/// A limit that was exceeded, and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub(crate) limit: ResourceLimit,
    pub(crate) value: u64,
}

/// What the processes of a command use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) processes: u32,
    pub(crate) cpu: Duration,
}

/// Waits until the command exceeds a limit of its processes or its output.
pub(crate) async fn exceeded(command: &Command) -> Exceeded {
    let limits = command.spec.resource_limits;
    if limits.cpu_ms == 0 && limits.processes == 0 && limits.output_bytes == 0 {
        return std::future::pending().await;
    }
    let mut looks = interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is at once.
    looks.tick().await;
    loop {
        looks.tick().await;
        let usage = if limits.cpu_ms > 0 || limits.processes > 0 {
            members::usage(command.owner())
        } else {
            Usage::default()
        };
        if let Some(exceeded) = compare(limits, usage, command.output_bytes()) {
            return exceeded;
        }
    }
}

fn compare(limits: ResourceLimits, usage: Usage, output_bytes: u64) -> Option<Exceeded> {
    let cpu_ms = u64::try_from(usage.cpu.as_millis()).unwrap_or(u64::MAX);
    [
        (ResourceLimit::Processes, u64::from(limits.processes), u64::from(usage.processes)),
        (ResourceLimit::CpuMs, limits.cpu_ms, cpu_ms),
        (ResourceLimit::OutputBytes, limits.output_bytes, output_bytes),
    ]
    .into_iter()
    .find(|(_, value, used)| *value > 0 && used > value)
    .map(|(limit, value, _)| Exceeded { limit, value })
}

/// The limit that bash has enforced, if its main shell ended by this signal.
pub(crate) fn exceeded_by_bash(limits: ResourceLimits, signal: Option<i32>) -> Option<Exceeded> {
    let value = u64::from(limits.loop_iterations);
    (value > 0 && signal == Some(LOOP_SIGNAL.as_raw()))
        .then_some(Exceeded { limit: ResourceLimit::LoopIterations, value })
}

/// What bash reads before a script (BASH_ENV in bash(1)) to count how often it runs each command. `number` is the
/// descriptor of this text. The script gets the user's `BASH_ENV`, the same `$_` and the same `$?`.
pub(crate) fn counting_script(max: u32, number: i32, bash_env: Option<&str>) -> String {
    let restore = match bash_env {
        Some(path) => format!("BASH_ENV={}; [[ ! -r $BASH_ENV ]] || . \"$BASH_ENV\"", quoted(path)),
        None => "unset BASH_ENV".to_owned(),
    };
    let signal = LOOP_SIGNAL.as_raw();
    let code = 128 + signal;
    format!(
        "exec {number}<&-\n{restore}\ndeclare -A __sandbox_runs\nset -o functrace\n\
         trap '__sandbox_last=$_; __sandbox_at=$LINENO:$BASH_COMMAND; \
         __sandbox_run=$((${{__sandbox_runs[$__sandbox_at]:-0}}+1)); __sandbox_runs[$__sandbox_at]=$__sandbox_run; \
         [[ $__sandbox_run -le {max} ]] || {{ kill -{signal} $$; exit {code}; }}; : \"$__sandbox_last\"' DEBUG\n"
    )
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command as Program;

    use super::*;

    fn limits() -> ResourceLimits {
        ResourceLimits { cpu_ms: 1000, processes: 8, output_bytes: 100, loop_iterations: 5 }
    }

    #[test]
    fn a_limit_is_exceeded_above_its_value() {
        let usage = |processes, cpu_ms| Usage { processes, cpu: Duration::from_millis(cpu_ms) };
        assert_eq!(compare(limits(), usage(8, 1000), 100), None);
        let of = |usage, bytes| compare(limits(), usage, bytes).map(|it| (it.limit, it.value));
        assert_eq!(of(usage(9, 0), 0), Some((ResourceLimit::Processes, 8)));
        assert_eq!(of(usage(0, 1001), 0), Some((ResourceLimit::CpuMs, 1000)));
        assert_eq!(of(usage(0, 0), 101), Some((ResourceLimit::OutputBytes, 100)));
        assert_eq!(compare(ResourceLimits::default(), usage(u32::MAX, u64::MAX), u64::MAX), None);
    }

    #[test]
    fn only_the_loop_signal_of_a_limited_command_is_a_limit() {
        let by = |limits, signal| exceeded_by_bash(limits, signal).map(|it| (it.limit, it.value));
        assert_eq!(by(limits(), Some(26)), Some((ResourceLimit::LoopIterations, 5)));
        assert_eq!(by(limits(), Some(9)), None);
        assert_eq!(by(limits(), None), None);
        assert_eq!(by(ResourceLimits::default(), Some(26)), None);
    }

    /// Exit code as a shell reports it, and standard output.
    fn run(script: &str, bash_env: Option<&str>) -> (i32, String) {
        use std::os::unix::process::ExitStatusExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("counting");
        std::fs::write(&path, counting_script(5, 9, bash_env)).unwrap();
        let done = Program::new("bash").args(["-c", script]).env("BASH_ENV", &path).output().unwrap();
        let status = done.status;
        let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap();
        (code, String::from_utf8_lossy(&done.stdout).into_owned())
    }

    #[test]
    fn bash_ends_a_script_that_runs_a_command_too_often() {
        for script in [
            "for i in {1..6}; do :; done; echo end",
            "while true; do :; done; echo end",
            "f() { :; }; for ((i = 0; i < 6; i++)); do f; done; echo end",
            "seq 6 | while read -r n; do :; done; echo end",
            "(for i in {1..6}; do :; done); echo end",
            "f() { f; }; f",
        ] {
            assert_eq!(run(script, None), (154, String::new()), "{script}");
        }
    }

    #[test]
    fn a_counted_script_runs_as_others_do() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("it's own");
        std::fs::write(&own, "OWN=1").unwrap();
        for script in [
            "for i in {1..5}; do echo $i; done",
            "echo a b; echo $_; false; echo $?; (exit 7); echo $?",
            "set -eu; f() { echo \"$1\"; return 0; }; f 'x]$(y)'; [[ a == a ]] && echo yes",
            "set -e; false; echo end",
            "echo ${OWN-none} ${BASH_ENV-none}; bash -c 'for i in {1..9}; do echo $i; done'",
            "trap 'echo bye' EXIT; echo hi; exit 3",
        ] {
            for bash_env in [None, own.to_str()] {
                let mut plain = Program::new("bash");
                plain.args(["-c", script]).env_remove("BASH_ENV");
                if let Some(path) = bash_env {
                    plain.env("BASH_ENV", path);
                }
                let plain = plain.output().unwrap();
                let expected =
                    (plain.status.code().unwrap(), String::from_utf8_lossy(&plain.stdout).into_owned());
                assert_eq!(run(script, bash_env), expected, "{script}");
            }
        }
    }
}
