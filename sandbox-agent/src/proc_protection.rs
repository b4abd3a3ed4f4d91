//! Forbids commands to write files below /proc.
//!
//! A process may lower its out-of-memory score (/proc/<pid>/oom_score_adj) to the value that root last set. Commands
//! inherit that bound from the agent, so it is the agent's own score. Raising it takes a privilege that no process in
//! a sandbox has. The OOM killer would spare a command that has the agent's score and less memory than the agent. The
//! agent therefore enters a Landlock domain (landlock(7)) before it starts any process. Every process of the sandbox
//! inherits the domain: it cannot open files below /proc for writing. Nothing else is restricted. The agent changes
//! its own score through a file that it opened before, and the scores of commands on a thread outside the domain.
//! Without Landlock (Linux before 5.19, gVisor) commands can still set the agent's score.

use std::error::Error as StdError;
use std::fs;
use std::os::fd::AsFd;

use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError,
};
use rustix::fs::{Mode, OFlags, open};

/// The only directory in the root below which writing is forbidden.
const PROC: &str = "proc";

/// Enters the domain for this thread and for everything that it starts. Returns whether the kernel supports the
/// domain.
pub(crate) fn enter() -> Result<bool, Box<dyn StdError>> {
    // A domain that does not handle the right to move files between directories would forbid it.
    let handled: BitFlags<AccessFs> = AccessFs::WriteFile | AccessFs::Refer;
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(handled);
    let mut ruleset = match ruleset.and_then(|ruleset| ruleset.create()) {
        Ok(ruleset) => ruleset,
        Err(RulesetError::HandleAccesses(_) | RulesetError::CreateRuleset(_)) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    for entry in fs::read_dir("/")? {
        let entry = entry?;
        if entry.file_name() == PROC || !entry.file_type()?.is_dir() {
            continue;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = open(entry.path(), flags, Mode::empty())?;
        ruleset = ruleset.add_rule(PathBeneath::new(dir.as_fd(), handled))?;
    }
    ruleset.restrict_self()?;
    Ok(true)
}
