//! Files with the whole output of commands, for callers that keep only a part of it.

mod directory;
mod file;

pub(crate) use self::directory::{NAME, OutputDirectory};
pub(crate) use self::file::OutputFile;
