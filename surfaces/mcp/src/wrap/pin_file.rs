//! The file in which `sandboxd mcp --wrap` remembers versions and approved tools.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::tools::ToolDigests;

/// Maximum length of the file in bytes.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// What is remembered of a server.
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

    /// What is remembered of the server with this command. Nothing is remembered of a new one.
    pub(super) fn get(&self, command: &[String]) -> Result<Pin, PinError> {
        Ok(self.read().map_err(|source| self.error(source))?.remove(&key(command)).unwrap_or_default())
    }

    /// Remembers a server. Another process that writes at the same time may be overwritten.
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
        file.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Replaces the file in one step.
    fn write(&self, pins: &Pins) -> io::Result<()> {
        if let Some(parent) = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent)?;
        }
        let new = self.path.with_extension(format!("{}.new", std::process::id()));
        let mut file = std::fs::File::create(&new)?;
        file.write_all(serde_json::to_string_pretty(pins)?.as_bytes())?;
        std::fs::rename(&new, &self.path)
    }

    fn error(&self, source: io::Error) -> PinError {
        PinError { path: self.path.clone(), source }
    }
}

/// A command as one text.
fn key(command: &[String]) -> String {
    serde_json::to_string(command).unwrap_or_default()
}

#[cfg(test)]
mod tests {
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
        std::fs::write(&file.path, "no JSON").unwrap();
        let error = file.get(&command("npx a")).unwrap_err().to_string();
        assert!(error.contains("pins.json"), "{error}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
