//! Limits of what one command may use, and whether it has exceeded them.
//!
//! Processes, their processor time and the output are looked at ten times a second, so a command may exceed a limit for a
//! moment. The time of processes that their parent has not waited for is not counted. bash counts how often it runs each
//! command of a script, in the script's own shell: a script may turn that off.

use std::time::Duration;

use agent_protocol::v1::{ResourceLimit, ResourceLimits};
use tokio::time::{MissedTickBehavior, interval};

use crate::command::Command;
use crate::loop_count::LOOP_SIGNAL;
use crate::members::{self, Usage};
use crate::termination::Target;

/// Time between two looks at a command.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A limit that was exceeded, and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub(crate) limit: ResourceLimit,
    pub(crate) value: u64,
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

/// The limit of processes, if a command whose main process has ended exceeds it. A fork bomb can fill the sandbox between two
/// looks, and then its own shell cannot continue.
pub(crate) fn exceeded_by_rest(command: &Command) -> Option<Exceeded> {
    let processes = command.spec.resource_limits.processes;
    if processes == 0 {
        return None;
    }
    let rest = Usage { processes: members::usage(command.owner()).processes, ..Usage::default() };
    compare(ResourceLimits { processes, ..ResourceLimits::default() }, rest, 0)
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

/// The limit of the output, if a command that has ended by itself exceeds it. A command can write a lot between two looks.
pub(crate) fn exceeded_by_output(command: &Command) -> Option<Exceeded> {
    let output_bytes = command.spec.resource_limits.output_bytes;
    let limits = ResourceLimits { output_bytes, ..ResourceLimits::default() };
    compare(limits, Usage::default(), command.output_bytes())
}

/// The limit that bash has enforced, if its main shell ended by this signal.
pub(crate) fn exceeded_by_bash(limits: ResourceLimits, signal: Option<i32>) -> Option<Exceeded> {
    let value = u64::from(limits.loop_iterations);
    (value > 0 && signal == Some(LOOP_SIGNAL.as_raw()))
        .then_some(Exceeded { limit: ResourceLimit::LoopIterations, value })
}

#[cfg(test)]
mod tests {
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
}
