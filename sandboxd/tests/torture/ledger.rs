//! The guarantees that one client has received, and the results that it must therefore find.

use std::collections::{BTreeMap, HashMap};

use sandbox_api::{SandboxId, SnapshotId};

use crate::tree::{TREE, difference};

/// Number of snapshots that are kept.
const SNAPSHOTS: usize = 6;

/// Contents of files by their paths. That of [`TREE`] is the description of the tree.
pub(crate) type Contents = BTreeMap<String, String>;

/// A client's knowledge of its session.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Its sandbox, once a response has named it.
    pub(crate) sandbox: Option<SandboxId>,
    /// A delete was requested and not answered.
    pub(crate) may_be_gone: bool,
    files: BTreeMap<String, File>,
    /// The last acknowledged snapshots, and what they have. They outlive the sandbox.
    snapshots: Vec<(SnapshotId, Contents)>,
    /// What the files are if an unanswered restore was finished. If it was undone, they are as before.
    restored: Option<Contents>,
    commands: BTreeMap<String, Started>,
}

#[derive(Debug, Default)]
struct File {
    /// As last acknowledged.
    content: Option<String>,
    /// Writes since then without a response. The file may contain any of them instead.
    maybe: Vec<String>,
}

#[derive(Debug, Default)]
struct Started {
    is_acknowledged: bool,
    /// Every running command may have ended since.
    may_be_lost: bool,
}

impl Ledger {
    /// Checks the response to a create. The error names the violation.
    pub(crate) fn got(&mut self, sandbox: &SandboxId, created: bool) -> Result<(), String> {
        let is_same = self.sandbox.as_ref() == Some(sandbox) && !created;
        let is_promised = self.sandbox.is_some() && !self.may_be_gone;
        let before = self.sandbox.replace(sandbox.clone());
        self.may_be_gone = false;
        if is_same {
            return Ok(());
        }
        self.files.clear();
        self.restored = None;
        self.commands.clear();
        match before {
            Some(before) if is_promised => {
                Err(format!("the session had {before} and now has {sandbox} (created: {created})"))
            }
            _ => Ok(()),
        }
    }

    /// Its sandbox has been deleted for certain.
    pub(crate) fn deleted(&mut self) {
        *self = Self { snapshots: std::mem::take(&mut self.snapshots), ..Self::default() };
    }

    /// The files, if all of them are known.
    pub(crate) fn contents(&self) -> Option<Contents> {
        if self.files.values().any(|file| !file.maybe.is_empty()) {
            return None;
        }
        let known = self.files.iter();
        Some(known.filter_map(|(path, file)| Some((path.clone(), file.content.clone()?))).collect())
    }

    pub(crate) fn snapshot_made(&mut self, id: SnapshotId, contents: Contents) {
        if self.snapshots.len() == SNAPSHOTS {
            self.snapshots.remove(0);
        }
        self.snapshots.push((id, contents));
    }

    /// A snapshot is about to be deleted, so nothing is known of it any more.
    pub(crate) fn discards(&mut self, at: usize) -> SnapshotId {
        self.snapshots.remove(at).0
    }

    pub(crate) fn snapshots(&self) -> &[(SnapshotId, Contents)] {
        &self.snapshots
    }

    /// A restore is requested. Whatever runs ends, and the marks are those of the snapshot.
    pub(crate) fn restores(&mut self, contents: Contents) {
        self.ends_all();
        self.restored = Some(contents);
    }

    /// The restore was rejected, so nothing has changed.
    pub(crate) fn did_not_restore(&mut self) {
        self.restored = None;
    }

    pub(crate) fn is_restore_unanswered(&self) -> bool {
        self.restored.is_some()
    }

    /// The restore is finished.
    pub(crate) fn restored(&mut self) {
        let Some(contents) = self.restored.take() else { return };
        self.files = contents
            .into_iter()
            .map(|(path, content)| (path, File { content: Some(content), maybe: Vec::new() }))
            .collect();
    }

    /// Checks the files after a restore that was not answered: all are as before, or all are those of the snapshot.
    pub(crate) fn found_after_restore(&mut self, found: &Contents) -> Result<(), String> {
        let is_finished = self.restored.as_ref() == Some(found);
        if is_finished {
            self.restored();
            return Ok(());
        }
        self.restored = None;
        if self.contents().as_ref() == Some(found) {
            return Ok(());
        }
        let paths: Vec<&String> = found.keys().collect();
        Err(format!("an unanswered restore left a mixture: {paths:?}"))
    }

    pub(crate) fn writes(&mut self, path: &str, content: &str) {
        self.files.entry(path.to_owned()).or_default().maybe.push(content.to_owned());
    }

    pub(crate) fn wrote(&mut self, path: &str) {
        let file = self.files.get_mut(path).unwrap();
        *file = File { content: file.maybe.pop(), maybe: Vec::new() };
    }

    pub(crate) fn did_not_write(&mut self, path: &str) {
        self.files.get_mut(path).unwrap().maybe.pop();
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.files.keys().filter(|path| *path != TREE).cloned().collect()
    }

    /// The tree is about to change, so nothing is known of it.
    pub(crate) fn changes_tree(&mut self) {
        self.files.remove(TREE);
    }

    /// Checks the tree. From now on it is known.
    pub(crate) fn found_tree(&mut self, found: String) -> Result<(), String> {
        let file = File { content: Some(found.clone()), maybe: Vec::new() };
        match self.files.insert(TREE.into(), file).and_then(|before| before.content) {
            Some(before) if before != found => Err(format!("the tree had {}", difference(&before, &found))),
            _ => Ok(()),
        }
    }

    /// Checks the result of a read. From now on it is the known content.
    pub(crate) fn read(&mut self, path: &str, found: Option<String>) -> Result<(), String> {
        let file = self.files.entry(path.to_owned()).or_default();
        if found == file.content || found.as_ref().is_some_and(|found| file.maybe.contains(found)) {
            *file = File { content: found, maybe: Vec::new() };
            return Ok(());
        }
        let short = |content: &Option<String>| content.as_ref().map(|content| start_of(content));
        Err(format!("{path} holds {:?} and not {:?}", short(&found), short(&file.content)))
    }

    pub(crate) fn starts(&mut self, command: &str) {
        self.commands.entry(command.to_owned()).or_default();
    }

    pub(crate) fn started(&mut self, command: &str) {
        self.commands.get_mut(command).unwrap().is_acknowledged = true;
    }

    /// A command whose start was not answered.
    pub(crate) fn unanswered(&self) -> Option<String> {
        let mut commands = self.commands.iter();
        commands.find(|(_, started)| !started.is_acknowledged).map(|(command, _)| command.clone())
    }

    /// Every running command ends with its container.
    pub(crate) fn ends_all(&mut self) {
        self.commands.values_mut().for_each(|started| started.may_be_lost = true);
    }

    /// Checks the marks of commands: at most one each, and one for each acknowledged command.
    pub(crate) fn check_marks(&self, marks: &str) -> Result<(), String> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        marks.lines().for_each(|mark| *counts.entry(mark).or_default() += 1);
        for (command, started) in &self.commands {
            let times = counts.get(command.as_str()).copied().unwrap_or_default();
            let must = started.is_acknowledged && !started.may_be_lost;
            if times > 1 || (must && times == 0) {
                return Err(format!("{command} ran {times} times ({started:?})"));
            }
        }
        Ok(())
    }
}

fn start_of(content: &str) -> String {
    content.chars().take(24).collect()
}
