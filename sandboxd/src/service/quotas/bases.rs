//! How many bytes of bases a project is charged.
//!
//! Sandboxes share bases, so a base is charged once, for as long as any sandbox of the project is over it. It is charged to
//! each project that has such a sandbox, because it cannot be removed until none has.

use std::collections::HashMap;

/// The bases of a project.
#[derive(Debug, Default)]
pub(super) struct Bases {
    by_name: HashMap<String, Base>,
    bytes: u64,
}

#[derive(Debug)]
struct Base {
    bytes: u64,
    sandboxes: u64,
}

impl Bases {
    /// What the project is charged.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What one more sandbox over a base of this size adds.
    pub(super) fn added_by(&self, name: &str, bytes: u64) -> u64 {
        if self.by_name.contains_key(name) { 0 } else { bytes }
    }

    pub(super) fn add(&mut self, name: &str, bytes: u64) {
        self.bytes = self.bytes.saturating_add(self.added_by(name, bytes));
        let base = self.by_name.entry(name.to_owned()).or_insert(Base { bytes, sandboxes: 0 });
        base.sandboxes += 1;
    }

    /// Has no effect if it was not added.
    pub(super) fn remove(&mut self, name: &str) {
        let Some(base) = self.by_name.get_mut(name) else { return };
        base.sandboxes -= 1;
        if base.sandboxes == 0 {
            self.bytes = self.bytes.saturating_sub(base.bytes);
            self.by_name.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_charged_once() {
        let mut bases = Bases::default();
        bases.add("a", 100);
        bases.add("a", 100);
        bases.add("b", 10);
        assert_eq!(bases.bytes(), 110);
        assert_eq!((bases.added_by("a", 100), bases.added_by("c", 5)), (0, 5));
        bases.remove("a");
        assert_eq!(bases.bytes(), 110, "another sandbox is over it");
        bases.remove("a");
        bases.remove("a");
        assert_eq!(bases.bytes(), 10);
    }
}
