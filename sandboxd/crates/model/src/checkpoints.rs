//! Snapshots that are made automatically.

use std::time::Duration;

use sandbox_api::sandbox::Checkpoints as Wire;

use crate::field::checked;
use crate::{FieldError, limits};

/// When snapshots of a sandbox are made automatically, and how many are kept. There is at least one occasion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoints {
    after_command: bool,
    every: Option<Duration>,
    keep: u32,
}

impl Checkpoints {
    /// Checks a request. `None` if it has no occasion.
    pub fn new(wire: &Wire) -> Result<Option<Self>, FieldError> {
        let every = wire.every_ms.map(|ms| checked("checkpoints.everyMs", ms, limits::CHECKPOINT_EVERY_MS));
        let every = every.transpose()?.map(Duration::from_millis);
        let keep = wire.keep.unwrap_or(limits::DEFAULT_CHECKPOINTS_KEPT);
        let keep = checked("checkpoints.keep", keep.into(), limits::CHECKPOINTS_KEPT)? as u32;
        let after_command = wire.after_command.unwrap_or(false);
        Ok((after_command || every.is_some()).then_some(Self { after_command, every, keep }))
    }

    /// As a client sees it.
    pub fn to_wire(self) -> Wire {
        Wire {
            after_command: Some(self.after_command),
            every_ms: self.every.map(|every| every.as_millis() as u64),
            keep: Some(self.keep),
        }
    }

    /// Whether one is made after each command and each change of files through the API.
    pub fn after_command(self) -> bool {
        self.after_command
    }

    /// Time between two, if something has run.
    pub fn every(self) -> Option<Duration> {
        self.every
    }

    /// Number of them that is kept: at least 1.
    pub fn keep(self) -> u32 {
        self.keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_occasion_there_are_none() {
        assert_eq!(Checkpoints::new(&Wire::default()), Ok(None));
        let never = Wire { after_command: Some(false), every_ms: None, keep: Some(3) };
        assert_eq!(Checkpoints::new(&never), Ok(None));
    }

    #[test]
    fn a_request_comes_back_as_it_was() {
        let wire = Wire { after_command: Some(true), every_ms: Some(60_000), keep: Some(3) };
        assert_eq!(Checkpoints::new(&wire).unwrap().unwrap().to_wire(), wire);
        let default = Wire { after_command: Some(true), ..Wire::default() };
        let default = Checkpoints::new(&default).unwrap().unwrap();
        assert_eq!((default.every(), default.keep()), (None, limits::DEFAULT_CHECKPOINTS_KEPT));
    }

    #[test]
    fn values_outside_the_bounds_are_rejected_by_name() {
        let often = Wire { every_ms: Some(1), ..Wire::default() };
        let none = Wire { after_command: Some(true), keep: Some(0), ..Wire::default() };
        for (wire, field) in [(often, "checkpoints.everyMs"), (none, "checkpoints.keep")] {
            let error = Checkpoints::new(&wire).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
        }
    }
}
