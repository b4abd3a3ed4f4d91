//! The definitions of all volumes, one file each, so that they outlive the plugin's process and the engine's.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::definition::{Definition, VolumeName};
use crate::fault::Fault;
use crate::limits;

const SUFFIX: &str = ".json";

/// Prefix of a file that is being written. No volume's name begins with a dot.
const PARTIAL: &str = ".new-";

/// A directory of definitions.
#[derive(Debug)]
pub(crate) struct Definitions {
    dir: PathBuf,
}

impl Definitions {
    /// Opens the directory, and removes files that an interrupted process has not finished.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(PARTIAL)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(Self { dir: dir.to_owned() })
    }

    /// Adds a definition. Idempotent. When it returns, the definition survives a loss of power.
    pub(crate) fn add(&self, name: &VolumeName, definition: &Definition) -> Result<(), Fault> {
        match self.get(name) {
            Ok(found) if found == *definition => return Ok(()),
            Ok(_) => return Err(Fault::Different),
            Err(Fault::Absent) => {}
            Err(other) => return Err(other),
        }
        if self.names()?.len() >= limits::VOLUMES {
            return Err(Fault::TooMany);
        }
        let text = serde_json::to_vec(definition).map_err(Fault::Definition)?;
        self.write(name, &text).map_err(Fault::io("write the volume's definition"))
    }

    fn write(&self, name: &VolumeName, text: &[u8]) -> io::Result<()> {
        let partial = self.dir.join(format!("{PARTIAL}{}", name.as_str()));
        let mut file = File::create(&partial)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&partial, self.path(name))?;
        self.sync()
    }

    pub(crate) fn get(&self, name: &VolumeName) -> Result<Definition, Fault> {
        let read = || {
            let mut text = Vec::new();
            File::open(self.path(name))?.take(limits::DEFINITION_BYTES).read_to_end(&mut text)?;
            Ok(text)
        };
        let text = read().map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Fault::Absent,
            _ => Fault::io("read the volume's definition")(error),
        })?;
        serde_json::from_slice(&text).map_err(Fault::Definition)
    }

    /// Removes a definition. Idempotent.
    pub(crate) fn remove(&self, name: &VolumeName) -> Result<(), Fault> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(Fault::io("remove the volume's definition"))?,
        }
        self.sync().map_err(Fault::io("remove the volume's definition"))
    }

    /// The names of all volumes, in order.
    pub(crate) fn names(&self) -> Result<Vec<VolumeName>, Fault> {
        let list = || -> io::Result<Vec<VolumeName>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.dir)? {
                let file = entry?.file_name();
                let name = file.to_str().and_then(|file| file.strip_suffix(SUFFIX));
                names.extend(name.and_then(|name| VolumeName::parse(name).ok()));
            }
            names.sort();
            Ok(names)
        };
        list().map_err(Fault::io("list the volumes"))
    }

    fn path(&self, name: &VolumeName) -> PathBuf {
        self.dir.join(format!("{}{SUFFIX}", name.as_str()))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn definition(uid: &str) -> Definition {
        let options = [("disk", "dsk_1"), ("base", &"0".repeat(64)), ("uid", uid)];
        let options: BTreeMap<_, _> = options.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        Definition::from_options(&options).unwrap()
    }

    #[test]
    fn definitions_outlive_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (VolumeName::parse("one").unwrap(), VolumeName::parse("two.json").unwrap());
        let definitions = Definitions::open(dir.path()).unwrap();
        definitions.add(&two, &definition("2")).unwrap();
        definitions.add(&one, &definition("1")).unwrap();
        definitions.add(&one, &definition("1")).unwrap();
        assert!(matches!(definitions.add(&one, &definition("3")), Err(Fault::Different)));
        fs::write(dir.path().join(".new-three"), "{").unwrap();

        let definitions = Definitions::open(dir.path()).unwrap();
        assert_eq!(definitions.names().unwrap(), [one.clone(), two.clone()]);
        assert_eq!(definitions.get(&two).unwrap(), definition("2"));
        assert!(!dir.path().join(".new-three").exists());
        definitions.remove(&one).unwrap();
        definitions.remove(&one).unwrap();
        assert!(matches!(definitions.get(&one), Err(Fault::Absent)));
        assert_eq!(definitions.names().unwrap(), [two]);
    }

    #[test]
    fn a_damaged_definition_is_reported_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let name = VolumeName::parse("one").unwrap();
        let definitions = Definitions::open(dir.path()).unwrap();
        fs::write(dir.path().join("one.json"), "{").unwrap();
        assert!(matches!(definitions.get(&name), Err(Fault::Definition(_))));
        assert!(matches!(definitions.add(&name, &definition("1")), Err(Fault::Definition(_))));
        assert_eq!(fs::read(dir.path().join("one.json")).unwrap(), b"{");
    }
}
