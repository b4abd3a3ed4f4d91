//! Whether workspaces can have a hard limit here. A disk is made and mounted for a moment, which is the only
//! proof.
//!
//! What the trial makes carries the id of an instance that only this call has, so that doctors do not disturb
//! each other, and nobody else would ever sweep it: it is removed before the program ends, also where that is
//! interrupted.

use std::io::{self, Write};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

use super::finding::Finding;
use crate::cli::interrupts::Interrupts;
use crate::config::Config;
use crate::engine::{DiskFault, Engine, Error};
use crate::model::Instance;

const CHECK: &str = "quota";

/// How long a trial that was interrupted may go on to its end, and its remains to be removed after that.
const TIDY_UP: Duration = Duration::from_secs(20);

/// What the disks' helper calls in the image; its words begin with the one that failed.
const PROGRAMS: [&str; 3] = ["mke2fs", "debugfs", "e2fsck"];

/// What the trial found, or the exit code of the signal that ended it.
pub(super) async fn check(
    engine: &Engine,
    config: &Config,
    instance: &Instance,
    interrupts: &mut Interrupts,
) -> Result<Finding, u8> {
    if !engine.has_image(&config.image).await.unwrap_or(false) {
        return Ok(not_tried());
    }
    let mut trial = pin!(engine.try_disks(&config.image, &config.agent_program));
    tokio::select! {
        biased;
        tried = &mut trial => Ok(tried.map_or_else(failed, |()| worked())),
        code = interrupts.next() => {
            // Nobody is left to tell where standard error is gone.
            let _ = writeln!(io::stderr(), "sandboxd: removing what the trial of a disk made");
            // The engine does what it was asked whether or not we wait, so the trial is not cut off.
            if timeout(TIDY_UP, trial).await.is_err() {
                remove(engine, instance).await;
            }
            Err(code)
        }
    }
}

async fn remove(engine: &Engine, instance: &Instance) {
    if !matches!(timeout(TIDY_UP, engine.remove_trial()).await, Ok(Ok(()))) {
        let label = format!("sandboxd.instance={}", instance.id());
        let left = "sandboxd: the engine does not remove it; see its containers and volumes with the label";
        let _ = writeln!(io::stderr(), "{left} {label}");
    }
}

fn worked() -> Finding {
    Finding::ok(CHECK, "each workspace gets a file system of its own")
}

/// There is no trial without the image.
fn not_tried() -> Finding {
    if Path::new("/dev/loop-control").exists() {
        Finding::ok(CHECK, "this machine has loop devices; whether the engine can use them was not tried")
    } else {
        let fix = "build the image (`sandboxd build-image`), then ask again: with it a disk is tried";
        Finding::warning(
            CHECK,
            "not tried, and no loop devices are seen from here, which hard limits need",
            fix,
        )
    }
}

fn failed(error: Error) -> Finding {
    let fix = fix_of(&error);
    let found = match is_about_disks(&error) {
        true => "workspaces have no hard limit",
        false => "whether workspaces have a hard limit could not be tried",
    };
    Finding::warning(CHECK, format!("{found}: {:#}", anyhow::Error::new(error)), fix)
}

/// Whether it says that disks do not work, and not that something else came in between.
fn is_about_disks(error: &Error) -> bool {
    match error {
        Error::Disk { source, .. } => {
            matches!(source, DiskFault::Failed(_) | DiskFault::NoDevice(_) | DiskFault::Full(_))
        }
        error => could_not_mount(error),
    }
}

fn could_not_mount(error: &Error) -> bool {
    let (Error::Absent { call, .. } | Error::Refused { call, .. } | Error::Failed { call, .. }) = error
    else {
        return false;
    };
    *call == "mount disk"
}

fn fix_of(error: &Error) -> &'static str {
    match error {
        Error::Disk { source: DiskFault::Failed(words), .. }
            if PROGRAMS.iter().any(|program| words.starts_with(program)) =>
        {
            "build the image anew (`sandboxd build-image`): it needs mkfs.ext4, debugfs and e2fsck (e2fsprogs)"
        }
        Error::Disk { source: DiskFault::NoDevice(_), .. } => {
            "free loop devices (`losetup --list`) or load the kernel's `loop` module (`modprobe loop`) on the engine's machine"
        }
        Error::Disk { source: DiskFault::Failed(words), .. } if words.contains("device") => {
            "load the kernel's `loop` module (`modprobe loop`) on the engine's machine"
        }
        Error::Disk { source: DiskFault::Full(_), .. } => {
            "make room on the engine's disk (`sandboxd prune`, `docker system df`)"
        }
        Error::Disk { .. } => {
            "see whether the engine can run containers of the image (`docker events` while you ask again)"
        }
        error if could_not_mount(error) => {
            "let the engine mount ext4 (`modprobe ext4` on its machine; not from within a container that may not mount); its log says why it failed"
        }
        error => error
            .advice()
            .unwrap_or("see the engine's own log (`journalctl -u docker`), and ask again when it is well"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::finding::Level;

    fn disk(call: &'static str, source: DiskFault) -> Error {
        Error::Disk { call, name: "dsk_a".into(), source }
    }

    #[track_caller]
    fn told(error: Error, found: &str, fix: &str) {
        let finding = failed(error);
        assert_eq!(finding.level, Level::Warning);
        assert!(finding.found.starts_with(found), "{finding:?}");
        assert!(finding.fix.as_ref().unwrap().contains(fix), "{finding:?}");
    }

    #[test]
    fn each_cause_has_the_advice_that_fits() {
        let none = "workspaces have no hard limit: ";
        let words = |words: &str| DiskFault::Failed(words.into());
        told(disk("make disk", words("mke2fs: No such file or directory (os error 2)")), none, "build-image");
        told(disk("attach disk", words("debugfs said: bad magic (exit status: 1)")), none, "build-image");
        let no_loops = DiskFault::NoDevice("No such device or address (os error 6)".into());
        told(disk("attach disk", no_loops), none, "modprobe loop");
        told(disk("make disk", DiskFault::Full("size image: full".into())), none, "docker system df");
    }

    #[test]
    fn an_engine_that_failed_says_nothing_of_disks() {
        let unknown = "whether workspaces have a hard limit could not be tried: ";
        told(disk("start helper", DiskFault::HelperAway), unknown, "docker events");
        let after = Duration::from_secs(30);
        told(Error::Deadline { call: "mount disk", after }, unknown, "journalctl -u docker");
    }
}
