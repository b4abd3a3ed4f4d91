//! Resource usage of the process, read from `/proc/self` (proc(5)) on request.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

#[derive(Debug, Default)]
pub(super) struct Process {
    resident: Gauge,
    descriptors: Gauge,
}

impl Process {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "resident_memory",
            "Memory of this process",
            Unit::Bytes,
            self.resident.clone(),
        );
        registry.register("open_fds", "File descriptors of this process", self.descriptors.clone());
    }

    /// Keeps the last value if the system does not report one.
    pub(super) fn measure(&self) {
        if let Some(bytes) =
            std::fs::read_to_string("/proc/self/status").ok().and_then(|text| resident(&text))
        {
            self.resident.set(bytes);
        }
        if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
            self.descriptors.set(i64::try_from(entries.count()).unwrap_or(i64::MAX));
        }
    }
}

/// `VmRSS` in bytes; the file has KiB.
fn resident(status: &str) -> Option<i64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_parsed_from_the_kernels_text() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t1\n"), Some(2048 * 1024));
        assert_eq!(resident("Name:\tx\n"), None);
    }
}
