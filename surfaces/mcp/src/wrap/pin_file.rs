//! The file in which `sandboxd mcp --wrap` stores versions and approved tools.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::tools::ToolDigests;

/// Maximum length of the file in bytes.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Recorded versions of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pin {
    /// Version of its package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    /// Digest of its tool list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tools_hash: Option<String>,
    /// Digest of each tool.
    #[serde(default)]
    pub(super) tools: ToolDigests,
}

/// The file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the file {} with versions and approved tools cannot be used: {source}", path.display())]
pub struct PinError {
    path: PathBuf,
    source: io::Error,
}

/// The file: a JSON object with a pin for each command.
#[derive(Debug)]
pub(super) struct PinFile {
    path: PathBuf,
}

type Pins = BTreeMap<String, Pin>;

impl PinFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The recorded versions of the server with this command. A new server has none.
    pub(super) fn get(&self, command: &[String]) -> Result<Pin, PinError> {
        Ok(self.read().map_err(|source| self.error(source))?.remove(&key(command)).unwrap_or_default())
    }

    /// Stores the pin of a server. Another process that writes at the same time may be overwritten.
    pub(super) fn put(&self, command: &[String], pin: &Pin) -> Result<(), PinError> {
        let put = || {
            let mut pins = self.read()?;
            pins.insert(key(command), pin.clone());
            self.write(&pins)
        };
        put().map_err(|source| self.error(source))
    }

    fn read(&self) -> io::Result<Pins> {
        let file = match std::fs::File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Pins::new()),
            opened => opened?,
        };
        let mut text = String::new();
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
        check_length(&text)?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Replaces the file in one step. Arguments of commands may be secret, so only its owner can read it.
    fn write(&self, pins: &Pins) -> io::Result<()> {
        if let Some(parent) = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent)?;
        }
        let text = serde_json::to_string_pretty(pins)?;
        check_length(&text)?;
        let new = self.path.with_extension(format!("{}.new", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&new, &self.path)
    }

    fn error(&self, source: io::Error) -> PinError {
        PinError { path: self.path.clone(), source }
    }
}

fn check_length(text: &str) -> io::Result<()> {
    match text.len() as u64 > MAX_FILE_BYTES {
        true => Err(io::Error::other(format!("it is larger than {MAX_FILE_BYTES} bytes"))),
        false => Ok(()),
    }
}

/// A command as one text.
fn key(command: &[String]) -> String {
    serde_json::to_string(command).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_pin_is_found_by_its_command() {
        let dir = std::env::temp_dir().join(format!("sandboxd-pins-{}", uuid::Uuid::new_v4()));
        let file = PinFile::new(dir.join("deeper/pins.json"));
        let command = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(file.get(&command("npx a")).unwrap(), Pin::default());
        let pin = Pin { version: Some("1.2.3".into()), ..Pin::default() };
        file.put(&command("npx a"), &pin).unwrap();
        file.put(&command("npx b"), &Pin::default()).unwrap();
        assert_eq!(file.get(&command("npx a")).unwrap(), pin);
        assert_eq!(std::fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);
        let large = ToolDigests::from([("x".repeat(MAX_FILE_BYTES as usize), String::new())]);
        let large = Pin { tools: large, ..Pin::default() };
        assert!(file.put(&command("npx c"), &large).unwrap_err().to_string().contains("larger than"));
        assert_eq!(file.get(&command("npx a")).unwrap(), pin, "the file is unchanged");
        std::fs::write(&file.path, "no JSON").unwrap();
        let error = file.get(&command("npx a")).unwrap_err().to_string();
        assert!(error.contains("pins.json"), "{error}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
