//! Limits of what one command may use, and the profiles that a request chooses from.

use std::time::Duration;

use sandbox_api::command::LimitExceeded;

use crate::limits;

/// Limits of one command. An absent one does not apply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Processor time of all its processes.
    pub cpu: Option<Duration>,
    /// Processes at the same time.
    pub processes: Option<u32>,
    /// Bytes written to both outputs.
    pub output_bytes: Option<u64>,
    /// How often bash runs any one command of a script.
    pub loop_iterations: Option<u32>,
}

impl ResourceLimits {
    /// Whether there is no limit.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A set of limits with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitProfile {
    /// For untrusted snippets that should end at once.
    Strict,
    /// For ordinary commands.
    Normal,
    /// For builds and servers: the longest time limit, and nothing else.
    Permissive,
}

impl LimitProfile {
    /// All profiles.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Normal, Self::Permissive];

    /// Name in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Normal => "normal",
            Self::Permissive => "permissive",
        }
    }

    /// Returns the profile with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Time limit of a command: as requested, within the profile. `max` is the daemon's maximum.
    pub fn timeout(self, requested: Option<Duration>, max: Duration) -> Duration {
        let (default, longest) = match self {
            Self::Strict => (limits::STRICT_TIMEOUT, limits::STRICT_TIMEOUT),
            Self::Normal => (limits::DEFAULT_COMMAND_TIMEOUT, limits::NORMAL_TIMEOUT),
            Self::Permissive => (max, max),
        };
        requested.unwrap_or(default).min(longest)
    }

    /// The other limits. Loops are counted only in scripts that bash does not trace.
    pub fn resources(self, counts_loops: bool) -> ResourceLimits {
        let all = match self {
            Self::Strict => ResourceLimits {
                cpu: Some(limits::STRICT_CPU),
                processes: Some(limits::STRICT_PROCESSES),
                output_bytes: Some(limits::STRICT_OUTPUT_BYTES),
                loop_iterations: Some(limits::STRICT_LOOP_ITERATIONS),
            },
            Self::Normal => ResourceLimits {
                cpu: Some(limits::NORMAL_CPU),
                processes: Some(limits::NORMAL_PROCESSES),
                output_bytes: Some(limits::NORMAL_OUTPUT_BYTES),
                loop_iterations: Some(limits::NORMAL_LOOP_ITERATIONS),
            },
            Self::Permissive => ResourceLimits::default(),
        };
        ResourceLimits { loop_iterations: all.loop_iterations.filter(|_| counts_loops), ..all }
    }
}

/// A limit that a command has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// The limit.
    pub limit: ResourceLimit,
    /// Its value.
    pub value: u64,
}

impl From<Exceeded> for LimitExceeded {
    fn from(Exceeded { limit, value }: Exceeded) -> Self {
        Self { limit: limit.as_str().to_owned(), value }
    }
}

/// A limit of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceLimit {
    /// See [`ResourceLimits::cpu`], in milliseconds.
    Cpu,
    /// See [`ResourceLimits::processes`].
    Processes,
    /// See [`ResourceLimits::output_bytes`].
    Output,
    /// See [`ResourceLimits::loop_iterations`].
    LoopIterations,
}

impl ResourceLimit {
    /// All limits.
    pub const ALL: [Self; 4] = [Self::Cpu, Self::Processes, Self::Output, Self::LoopIterations];

    /// The name in an API response and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpuMs",
            Self::Processes => "processes",
            Self::Output => "outputBytes",
            Self::LoopIterations => "loopIterations",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_bounds_the_time_limit() {
        let max = Duration::from_secs(3600);
        let of = |profile: LimitProfile, seconds: Option<u64>| {
            profile.timeout(seconds.map(Duration::from_secs), max).as_secs()
        };
        assert_eq!((of(LimitProfile::Strict, None), of(LimitProfile::Strict, Some(99))), (10, 10));
        assert_eq!(of(LimitProfile::Strict, Some(3)), 3);
        assert_eq!((of(LimitProfile::Normal, None), of(LimitProfile::Normal, Some(999))), (30, 120));
        assert_eq!((of(LimitProfile::Permissive, None), of(LimitProfile::Permissive, Some(9))), (3600, 9));
    }

    #[test]
    fn a_permissive_command_and_one_that_is_not_a_script_have_fewer_limits() {
        assert!(LimitProfile::Permissive.resources(true).is_empty());
        let strict = LimitProfile::Strict.resources(false);
        assert!(strict.loop_iterations.is_none() && strict.processes.is_some());
        for profile in LimitProfile::ALL {
            assert_eq!(LimitProfile::of_name(profile.name()), Some(profile));
        }
        assert_eq!(LimitProfile::of_name("Strict"), None);
    }
}
