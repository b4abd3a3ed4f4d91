//! Names of disks and of the objects that belong to them.

use sandboxd_model::Instance;

/// The characters of a name: 32 of them, so that every random byte gives each with the same probability.
const NAME_CHARS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const NAME_RANDOM_CHARS: usize = 20;

/// Prefix of the probe's disk, which distinguishes it from a disk with files of a sandbox.
pub(super) const PROBE_PREFIX: &str = "prb_";

/// Name of the helper's container and of the volume of disks.
pub(super) fn disks_name(instance: &Instance) -> String {
    format!("sandboxd-disks-{}", instance.id())
}

/// Name of the probe's container and of its volume.
pub(super) fn probe_name(instance: &Instance) -> String {
    format!("{}-probe", disks_name(instance))
}

/// Name of the container through which a base is written.
pub(super) fn base_carrier_name(instance: &Instance) -> String {
    format!("{}-base", disks_name(instance))
}

/// A name for a new disk.
pub(super) fn random_name() -> String {
    let mut bytes = [0; NAME_RANDOM_CHARS];
    getrandom::fill(&mut bytes).expect("the kernel has randomness");
    let chars = bytes.map(|byte| char::from(NAME_CHARS[usize::from(byte) % NAME_CHARS.len()]));
    format!("dsk_{}", chars.iter().collect::<String>())
}

/// A name for the probe's disk.
pub(super) fn random_probe_name() -> String {
    random_name().replacen("dsk_", PROBE_PREFIX, 1)
}

#[cfg(test)]
mod tests {
    use sandboxd_model::Disk;

    use super::*;

    #[test]
    fn names_are_long_and_contain_no_path() {
        let (one, two) = (random_name(), random_name());
        assert_ne!(one, two);
        assert!(Disk::new(&one, "3f2504e0-4f89-41d3-9a0c-0305e82c3301").is_ok());
        assert_eq!(one.len(), 24);
        assert!(Disk::is_name(&random_probe_name()) && random_probe_name().starts_with(PROBE_PREFIX));
    }
}
