//! Finds and reads the configuration file.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::environment::value;
use super::fault::Fault;
use super::ranges::MAX_FILE_BYTES;
use super::{Config, parse};

/// Variable for the path of the file.
const PATH: &str = "REMCOCHAT_CONFIG_PATH";
/// Default path.
const DEFAULT_PATH: &str = "config.toml";

/// Why the file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read, or is not valid UTF-8.
    #[error("{} could not be read", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file is too large.
    #[error("{} is larger than {limit_bytes} bytes", path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Maximum size in bytes.
        limit_bytes: u64,
    },
    /// The file was read and contains errors. The message has one line for each.
    #[error("{} is invalid:{}", path.display(), lines(faults))]
    Faulty {
        /// Path of the file.
        path: PathBuf,
        /// All errors.
        faults: Vec<Fault>,
    },
}

/// Returns the path of the file: `REMCOCHAT_CONFIG_PATH`, or `config.toml` in the working directory.
pub fn path(env: impl Fn(&str) -> Option<String>) -> PathBuf {
    value(&env, PATH).map_or_else(|| PathBuf::from(DEFAULT_PATH), PathBuf::from)
}

/// Reads and checks the file at [`path`]. It blocks on the disk, so call it at startup.
///
/// # Errors
/// The file cannot be read, or it contains an error.
pub fn load(env: impl Fn(&str) -> Option<String>) -> Result<Config, Error> {
    let path = path(env);
    let text = read(&path)?;
    parse(&text).map_err(|faults| Error::Faulty { path, faults })
}

fn read(path: &Path) -> Result<String, Error> {
    let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(Error::TooLarge { path: path.to_owned(), limit_bytes: MAX_FILE_BYTES });
    }
    Ok(text)
}

fn lines(faults: &[Fault]) -> String {
    faults.iter().map(|fault| format!("\n  {fault}")).collect()
}
