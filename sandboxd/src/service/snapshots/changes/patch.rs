//! A change of one file in the form that git and patch(1) apply.

use std::io::Write;

use snapshot_format::{Entry, Kind};
use unified_diff::{Limits, TooManyLines, quoted, quoted_in_head};

use crate::model::limits;

/// How the text of a file differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Diff {
    /// A patch with names relative to the workspace.
    Patch(Vec<u8>),
    /// There is no patch.
    Omitted(Omitted),
}

/// Why a change has no patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Omitted {
    /// One of the contents is not text: it has a NUL byte, or a hole.
    Binary,
    /// One of the contents, or what differs, is too large.
    TooLarge,
    /// A patch cannot express it: a hard link, a named pipe or a socket.
    Special,
    /// Only metadata differs that a patch cannot express.
    Metadata,
    /// It is not in the workspace.
    Outside,
    /// It is in a directory `.git`.
    Git,
}

/// A file or symbolic link on one side of a patch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    /// Its path in the workspace.
    pub(super) name: &'a [u8],
    pub(super) mode: Mode,
    /// Its bytes, or where the link leads.
    pub(super) text: &'a [u8],
}

/// A mode that git knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    File,
    Executable,
    Link,
}

impl Mode {
    /// The mode of an entry. `None` if a patch cannot express it.
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        match entry.kind() {
            Kind::File if entry.mode & 0o100 != 0 => Some(Self::Executable),
            Kind::File => Some(Self::File),
            Kind::SymbolicLink => Some(Self::Link),
            Kind::HardLink | Kind::Fifo | Kind::Socket | Kind::Directory | Kind::Unspecified => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
        }
    }
}

/// Writes the patch of a change. A file that becomes a link, or the reverse, is removed and created.
pub(super) fn patch(old: Option<Side<'_>>, new: Option<Side<'_>>) -> Diff {
    let parts = match (old, new) {
        (Some(old), Some(new)) if (old.mode == Mode::Link) != (new.mode == Mode::Link) => {
            vec![(Some(old), None), (None, Some(new))]
        }
        sides => vec![sides],
    };
    let mut out = Vec::new();
    for (old, new) in parts {
        let before = old.map_or(&[][..], |side| side.text);
        let after = new.map_or(&[][..], |side| side.text);
        let limits = Limits { max_lines: limits::MAX_DIFF_LINES, search: limits::DIFF_SEARCH };
        match unified_diff::hunks(before, after, limits) {
            Ok(hunks) => write_part(&mut out, old, new, &hunks),
            Err(TooManyLines { .. }) => return Diff::Omitted(Omitted::TooLarge),
        }
    }
    if out.is_empty() { Diff::Omitted(Omitted::Metadata) } else { Diff::Patch(out) }
}

/// Writes nothing if neither text, name nor mode differs.
fn write_part(out: &mut Vec<u8>, old: Option<Side<'_>>, new: Option<Side<'_>>, hunks: &[u8]) {
    let mut head = Vec::new();
    match (old, new) {
        (None, Some(new)) => line(&mut head, "new file mode ", new.mode.as_str()),
        (Some(old), None) => line(&mut head, "deleted file mode ", old.mode.as_str()),
        (Some(old), Some(new)) => {
            if old.mode != new.mode {
                line(&mut head, "old mode ", old.mode.as_str());
                line(&mut head, "new mode ", new.mode.as_str());
            }
            if old.name != new.name {
                line(&mut head, "similarity index ", "100%");
                line(&mut head, "rename from ", &quoted(old.name));
                line(&mut head, "rename to ", &quoted(new.name));
            }
        }
        (None, None) => {}
    }
    if head.is_empty() && hunks.is_empty() {
        return;
    }
    let name_of = |side: Option<Side<'_>>, other: Option<Side<'_>>| {
        side.or(other).map(|side| side.name.to_vec()).unwrap_or_default()
    };
    let old_name = [b"a/", &name_of(old, new)[..]].concat();
    let new_name = [b"b/", &name_of(new, old)[..]].concat();
    line(out, "diff --git ", &format!("{} {}", quoted(&old_name), quoted(&new_name)));
    out.extend(head);
    if !hunks.is_empty() {
        let shown = |side: Option<Side<'_>>, name: &[u8]| match side {
            Some(_) => quoted_in_head(name),
            None => "/dev/null".into(),
        };
        line(out, "--- ", &shown(old, &old_name));
        line(out, "+++ ", &shown(new, &new_name));
        out.extend_from_slice(hunks);
    }
}

fn line(out: &mut Vec<u8>, key: &str, value: &str) {
    // Writing to memory does not fail.
    let _ = writeln!(out, "{key}{value}");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::*;

    type Files = BTreeMap<Vec<u8>, (Mode, Vec<u8>)>;

    fn files(files: &[(&[u8], Mode, &[u8])]) -> Files {
        files.iter().map(|(name, mode, text)| (name.to_vec(), (*mode, text.to_vec()))).collect()
    }

    fn write_all(dir: &Path, files: &Files) {
        for (name, (mode, text)) in files {
            let path = dir.join(OsStr::from_bytes(name));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            if *mode == Mode::Link {
                symlink(OsStr::from_bytes(text), path).unwrap();
                continue;
            }
            std::fs::write(&path, text).unwrap();
            let bits = if *mode == Mode::Executable { 0o755 } else { 0o644 };
            std::fs::set_permissions(&path, PermissionsExt::from_mode(bits)).unwrap();
        }
    }

    fn read_all(dir: &Path, below: &Path, found: &mut Files) {
        for entry in std::fs::read_dir(dir.join(below)).unwrap() {
            let entry = entry.unwrap();
            let (path, kind) = (below.join(entry.file_name()), entry.file_type().unwrap());
            let name = path.as_os_str().as_bytes().to_vec();
            if kind.is_dir() {
                read_all(dir, &path, found);
            } else if kind.is_symlink() {
                let target = std::fs::read_link(entry.path()).unwrap();
                found.insert(name, (Mode::Link, target.into_os_string().into_encoded_bytes()));
            } else {
                let is_executable = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
                let mode = if is_executable { Mode::Executable } else { Mode::File };
                found.insert(name, (mode, std::fs::read(entry.path()).unwrap()));
            }
        }
    }

    /// The patch of all differences. `renames` are the new names of files.
    fn patch_of(old: &Files, new: &Files, renames: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut add = |from: &[u8], to: &[u8]| {
            let side = |files: &Files, name: &[u8]| files.get(name).map(|(mode, text)| (*mode, text.clone()));
            let (old, new) = (side(old, from), side(new, to));
            let old = old.as_ref().map(|(mode, text)| Side { name: from, mode: *mode, text });
            let new = new.as_ref().map(|(mode, text)| Side { name: to, mode: *mode, text });
            match patch(old, new) {
                Diff::Patch(patch) => out.extend(patch),
                Diff::Omitted(omitted) => assert_eq!(omitted, Omitted::Metadata),
            }
        };
        renames.iter().for_each(|(from, to)| add(from, to));
        let is_renamed = |name: &&Vec<u8>| !renames.iter().any(|(from, to)| name == from || name == to);
        let names: std::collections::BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
        names.into_iter().filter(is_renamed).for_each(|name| add(name, name));
        out
    }

    fn applied(program: &[&str], old: &Files, patch: &[u8]) -> Files {
        let dir = tempfile::tempdir().unwrap();
        write_all(dir.path(), old);
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).current_dir(dir.path()).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(patch).unwrap();
        drop(stdin);
        assert!(child.wait().unwrap().success(), "{program:?}: {}", String::from_utf8_lossy(patch));
        let mut found = Files::new();
        read_all(dir.path(), Path::new(""), &mut found);
        found
    }

    fn applies(old: &Files, new: &Files, renames: &[(&[u8], &[u8])]) {
        let patch = patch_of(old, new, renames);
        for program in [&["git", "apply"][..], &["patch", "-p1", "--binary", "--no-backup-if-mismatch"]] {
            let found = applied(program, old, &patch);
            assert_eq!(&found, new, "{program:?}: {}", String::from_utf8_lossy(&patch));
        }
    }

    #[test]
    fn git_and_patch_apply_changes_of_texts_with_any_name() {
        let old = files(&[
            (b"plain", Mode::File, b"one\ntwo\nthree\n"),
            (b"a dir/with spaces", Mode::File, b"old\n"),
            (b"quote\"d \\ name", Mode::File, b"old\n"),
            (b"line\nbreak\tand tab", Mode::File, b"old"),
            (b"latin\xe9", Mode::File, b"caf\xe9\r\nx\r\n"),
            ("žluťoučký kůň".as_bytes(), Mode::File, b"old\n"),
            (b"gone", Mode::File, b"gone\n"),
            (b"same", Mode::File, b"same\n"),
        ]);
        let new = files(&[
            (b"plain", Mode::File, b"one\n2\nthree\n"),
            (b"a dir/with spaces", Mode::File, b"new\n"),
            (b"quote\"d \\ name", Mode::File, b"new\n"),
            (b"line\nbreak\tand tab", Mode::File, b"new"),
            (b"latin\xe9", Mode::File, b"caf\xe9\nx\r\n"),
            ("žluťoučký kůň".as_bytes(), Mode::File, b"new\n"),
            (b"same", Mode::File, b"same\n"),
            (b"new dir/new \xff", Mode::Executable, b"#!/bin/sh\n"),
        ]);
        applies(&old, &new, &[]);
        applies(&new, &old, &[]);
    }

    #[test]
    fn git_and_patch_apply_modes_renames_and_empty_files() {
        let old = files(&[
            (b"script", Mode::File, b"echo\n"),
            (b"both", Mode::File, b"echo 1\n"),
            (b"old name", Mode::File, b"moved\n"),
            (b"old \"name\"", Mode::File, b"moved too\n"),
            (b"emptied", Mode::File, b"x\n"),
            (b"filled", Mode::File, b""),
        ]);
        let new = files(&[
            (b"script", Mode::Executable, b"echo\n"),
            (b"both", Mode::Executable, b"echo 2\n"),
            (b"dir/new name", Mode::File, b"moved\n"),
            (b"\xffnew", Mode::Executable, b"moved too\n"),
            (b"empty", Mode::File, b""),
            (b"filled", Mode::File, b"y\n"),
            (b"emptied", Mode::File, b""),
        ]);
        let renames: [(&[u8], &[u8]); 2] = [(b"old name", b"dir/new name"), (b"old \"name\"", b"\xffnew")];
        let patch = patch_of(&old, &new, &renames);
        assert_eq!(applied(&["git", "apply"], &old, &patch), new, "{}", String::from_utf8_lossy(&patch));
    }

    #[test]
    fn git_applies_symbolic_links() {
        let old = files(&[
            (b"moved", Mode::Link, b"a"),
            (b"file", Mode::File, b"x\n"),
            (b"link", Mode::Link, b"b"),
        ]);
        let new = files(&[
            (b"moved", Mode::Link, b"c d"),
            (b"file", Mode::Link, b"e"),
            (b"link", Mode::File, b"y"),
        ]);
        let patch = patch_of(&old, &new, &[]);
        assert_eq!(applied(&["git", "apply"], &old, &patch), new, "{}", String::from_utf8_lossy(&patch));
    }
}
