//! Checks of this machine: settings, directories, programs.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Access, access, statfs, statvfs};
use secrecy::ExposeSecret;

use super::finding::Finding;
use crate::cli::text;
use crate::config::{Config, Fault, Report};
use crate::state_dir;

/// Free space below which a disk is nearly full, and below which work will fail soon.
const LOW_PERCENT: u64 = 10;
/// See [`LOW_PERCENT`].
const FULL_BYTES: u64 = 1024 * 1024 * 1024;

/// Most that is read of a program: its header and its program headers.
const ELF_HEAD_BYTES: u64 = 64 * 1024;

/// Where a service manager makes the directories that a service's user could not (`RuntimeDirectory=` and
/// `StateDirectory=` of systemd.exec(5)).
const SERVICE_DIRS: [&str; 3] = ["/run", "/var/run", "/var/lib"];

pub(super) fn settings(config: &Result<Config, Vec<Fault>>, report: &Report) -> Vec<Finding> {
    const CHECK: &str = "settings";
    let mut found: Vec<Finding> = match config {
        Ok(_) => vec![Finding::ok(CHECK, format!("{} in force, without a fault", report.rows.len()))],
        Err(faults) => {
            let fix = "correct it; `sandboxd check-config` shows every setting and its source";
            faults.iter().map(|fault| Finding::fault(CHECK, fault.to_string(), fix)).collect()
        }
    };
    found.extend(report.unknown.iter().map(|name| {
        Finding::warning(
            CHECK,
            format!("{name} is not a setting of this version"),
            "correct its name or remove it",
        )
    }));
    found
}

pub(super) fn check(config: &Config) -> Vec<Finding> {
    let mut found = vec![token(config), agent(&config.agent_program)];
    found.extend(state_dir(&config.state_dir));
    found.push(run_dir(&config.run_dir));
    found
}

fn token(config: &Config) -> Finding {
    const CHECK: &str = "token";
    let is_open = !config.bind_host.address.is_loopback();
    match &config.admin_token {
        Some(token) if is_open || token.expose_secret().len() >= crate::config::MIN_TOKEN_CHARS => {
            Finding::ok(CHECK, "set, and long enough")
        }
        Some(_) => Finding::warning(
            CHECK,
            "set, and short enough to be guessed by other users of this machine",
            "set SANDBOXD_ADMIN_TOKEN to the output of `openssl rand -hex 32`, or unset it to have one made",
        ),
        None if state_dir::read_token(&config.state_dir).is_ok() => {
            Finding::ok(CHECK, format!("the daemon's own, in {}", config.state_dir.join("token").display()))
        }
        None => Finding::ok(CHECK, "none yet; the first start makes one"),
    }
}

fn agent(path: &Path) -> Finding {
    const CHECK: &str = "agent";
    let fix = "build it with `make agent`, or name it in SANDBOXD_AGENT_PATH";
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(ELF_HEAD_BYTES).read_to_end(&mut head));
    if let Err(error) = read {
        return Finding::fault(CHECK, format!("{} cannot be read: {error}", path.display()), fix);
    }
    match needs_interpreter(&head) {
        None => Finding::fault(CHECK, format!("{} is no 64-bit program", path.display()), fix),
        Some(true) => {
            let found =
                format!("{} is not static, so images without its libraries cannot run it", path.display());
            Finding::fault(CHECK, found, fix)
        }
        Some(false) => Finding::ok(CHECK, format!("{} is there and static", path.display())),
    }
}

/// Whether a program wants a dynamic linker: it has a program header of the type PT_INTERP (elf(5)). `None`
/// for what is no little-endian 64-bit ELF file.
fn needs_interpreter(head: &[u8]) -> Option<bool> {
    const PT_INTERP: u64 = 3;
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let field = head.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (start, size, count) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
    for index in 0..count {
        let at = usize::try_from(start.checked_add(index.checked_mul(size)?)?).ok()?;
        if number(at, 4)? == PT_INTERP {
            return Some(true);
        }
    }
    Some(false)
}

fn state_dir(path: &Path) -> Vec<Finding> {
    const CHECK: &str = "state dir";
    let fix =
        format!("name another in SANDBOXD_STATE_DIR, or `chown` {} to the daemon's user", path.display());
    let Ok(metadata) = fs::metadata(path) else {
        return vec![will_be_made(CHECK, path, fix)];
    };
    let mode = metadata.permissions().mode() & 0o777;
    if !is_writable(path) {
        return vec![Finding::fault(CHECK, format!("{} cannot be written to", path.display()), fix)];
    }
    let own = rustix::process::geteuid().as_raw();
    let mut found = vec![match (mode & 0o077, metadata.uid() == own) {
        (0, true) => Finding::ok(CHECK, format!("{} is private", path.display())),
        (0, false) => {
            Finding::warning(CHECK, format!("{} belongs to user {}", path.display(), metadata.uid()), fix)
        }
        _ => Finding::warning(
            CHECK,
            format!("others can look into {} (mode {mode:o}), where the key is", path.display()),
            format!("chmod 700 {}", path.display()),
        ),
    }];
    found.extend(space(path).map(|space| space.finding("state disk", path)));
    found
}

fn run_dir(path: &Path) -> Finding {
    const CHECK: &str = "run dir";
    let fix = "name another in SANDBOXD_RUN_DIR, on a file system of the engine's machine";
    if !path.exists() {
        return will_be_made(CHECK, path, fix.into());
    }
    if !is_writable(path) {
        return Finding::fault(CHECK, format!("{} cannot be written to", path.display()), fix);
    }
    // Where the daemon or the engine is in a container of its own, they may see different directories.
    let found = format!(
        "{} is writable, on {}; whether containers see it shows only a trial, which each start makes",
        path.display(),
        file_system(path)
    );
    Finding::ok(CHECK, found)
}

fn will_be_made(check: &'static str, path: &Path, fix: String) -> Finding {
    let above = path.ancestors().skip(1).find(|above| above.exists());
    match above {
        Some(above) if is_writable(above) => Finding::ok(check, format!("{} will be made", path.display())),
        _ => not_ours_to_make(check, path, fix),
    }
}

fn not_ours_to_make(check: &'static str, path: &Path, fix: String) -> Finding {
    let found = format!("{} is missing and cannot be made", path.display());
    if !SERVICE_DIRS.iter().any(|dir| path.starts_with(dir)) {
        return Finding::fault(check, found, fix);
    }
    let fix = format!(
        "nothing, if the service manager makes it at the service's start, as the unit `sandboxd.service` lets it \
         (docs/operations.md says how to ask as the service); otherwise {fix}"
    );
    Finding::warning(check, format!("{found} by this user"), fix)
}

fn is_writable(path: &Path) -> bool {
    path.is_dir() && access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Its name, by its magic number (statfs(2)).
fn file_system(path: &Path) -> String {
    let Ok(found) = statfs(path) else { return "an unknown file system".into() };
    let known = match found.f_type as u64 {
        0x0102_1994 => "tmpfs",
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x794c_7630 => "overlay (a container's own)",
        0x6969 => "nfs",
        0x2fc1_2fc1 => "zfs",
        other => return format!("a file system of type {other:#x}"),
    };
    known.to_owned()
}

/// How full a file system is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Space {
    free: u64,
    size: u64,
}

pub(super) fn space(path: &Path) -> Option<Space> {
    let found = statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(Space { free: bytes(found.f_bavail), size: bytes(found.f_blocks) })
}

impl Space {
    pub(super) fn finding(self, check: &'static str, path: &Path) -> Finding {
        let found =
            format!("{} of {} free at {}", text::size(self.free), text::size(self.size), path.display());
        let fix = "remove what is not needed (`sandboxd prune`, `docker system df`), or give it more room";
        if self.free < FULL_BYTES {
            Finding::fault(check, found, fix)
        } else if self.free / LOW_PERCENT < self.size / 100 {
            Finding::warning(check, found, fix)
        } else {
            Finding::ok(check, found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::finding::Level;

    #[test]
    fn a_static_program_is_told_from_others() {
        let mut head = b"\x7fELF\x02\x01".to_vec();
        head.resize(0x40 + 2 * 56, 0);
        head[0x20] = 0x40;
        head[0x36] = 56;
        head[0x38] = 2;
        head[0x40] = 1;
        assert_eq!(needs_interpreter(&head), Some(false));
        head[0x40 + 56] = 3;
        assert_eq!(needs_interpreter(&head), Some(true));
        assert_eq!(needs_interpreter(&head[..0x60]), None, "cut off");
        assert_eq!(needs_interpreter(b"#!/bin/sh\n"), None);
        head[0x20..0x28].fill(0xff);
        assert_eq!(needs_interpreter(&head), None, "points beyond everything");
    }

    #[test]
    fn a_disk_is_judged_by_what_is_left() {
        let level = |free_gib: u64, size_gib: u64| {
            let space = Space { free: free_gib << 30, size: size_gib << 30 };
            space.finding("disk", Path::new("/")).level
        };
        assert_eq!(level(50, 100), Level::Ok);
        assert_eq!(level(9, 100), Level::Warning);
        assert_eq!(level(0, 100), Level::Fault);
    }

    #[test]
    fn a_directory_that_the_service_manager_makes_is_no_fault() {
        let missing = |path| not_ours_to_make("run dir", Path::new(path), "name another".into());
        let managed = missing("/run/sandboxd");
        assert_eq!(managed.level, Level::Warning);
        assert!(managed.fix.unwrap().contains("sandboxd.service"));
        assert_eq!(missing("/var/lib/sandboxd").level, Level::Warning);
        assert_eq!(missing("/srv/sandboxd").level, Level::Fault);
        assert_eq!(missing("/running/sandboxd").level, Level::Fault);
    }

    #[test]
    fn a_directory_that_others_can_look_into_is_pointed_out() {
        let dir = tempfile::tempdir().unwrap();
        let at = |mode| {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            state_dir(dir.path())[0].level
        };
        assert_eq!((at(0o700), at(0o750)), (Level::Ok, Level::Warning));
        assert_eq!(state_dir(&dir.path().join("not/yet"))[0].level, Level::Ok);
    }
}
