//! Checks whether workspaces can have a hard size limit here. The only proof is to create and mount a disk.
//!
//! The test labels its objects with the id of an instance that exists only for this run, so that concurrent doctors do
//! not interfere. No daemon ever removes such objects. So they are removed before the program ends, also when it is
//! interrupted.

use std::io::{self, Write};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

use super::finding::Finding;
use crate::interrupts::Interrupts;
use sandboxd_config::Config;
use sandboxd_engine::{DiskFault, Engine, Error};
use sandboxd_model::Instance;

const CHECK: &str = "quota";

/// Maximum time for an interrupted test to finish, and then for the removal of its objects.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(20);

/// Programs that the disk helper runs in the image. Its error messages begin with the program that failed.
const HELPER_PROGRAMS: [&str; 3] = ["mke2fs", "debugfs", "e2fsck"];

/// Returns the finding, or the exit code of the signal that interrupted the test.
pub(super) async fn check(
    engine: &Engine,
    config: &Config,
    instance: &Instance,
    interrupts: &mut Interrupts,
) -> Result<Finding, u8> {
    if !engine.has_image(&config.image).await.unwrap_or(false) {
        return Ok(not_tested());
    }
    let mut test = pin!(engine.try_disks(&config.image, &config.agent_program));
    tokio::select! {
        biased;
        tested = &mut test => Ok(tested.map_or_else(failed, |()| succeeded())),
        code = interrupts.next() => {
            // If standard error is closed, this cannot be reported.
            let _ = writeln!(io::stderr(), "sandboxd: removing the test disk");
            // The engine finishes its requests whether or not we wait, so the test is not aborted.
            if timeout(CLEANUP_TIMEOUT, test).await.is_err() {
                remove(engine, instance).await;
            }
            Err(code)
        }
    }
}

async fn remove(engine: &Engine, instance: &Instance) {
    if !matches!(timeout(CLEANUP_TIMEOUT, engine.remove_trial()).await, Ok(Ok(()))) {
        let label = format!("sandboxd.instance={}", instance.id());
        let message = "sandboxd: the engine did not remove the test disk; remove its containers and volumes with the label";
        let _ = writeln!(io::stderr(), "{message} {label}");
    }
}

fn succeeded() -> Finding {
    Finding::ok(CHECK, "each workspace gets a file system of its own")
}

/// The finding without the image, which the test needs.
fn not_tested() -> Finding {
    if Path::new("/dev/loop-control").exists() {
        Finding::ok(CHECK, "this machine has loop devices; not tested whether the engine can use them")
    } else {
        let fix = "build the image (`sandboxd build-image`), then run the doctor again to test a disk";
        Finding::warning(CHECK, "not tested; hard limits need loop devices, and none are visible here", fix)
    }
}

fn failed(error: Error) -> Finding {
    let fix = fix_of(&error);
    let found = match is_about_disks(&error) {
        true => "workspaces have no hard limit",
        false => "could not test whether workspaces have a hard limit",
    };
    Finding::warning(CHECK, format!("{found}: {:#}", anyhow::Error::new(error)), fix)
}

/// Whether the error shows that disks do not work, and not that the test failed for another reason.
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
            if HELPER_PROGRAMS.iter().any(|program| words.starts_with(program)) =>
        {
            "rebuild the image (`sandboxd build-image`): it needs mkfs.ext4, debugfs and e2fsck (e2fsprogs)"
        }
        Error::Disk { source: DiskFault::NoDevice(_), .. } => {
            "free loop devices (`losetup --list`) or load the kernel's `loop` module (`modprobe loop`) on the engine's machine"
        }
        Error::Disk { source: DiskFault::Failed(words), .. } if words.contains("device") => {
            "load the kernel's `loop` module (`modprobe loop`) on the engine's machine"
        }
        Error::Disk { source: DiskFault::Full(_), .. } => {
            "free space on the engine's disk (`sandboxd prune`, `docker system df`)"
        }
        Error::Disk { .. } => {
            "check that the engine can run containers of the image (watch `docker events` while you run the doctor again)"
        }
        error if could_not_mount(error) => {
            "let the engine mount ext4: run `modprobe ext4` on its machine, and do not run the engine in a container that may not mount; its log says why the mount failed"
        }
        error => error.advice().unwrap_or(
            "see the engine's log (`journalctl -u docker`), correct the cause and run the doctor again",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;

    fn disk(call: &'static str, source: DiskFault) -> Error {
        Error::Disk { call, name: "dsk_a".into(), source }
    }

    #[track_caller]
    fn check_finding(error: Error, found: &str, fix: &str) {
        let finding = failed(error);
        assert_eq!(finding.level, Level::Warning);
        assert!(finding.found.starts_with(found), "{finding:?}");
        assert!(finding.fix.as_ref().unwrap().contains(fix), "{finding:?}");
    }

    #[test]
    fn each_cause_has_its_own_advice() {
        let none = "workspaces have no hard limit: ";
        let message = |text: &str| DiskFault::Failed(text.into());
        let missing_program = message("mke2fs: No such file or directory (os error 2)");
        check_finding(disk("make disk", missing_program), none, "build-image");
        let bad_magic = message("debugfs said: bad magic (exit status: 1)");
        check_finding(disk("attach disk", bad_magic), none, "build-image");
        let no_loops = DiskFault::NoDevice("No such device or address (os error 6)".into());
        check_finding(disk("attach disk", no_loops), none, "modprobe loop");
        check_finding(
            disk("make disk", DiskFault::Full("size image: full".into())),
            none,
            "docker system df",
        );
    }

    #[test]
    fn an_engine_failure_says_nothing_about_disks() {
        let unknown = "could not test whether workspaces have a hard limit: ";
        check_finding(disk("start helper", DiskFault::HelperUnavailable), unknown, "docker events");
        let after = Duration::from_secs(30);
        check_finding(Error::Deadline { call: "mount disk", after }, unknown, "journalctl -u docker");
    }
}
