//! Writes the changes of a trial back.
//!
//! Everything from the sandbox is hostile: names, links and sizes. The changed files are received completely before
//! anything in the directory changes. No step follows a link out of the directory ([`cap_std`]). What cannot be applied is
//! skipped and reported; the sandbox is kept then, so nothing is lost.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Permissions, PermissionsExt};
use tar::{Archive, Entry, EntryType};

use super::baseline::Baseline;
use super::changes::{Plan, leaves_the_directory, plain, runs_programs};

/// Permission bits that a file keeps.
const MODE_BITS: u32 = 0o777;

/// Maximum size of all changed files in bytes. A file with holes can be larger than the sandbox's disk.
const MAX_BYTES: u64 = 16 << 30;

/// Why something was skipped.
type Reason = String;

/// Result of an application.
#[derive(Debug, Default)]
pub(super) struct Applied {
    pub(super) written: usize,
    pub(super) removed: usize,
    /// Skipped changes, with the reasons.
    pub(super) skipped: Vec<(PathBuf, Reason)>,
}

/// The changed files, in a temporary directory beside those that they replace.
#[derive(Debug)]
pub(super) struct Staged {
    dir: tempfile::TempDir,
    /// Received changes that are not applied, with the reasons.
    rejected: HashMap<PathBuf, Reason>,
}

impl Staged {
    /// Receives the wanted entries of an archive of the workspace.
    pub(super) fn receive(target: &Path, wanted: &[PathBuf], archive: impl Read) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix(".sandboxd-try-").tempdir_in(target)?;
        let staging = Dir::open_ambient_dir(dir.path(), ambient_authority())?;
        let wanted: HashSet<&Path> = wanted.iter().map(PathBuf::as_path).collect();
        let mut rejected = HashMap::new();
        let mut bytes = 0_u64;
        for entry in Archive::new(archive).entries()? {
            let mut entry = entry?;
            let Some(path) = plain(&entry.path()?) else { continue };
            if !wanted.contains(path.as_path()) {
                continue;
            }
            bytes = bytes.saturating_add(entry.size());
            if bytes > MAX_BYTES {
                let problem = format!("the changed files have more than {} GiB", MAX_BYTES >> 30);
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
            }
            if let Err(reason) = stage(&staging, &path, &mut entry)? {
                rejected.insert(path, reason.into());
            }
        }
        Ok(Self { dir, rejected })
    }

    /// Changes the directory. What has changed since it was copied is skipped.
    pub(super) fn apply(self, target: &Path, plan: &Plan, baseline: &Baseline) -> io::Result<Applied> {
        let applier = Applier {
            staging: Dir::open_ambient_dir(self.dir.path(), ambient_authority())?,
            dir: Dir::open_ambient_dir(target, ambient_authority())?,
            target,
            plan,
            baseline,
            rejected: self.rejected,
        };
        Ok(applier.apply())
    }
}

/// What an application needs.
struct Applier<'a> {
    staging: Dir,
    dir: Dir,
    target: &'a Path,
    plan: &'a Plan,
    baseline: &'a Baseline,
    rejected: HashMap<PathBuf, Reason>,
}

impl Applier<'_> {
    /// Writes first and removes then: what was renamed is removed only after it was written under its new name.
    fn apply(&self) -> Applied {
        let mut applied = Applied::default();
        let mut skipped = HashSet::new();
        for path in &self.plan.written {
            let is_below_skipped = path.ancestors().skip(1).any(|above| skipped.contains(above));
            let result = match is_below_skipped {
                true => Err("its directory is skipped".into()),
                false => self.write(path),
            };
            if result.is_err() {
                skipped.insert(path.as_path());
            }
            applied.note(path, result, |applied| &mut applied.written);
        }
        // The entries of a directory before the directory itself.
        for path in self.plan.removed.iter().rev() {
            let renamed_to = self.plan.renamed.get(path);
            let result = match renamed_to.is_some_and(|to| skipped.contains(to.as_path())) {
                true => Err("its new name is skipped".into()),
                false => self.remove(path),
            };
            applied.note(path, result, |applied| &mut applied.removed);
        }
        applied
    }

    fn check(&self, path: &Path) -> Result<(), Reason> {
        if let Some(reason) = self.rejected.get(path) {
            return Err(reason.clone());
        }
        if runs_programs(path) {
            return Err("git on this machine may run programs because of it".into());
        }
        match self.baseline.is_unchanged(self.target, path) {
            Ok(true) => Ok(()),
            Ok(false) => Err("it has changed since it was copied".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Moves an entry to its place. A directory is created there, because its entries follow one by one.
    fn write(&self, path: &Path) -> Result<(), Reason> {
        self.check(path)?;
        let new = match self.staging.symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err("the sandbox did not send it".into());
            }
            new => new.map_err(text)?,
        };
        let old = self.dir.symlink_metadata(path).ok();
        let is_dir_now = old.as_ref().is_some_and(|old| old.is_dir());
        if new.is_dir() {
            if old.is_some() && !is_dir_now {
                self.dir.remove_file(path).map_err(text)?;
            }
            return self.dir.create_dir_all(path).map_err(text);
        }
        if is_dir_now {
            // The sandbox has removed its entries, and created something else at the path.
            for inside in self.plan.removed.iter().rev().filter(|inside| inside.starts_with(path)) {
                if !self.plan.renamed.contains_key(inside) {
                    self.remove(inside)?;
                }
            }
            self.remove_entry(path)?;
        }
        if let Some(parent) = path.parent() {
            self.dir.create_dir_all(parent).map_err(text)?;
        }
        self.staging.rename(path, &self.dir, path).map_err(text)
    }

    fn remove(&self, path: &Path) -> Result<(), Reason> {
        // Its place may have been taken by what the sandbox has written.
        if self.plan.written.binary_search_by(|written| written.as_path().cmp(path)).is_ok() {
            return Ok(());
        }
        match self.dir.symlink_metadata(path) {
            Err(error) if is_absent(&error) => return Ok(()),
            _ => self.check(path)?,
        }
        self.remove_entry(path)
    }

    fn remove_entry(&self, path: &Path) -> Result<(), Reason> {
        let meta = match self.dir.symlink_metadata(path) {
            Err(error) if is_absent(&error) => return Ok(()),
            meta => meta.map_err(text)?,
        };
        if !meta.is_dir() {
            return self.dir.remove_file(path).map_err(text);
        }
        match self.dir.remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Err("it has entries that the copy did not have".into())
            }
            removed => removed.map_err(text),
        }
    }
}

/// In place of a directory above it there may be a file by now.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn text(error: io::Error) -> Reason {
    error.to_string()
}

impl Applied {
    fn note(
        &mut self,
        path: &Path,
        result: Result<(), Reason>,
        counter: impl FnOnce(&mut Self) -> &mut usize,
    ) {
        match result {
            Ok(()) => *counter(self) += 1,
            Err(reason) => self.skipped.push((path.to_owned(), reason)),
        }
    }
}

/// Writes one entry to the temporary directory. The inner error is why the entry cannot be applied.
fn stage(
    staging: &Dir,
    path: &Path,
    entry: &mut Entry<'_, impl Read>,
) -> io::Result<Result<(), &'static str>> {
    if let Some(parent) = path.parent() {
        staging.create_dir_all(parent)?;
    }
    match entry.header().entry_type() {
        EntryType::Directory => staging.create_dir_all(path)?,
        EntryType::Regular => {
            let mut file = staging.create(path)?;
            io::copy(entry, &mut file)?;
            let mode = entry.header().mode()? & MODE_BITS;
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        EntryType::Symlink => {
            let Some(link) = entry.link_name()? else { return Ok(Err("its link has no target")) };
            if leaves_the_directory(path, &link) {
                return Ok(Err("it is a link out of the directory"));
            }
            staging.symlink(&link, path)?;
        }
        _ => return Ok(Err("it is neither a file, a directory nor a link")),
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use sandbox_api::snapshot::ChangeKind;
    use tar::{Builder, Header};

    use super::super::changes::tests::change;
    use super::*;

    fn header(kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_size(size);
        header
    }

    fn file(archive: &mut Builder<Vec<u8>>, path: &str, text: &str) {
        let mut header = header(EntryType::Regular, text.len() as u64);
        // As `Builder` would not write it.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        archive.append(&header, text.as_bytes()).unwrap();
    }

    fn link(archive: &mut Builder<Vec<u8>>, path: &str, target: &str) {
        archive.append_link(&mut header(EntryType::Symlink, 0), path, target).unwrap();
    }

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    fn applied(dir: &Path, plan: &Plan, archive: Builder<Vec<u8>>) -> Applied {
        let baseline = Baseline::of(dir).unwrap();
        let archive = archive.into_inner().unwrap();
        Staged::receive(dir, &plan.written, &archive[..]).unwrap().apply(dir, plan, &baseline).unwrap()
    }

    #[test]
    fn nothing_hostile_leaves_the_directory() {
        let temp = tempfile::tempdir().unwrap();
        let (dir, outside) = (temp.path().join("dir"), temp.path().join("outside"));
        fs::create_dir(&dir).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink(&outside, dir.join("mine")).unwrap();
        let mut archive = Builder::new(Vec::new());
        file(&mut archive, "../outside/a", "hostile");
        file(&mut archive, "/outside/b", "hostile");
        link(&mut archive, "up", "../outside");
        link(&mut archive, "absolute", outside.to_str().unwrap());
        link(&mut archive, "inside", "./c");
        file(&mut archive, "unwanted", "hostile");
        file(&mut archive, "suid", "text");
        let written = paths(&["up", "absolute", "inside", "suid", "missing"]);
        let done = applied(&dir, &Plan { written, ..Plan::default() }, archive);
        assert_eq!((done.written, done.skipped.len()), (2, 3), "{done:?}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(fs::read_link(dir.join("inside")).unwrap().to_str(), Some("./c"));
        let mode = fs::metadata(dir.join("suid")).unwrap().permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o7777, 0o755);
        assert!(fs::symlink_metadata(dir.join("unwanted")).is_err());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3, "the temporary directory is gone");
    }

    /// A link of the user's that leads out is replaced, and never followed.
    #[test]
    fn a_link_of_the_directory_is_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let (dir, outside) = (temp.path().join("dir"), temp.path().join("outside"));
        fs::create_dir(&dir).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "theirs").unwrap();
        symlink(outside.join("file"), dir.join("file")).unwrap();
        symlink(&outside, dir.join("below")).unwrap();
        let mut archive = Builder::new(Vec::new());
        file(&mut archive, "file", "new");
        file(&mut archive, "below/file", "new");
        let plan = Plan { written: paths(&["file"]), ..Plan::default() };
        applied(&dir, &plan, archive);
        assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "new");
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "theirs");
        let mut archive = Builder::new(Vec::new());
        file(&mut archive, "below/new", "new");
        let plan =
            Plan { written: paths(&["below/new"]), removed: paths(&["below/file"]), ..Plan::default() };
        let done = applied(&dir, &plan, archive);
        assert_eq!((done.written, done.removed, done.skipped.len()), (0, 0, 2), "{done:?}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }

    /// An incomplete archive changes nothing.
    #[test]
    fn an_archive_that_breaks_off_changes_nothing() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("a"), "old").unwrap();
        let mut archive = Builder::new(Vec::new());
        file(&mut archive, "a", "new");
        file(&mut archive, "b", &"x".repeat(5000));
        let archive = archive.into_inner().unwrap();
        Staged::receive(temp.path(), &paths(&["a", "b"]), &archive[..3000]).unwrap_err();
        assert_eq!(fs::read_to_string(temp.path().join("a")).unwrap(), "old");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_renamed_into_a_new_directory() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("a"), "text").unwrap();
        let plan = Plan::new(&[
            change(ChangeKind::Renamed, "new/a", Some("a")),
            change(ChangeKind::Added, "new", None),
        ]);
        let mut archive = Builder::new(Vec::new());
        file(&mut archive, "new/a", "text");
        archive.append_data(&mut header(EntryType::Directory, 0), "new", &[][..]).unwrap();
        let done = applied(temp.path(), &plan, archive);
        assert_eq!((done.written, done.removed, done.skipped.len()), (2, 1, 0), "{done:?}");
        assert_eq!(fs::read_to_string(temp.path().join("new/a")).unwrap(), "text");
        assert!(!temp.path().join("a").exists());
    }

    /// If a file cannot be written, the original of a renamed file is kept.
    #[test]
    fn a_renamed_file_is_never_lost() {
        let temp = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::write(temp.path().join(name), name).unwrap();
        }
        let renamed = |from: &str, to: &str| change(ChangeKind::Renamed, to, Some(from));
        let plan =
            Plan::new(&[renamed("a", "taken"), renamed("b", "missing"), renamed("c", "bad\u{fffd}name")]);
        let baseline = Baseline::of(temp.path()).unwrap();
        fs::write(temp.path().join("taken"), "mine").unwrap();
        let mut archive = Builder::new(Vec::new());
        file(&mut archive, "taken", "a");
        let archive = archive.into_inner().unwrap();
        let staged = Staged::receive(temp.path(), &plan.written, &archive[..]).unwrap();
        let done = staged.apply(temp.path(), &plan, &baseline).unwrap();
        assert_eq!((done.written, done.removed), (0, 0), "{done:?}");
        for (name, text) in [("a", "a"), ("b", "b"), ("c", "c"), ("taken", "mine")] {
            assert_eq!(fs::read_to_string(temp.path().join(name)).unwrap(), text);
        }
    }

    #[test]
    fn a_directory_becomes_a_file_and_a_file_a_directory() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("dir")).unwrap();
        fs::write(temp.path().join("dir/inside"), "x").unwrap();
        fs::write(temp.path().join("file"), "x").unwrap();
        let plan = Plan {
            written: paths(&["dir", "file", "file/inside"]),
            removed: paths(&["dir", "dir/inside"]),
            ..Plan::default()
        };
        let mut archive = Builder::new(Vec::new());
        file(&mut archive, "dir", "now a file");
        archive.append_data(&mut header(EntryType::Directory, 0), "file", &[][..]).unwrap();
        file(&mut archive, "file/inside", "new");
        let done = applied(temp.path(), &plan, archive);
        assert!(done.skipped.is_empty(), "{done:?}");
        assert_eq!(fs::read_to_string(temp.path().join("dir")).unwrap(), "now a file");
        assert_eq!(fs::read_to_string(temp.path().join("file/inside")).unwrap(), "new");
    }

    #[test]
    fn what_makes_git_run_programs_is_skipped() {
        let temp = tempfile::tempdir().unwrap();
        let written = paths(&[".git/HEAD", ".git/config", ".git/hooks/pre-commit", "sub/.GIT/config"]);
        let mut archive = Builder::new(Vec::new());
        for path in &written {
            file(&mut archive, path.to_str().unwrap(), "text");
        }
        let done = applied(temp.path(), &Plan { written, ..Plan::default() }, archive);
        assert_eq!((done.written, done.skipped.len()), (1, 3), "{done:?}");
    }
}
