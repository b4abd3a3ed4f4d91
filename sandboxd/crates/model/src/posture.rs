//! The hardening of a container as the engine reports it. What was requested does not count.

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
    /// The engine's id of the image, `sha256:` and 64 hexadecimal digits.
    pub image_id: Option<String>,
}

/// The seccomp profile of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seccomp {
    /// sandboxd's profile.
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
