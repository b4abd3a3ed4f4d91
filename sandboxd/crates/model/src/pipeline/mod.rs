//! The last pipeline of a bash script, and where its stages begin and end.
//!
//! Reads the script once from its start to its end, without going back, and only to a limited depth. What it does not
//! understand with certainty is an error, because a cut in the wrong place would change what the script does.

mod commands;
mod here_document;
mod scanner;
mod words;

pub use self::scanner::StageText;
use self::scanner::{End, Pipeline, Scanner};

/// Why a script cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// The script is not understood, or not valid.
    #[error("cannot find the pipeline of this script: the script is not understood at byte {at}")]
    NotUnderstood {
        /// Position in the script.
        at: usize,
    },
    /// The script does not wait for its last pipeline.
    #[error("cannot be used if the last pipeline runs in the background")]
    Background,
}

/// Finds the stages of a script's last pipeline. Returns none if the script's last command is not a pipeline. A
/// pipeline within a compound command, a function or a substitution does not count.
pub fn last_pipeline(script: &str) -> Result<Vec<StageText>, SplitError> {
    let mut scanner = Scanner::new(script);
    if scanner.list(End::Script).is_err() {
        return Err(SplitError::NotUnderstood { at: scanner.at });
    }
    match scanner.last {
        Some(Pipeline { stages, .. }) if stages.len() < 2 => Ok(Vec::new()),
        Some(Pipeline { in_background: true, .. }) => Err(SplitError::Background),
        Some(Pipeline { stages, .. }) => Ok(stages),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests;
