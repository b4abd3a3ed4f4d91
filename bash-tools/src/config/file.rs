//! Where the file is, and how it is read.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::environment::value;
use super::fault::Fault;
use super::ranges::MAX_FILE_BYTES;
use super::{Config, parse};

/// The variable that names the file.
const PATH: &str = "REMCOCHAT_CONFIG_PATH";
/// Where it is if nothing is said.
const DEFAULT_PATH: &str = "config.toml";

/// The file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be read, or is no UTF-8.
    #[error("{} could not be read", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is larger than any configuration.
    #[error("{} is larger than {limit_bytes} bytes", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// Most that is read.
        limit_bytes: u64,
    },
    /// It was read, and what it says cannot be done. One line for each fault.
    #[error("{} cannot be used:{}", path.display(), lines(faults))]
    Faulty {
        /// Which file.
        path: PathBuf,
        /// Everything that is wrong.
        faults: Vec<Fault>,
    },
}

/// Where the file is: `REMCOCHAT_CONFIG_PATH`, or `config.toml` in the working directory.
pub fn path(env: impl Fn(&str) -> Option<String>) -> PathBuf {
    value(&env, PATH).map_or_else(|| PathBuf::from(DEFAULT_PATH), PathBuf::from)
}

/// Reads and checks the file that [`path`] finds. It blocks while the disk is slow, so call it at the start.
///
/// # Errors
/// The file could not be read, or something in it is wrong.
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
