//! What a sandbox's container uses.

/// Resource usage of a container, as its cgroup reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerUsage {
    /// Memory of its processes and tmpfs files, without the page cache that can be reclaimed.
    pub memory_bytes: u64,
    /// Number of processes and threads.
    pub pids: u64,
    /// Processor time since the start, in milliseconds.
    pub cpu_ms: u64,
}
