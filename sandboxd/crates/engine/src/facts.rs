//! The engine's information about itself, and known faults of such engines.

use std::cmp::Ordering;
use std::path::PathBuf;

use bollard::models::{SystemInfo, SystemInfoCgroupVersionEnum, SystemVersion};
use jiff::{SignedDuration, Timestamp};

use super::{Engine, Error};
use sandboxd_model::limits;

/// The engine's information about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The engine's own id.
    pub id: String,
    /// Version, including a suffix of the distribution.
    pub version: String,
    /// Version of runc, and the commit or package that it was built from.
    pub runc: Option<(String, String)>,
    /// Names of the security options: `seccomp`, `apparmor`, `rootless`, `userns`, …
    pub security: Vec<String>,
    /// The engine's own warnings.
    pub warnings: Vec<String>,
    /// Limits that the engine cannot set: `memory`, `swap`, `processes`, `processor`.
    pub missing_limits: Vec<&'static str>,
    /// Directory of images and volumes, on the engine's machine.
    pub root_dir: Option<PathBuf>,
    /// 1 or 2.
    pub cgroup_version: Option<u8>,
    /// Whether containers continue to run while the engine restarts.
    pub live_restore: bool,
    /// Version of the kernel of the engine's machine.
    pub kernel: String,
    /// Operating system of the engine's machine.
    pub operating_system: String,
    /// Names of the installed OCI runtimes.
    pub runtimes: Vec<String>,
    /// How far the engine's clock is ahead of the daemon's.
    pub clock_ahead: Option<SignedDuration>,
}

/// The first kernel that mounts an EROFS image in a file without a loop device.
const MOUNTS_IMAGES: Version = Version::of(6, 12, 0);

impl Engine {
    /// Asks the engine for its information.
    pub async fn facts(&self) -> Result<Facts, Error> {
        let version = self.call("version", limits::ENGINE_PING, self.docker.version()).await?;
        let asked = Timestamp::now();
        let info = self.call("info", limits::ENGINE_CALL, self.docker.info()).await?;
        let took = Timestamp::now().duration_since(asked);
        // The engine read its clock at some time between request and response.
        Ok(Facts::new(info, version, asked + took / 2))
    }
}

impl Facts {
    fn new(info: SystemInfo, version: SystemVersion, now: Timestamp) -> Self {
        let components = version.components.unwrap_or_default();
        let runc = components.into_iter().find(|component| component.name == "runc");
        let commit = |details: Option<std::collections::HashMap<String, String>>| {
            details.and_then(|mut details| details.remove("GitCommit")).unwrap_or_default()
        };
        let clock = info.system_time.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
        let mut runtimes: Vec<String> = info.runtimes.unwrap_or_default().into_keys().collect();
        runtimes.sort();
        let limits = [
            ("memory", info.memory_limit),
            ("swap", info.swap_limit),
            ("processes", info.pids_limit),
            ("processor", info.cpu_cfs_quota),
        ];
        Self {
            id: info.id.unwrap_or_default(),
            version: version.version.unwrap_or_default(),
            runc: runc.map(|runc| (runc.version, commit(runc.details))),
            security: info.security_options.unwrap_or_default().iter().map(|text| name_of(text)).collect(),
            warnings: info.warnings.unwrap_or_default(),
            missing_limits: limits
                .iter()
                .filter(|limit| limit.1 == Some(false))
                .map(|limit| limit.0)
                .collect(),
            root_dir: info.docker_root_dir.map(PathBuf::from),
            cgroup_version: match info.cgroup_version {
                Some(SystemInfoCgroupVersionEnum::_1) => Some(1),
                Some(SystemInfoCgroupVersionEnum::_2) => Some(2),
                Some(SystemInfoCgroupVersionEnum::EMPTY) | None => None,
            },
            live_restore: info.live_restore_enabled.unwrap_or(false),
            kernel: info.kernel_version.unwrap_or_default(),
            operating_system: info.operating_system.unwrap_or_default(),
            runtimes,
            clock_ahead: clock.map(|clock| clock.duration_since(now)),
        }
    }

    /// Whether the engine runs without root.
    pub fn is_rootless(&self) -> bool {
        self.has("rootless")
    }

    /// Whether root in a container is another user on the engine's machine.
    pub fn remaps_users(&self) -> bool {
        self.has("userns") || self.is_rootless()
    }

    /// Whether the kernel mounts images in files (CONFIG_EROFS_FS_BACKED_BY_FILE). True if its version is not known.
    pub fn mounts_images(&self) -> bool {
        Version::parse(&self.kernel).is_none_or(|version| version >= MOUNTS_IMAGES)
    }

    fn has(&self, option: &str) -> bool {
        self.security.iter().any(|found| found == option)
    }

    /// Faults of the engine that weaken every sandbox, as short phrases. Omits faults that only affect containers
    /// with a network, because no sandbox has one.
    pub fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Some((version, package)) = &self.runc {
            found.extend(runc_warnings(version, package));
        }
        match Version::parse(&self.version) {
            None => found.push(format!("engine version {:?} cannot be parsed", self.version)),
            // CVE-2026-41567, -41568 and -42306: copying from and to running containers, which the daemon never
            // does.
            Some(version) if version < Version::of(29, 5, 1) => {
                found.push(format!(
                    "engine {version} is older than 29.5.1, which fixed its archive endpoints"
                ));
            }
            Some(_) => {}
        }
        found.extend(self.missing_limits.iter().map(|limit| format!("the engine cannot limit {limit}")));
        if !self.has("seccomp") {
            found.push("the engine has no seccomp".into());
        }
        found
    }
}

/// The name of a security option: `seccomp` in `name=seccomp,profile=default`.
fn name_of(option: &str) -> String {
    let name = option.split(',').find_map(|part| part.strip_prefix("name="));
    name.unwrap_or(option).to_owned()
}

fn runc_warnings(text: &str, package: &str) -> Vec<String> {
    let Some(version) = Version::parse(text) else {
        return vec![format!("runc version {text:?} cannot be parsed")];
    };
    let mut found = Vec::new();
    if version < Version::of(1, 1, 12) {
        // Distributions backport fixes to old versions. The package's name shows that, but not which fixes it has.
        let unless =
            if is_distribution(package) { format!(", unless {package} has it") } else { String::new() };
        found.push(format!("runc {version} lacks the fix of CVE-2024-21626 (1.1.12){unless}"));
    }
    let is_fixed = match (version.major, version.minor) {
        (1, 3) => version >= Version::of(1, 3, 3),
        (1, 4) => version >= Version { candidate: Some(3), ..Version::of(1, 4, 0) },
        _ => version >= Version::of(1, 2, 8),
    };
    if !is_fixed {
        found.push(format!(
            "runc {version} lacks the fixes of CVE-2025-31133, -52565 and -52881 (1.2.8, 1.3.3)"
        ));
    }
    found
}

fn is_distribution(package: &str) -> bool {
    ["deb", "ubuntu", ".el", ".fc", "~bpo", "suse"].iter().any(|mark| package.contains(mark))
}

/// The parts of a version that determine its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    major: u64,
    minor: u64,
    patch: u64,
    /// The number in `-rc.3`. A release has none and follows all candidates.
    candidate: Option<u64>,
}

impl Version {
    const fn of(major: u64, minor: u64, patch: u64) -> Self {
        Self { major, minor, patch, candidate: None }
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
        let (numbers, rest) = text.split_at(end);
        let mut numbers = numbers.split('.').filter(|part| !part.is_empty()).map(|part| part.parse().ok());
        let (major, minor) = (numbers.next()??, numbers.next()??);
        let patch = numbers.next().flatten().unwrap_or(0);
        let candidate = rest.strip_prefix("-rc").and_then(|rest| {
            let digits = rest.trim_start_matches('.');
            let end = digits.find(|char: char| !char.is_ascii_digit()).unwrap_or(digits.len());
            digits[..end].parse().ok()
        });
        Some(Self { major, minor, patch, candidate })
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |version: &Self| {
            (version.major, version.minor, version.patch, version.candidate.unwrap_or(u64::MAX))
        };
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        self.candidate.map_or(Ok(()), |candidate| write!(f, "-rc.{candidate}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(engine: &str, runc: &str, package: &str) -> Facts {
        Facts {
            version: engine.into(),
            runc: Some((runc.into(), package.into())),
            security: vec!["seccomp".into()],
            ..Facts::default()
        }
    }

    #[test]
    fn versions_are_read_as_engines_write_them() {
        let parse = |text| Version::parse(text).map(|version| version.to_string());
        assert_eq!(parse("20.10.24+dfsg1").as_deref(), Some("20.10.24"));
        assert_eq!(parse("1.1.5+ds1").as_deref(), Some("1.1.5"));
        assert_eq!(parse("v1.4.0-rc.2+dev").as_deref(), Some("1.4.0-rc.2"));
        assert_eq!(parse("29.0").as_deref(), Some("29.0.0"));
        assert_eq!(parse("library-import"), None);
        assert!(Version::parse("1.4.0-rc.3") < Version::parse("1.4.0"));
    }

    #[test]
    fn a_patched_engine_has_no_warnings() {
        for runc in ["1.2.8", "1.3.3", "1.4.0-rc.3", "1.4.0", "1.5.1", "2.0.0"] {
            assert_eq!(facts("29.5.1", runc, "").warnings(), Vec::<String>::new(), "{runc}");
        }
    }

    #[test]
    fn old_versions_are_reported() {
        let found = |runc, package| facts("29.5.1", runc, package).warnings().len();
        assert_eq!(found("1.1.11", ""), 2);
        assert_eq!(
            (found("1.1.12", ""), found("1.2.7", ""), found("1.3.2", ""), found("1.4.0-rc.2", "")),
            (1, 1, 1, 1)
        );
        let debian = facts("20.10.24+dfsg1", "1.1.5+ds1", "1.1.5+ds1-1+deb12u1").warnings();
        assert!(debian[0].contains("unless 1.1.5+ds1-1+deb12u1 has it"), "{debian:?}");
        assert!(debian[2].contains("20.10.24 is older than 29.5.1"), "{debian:?}");
    }

    #[test]
    fn old_kernels_mount_no_images() {
        let facts = |kernel: &str| Facts { kernel: kernel.into(), ..Facts::default() };
        for new in ["6.12.0", "6.18.44-fc-v669", "6.12.9+deb13-amd64", "7.0.0-rc1", ""] {
            assert!(facts(new).mounts_images(), "{new}");
        }
        for old in ["6.1.0-41-amd64", "6.11.10", "5.15.0-91-generic"] {
            assert!(!facts(old).mounts_images(), "{old}");
        }
    }

    #[test]
    fn unenforced_limits_are_reported() {
        let facts = Facts { missing_limits: vec!["swap"], security: vec![], ..facts("29.5.1", "1.4.0", "") };
        assert_eq!(facts.warnings(), ["the engine cannot limit swap", "the engine has no seccomp"]);
    }
}
