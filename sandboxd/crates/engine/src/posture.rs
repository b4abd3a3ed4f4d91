//! The hardening of a container as the engine reports it. What was requested does not count.

use bollard::models::ContainerInspectResponse;

use super::settings::SECCOMP_PROFILE;

/// The limits that the engine enforces for a container. Docker API 1.41, `GET /containers/{id}/json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posture {
    /// Whether only its mounts are writable.
    pub readonly_rootfs: bool,
    /// Capabilities of the container; it should have none.
    pub capabilities: Vec<String>,
    /// Whether no program can gain more privileges than the container has.
    pub no_new_privileges: bool,
    /// The effective seccomp profile.
    pub seccomp: Seccomp,
    /// `uid:gid`
    pub user: String,
    /// Maximum number of processes and threads.
    pub pids_limit: Option<i64>,
    /// Memory in bytes.
    pub memory_bytes: Option<i64>,
    /// Swap in addition to the memory, in bytes.
    pub swap_bytes: Option<i64>,
    /// Billionths of a processor.
    pub nano_cpus: Option<i64>,
    /// Network of the container.
    pub network: String,
    /// OCI runtime.
    pub runtime: String,
}

/// The seccomp profile of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seccomp {
    /// The profile of this crate.
    Own,
    /// Another profile: the engine's own, or none.
    Other,
}

impl Posture {
    /// What is weaker than a sandbox on `network` may be. Empty if the engine applied the settings.
    pub fn weaknesses(&self, network: &str) -> Vec<&'static str> {
        let root = ["0:0", "root", ""].contains(&self.user.as_str());
        let checks = [
            (self.readonly_rootfs, "the root file system can be written"),
            (self.capabilities.is_empty(), "it has capabilities"),
            (self.no_new_privileges, "programs can give it privileges"),
            (self.seccomp == Seccomp::Own, "it has another seccomp profile"),
            (!root, "it runs as root"),
            (self.network == network, "it has another network"),
        ];
        checks.into_iter().filter(|(holds, _)| !holds).map(|(_, weakness)| weakness).collect()
    }
}

pub(super) fn posture_of(container: &ContainerInspectResponse) -> Posture {
    let host = container.host_config.clone().unwrap_or_default();
    let security = host.security_opt.unwrap_or_default();
    let own_profile = security.iter().any(|option| option.strip_prefix("seccomp=") == Some(SECCOMP_PROFILE));
    let drops_all = host.cap_drop.unwrap_or_default().iter().any(|name| name.eq_ignore_ascii_case("all"));
    let capabilities = match drops_all {
        true => host.cap_add.unwrap_or_default(),
        false => vec!["the engine's default ones".to_owned()],
    };
    // The engine reports 0 or nothing if there is no limit.
    let limit = |value: Option<i64>| value.filter(|value| *value > 0);
    let memory_bytes = limit(host.memory);
    let network = host.network_mode.unwrap_or_default();
    // The mode stays the same when the container is connected to another network.
    let networks = container.network_settings.as_ref().and_then(|settings| settings.networks.as_ref());
    let other = networks.and_then(|networks| networks.keys().find(|name| **name != network).cloned());
    Posture {
        readonly_rootfs: host.readonly_rootfs == Some(true),
        capabilities: if host.privileged == Some(true) { vec!["ALL".into()] } else { capabilities },
        no_new_privileges: security
            .iter()
            .any(|option| option.starts_with("no-new-privileges") && !option.ends_with("false")),
        seccomp: if own_profile { Seccomp::Own } else { Seccomp::Other },
        user: container.config.as_ref().and_then(|config| config.user.clone()).unwrap_or_default(),
        pids_limit: limit(host.pids_limit),
        memory_bytes,
        swap_bytes: memory_bytes.zip(limit(host.memory_swap)).map(|(memory, both)| both - memory),
        nano_cpus: limit(host.nano_cpus),
        network: other.unwrap_or(network),
        runtime: host.runtime.unwrap_or_default(),
    }
}
