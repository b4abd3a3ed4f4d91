//! Keeps commands from writing below /proc.
//!
//! A process may lower its out-of-memory score (/proc/<pid>/oom_score_adj) to what root last set, which is the agent's
//! own score: commands inherit that bound from the agent, and raising it takes a right that nothing in a sandbox has.
//! A command with the agent's score and less memory than the agent would outlive it. So the agent enters a Landlock
//! domain (landlock(7)) before it starts anything, which every process of the sandbox inherits: files below /proc
//! cannot be opened for writing. Everything else is as it was. The agent changes its own score through a file that
//! it opened before, and those of commands on a thread outside of the domain. Without Landlock (Linux before 5.19,
//! gVisor) commands keep the way to the agent's score.

use std::error::Error as StdError;
use std::fs;
use std::os::fd::AsFd;

use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError,
};
use rustix::fs::{Mode, OFlags, open};

/// The one directory of the root that nobody writes below.
const PROC: &str = "proc";

/// Enters the domain, for this thread and what it starts. Whether the kernel has such domains.
pub(crate) fn enter() -> Result<bool, Box<dyn StdError>> {
    // A domain without the right to move files between directories would forbid it, so that right is handled too.
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
