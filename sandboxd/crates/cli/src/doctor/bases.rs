//! Checks whether sandboxes can share the files of a snapshot. What is missing costs time and space only.

use super::finding::Finding;
use sandboxd_config::Config;
use sandboxd_engine::{Facts, VOLUME_PLUGIN};
use sandboxd_model::DiskQuota;

const CHECK: &str = "bases";

pub(super) fn check(facts: &Facts, config: &Config) -> Finding {
    let program = config.agent_program.with_file_name(VOLUME_PLUGIN);
    if config.limits.bases_bytes == 0 {
        return Finding::ok(CHECK, "turned off: each sandbox gets a copy of its snapshot's files");
    }
    if config.disk_quota == DiskQuota::Off {
        return Finding::ok(CHECK, "without a quota, each sandbox gets a copy of its snapshot's files");
    }
    if !facts.mounts_images() {
        let found = format!("kernel {} is older than 6.12", facts.kernel);
        return Finding::ok(CHECK, format!("{found}: each sandbox gets a copy of its snapshot's files"));
    }
    if !program.exists() {
        let found =
            format!("{} is missing: each sandbox gets a copy of its snapshot's files", program.display());
        return Finding::warning(CHECK, found, "build it with `make agent`, or copy it beside the agent");
    }
    Finding::ok(
        CHECK,
        "the kernel and the volume plugin's program let sandboxes share the files of large snapshots",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_or_a_missing_program_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let agent = dir.path().join("sandbox-agent");
        let mut config = Config::load(|_| None, Vec::new()).0.unwrap();
        config.agent_program = agent;
        let facts = |kernel: &str| Facts { kernel: kernel.into(), ..Facts::default() };
        let text = |facts: &Facts, config: &Config| check(facts, config).found;
        assert!(text(&facts("6.1.0-41-amd64"), &config).contains("older than 6.12"));
        assert!(text(&facts("6.12.1"), &config).contains("is missing"));
        std::fs::write(dir.path().join(VOLUME_PLUGIN), "").unwrap();
        assert!(text(&facts("6.12.1"), &config).contains("let sandboxes share"));
        config.limits.bases_bytes = 0;
        assert!(text(&facts("6.12.1"), &config).contains("turned off"));
    }
}
