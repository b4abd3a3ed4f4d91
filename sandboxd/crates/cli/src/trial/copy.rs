//! The archive of a directory that is copied to a sandbox.
//!
//! Entries that an archive may not contain are skipped, such as a link to a program of this machine: a project with a virtual
//! environment of Python can still be tried.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use super::changes::leaves_the_directory;

/// Something that was not copied, and why.
pub(super) type Skipped = (PathBuf, &'static str);

/// Adds these entries of a directory to an archive, and sends those that it skips.
pub(super) fn add_all(
    archive: &mut tar::Builder<impl io::Write>,
    dir: &Path,
    paths: &[PathBuf],
    skipped: &Sender<Skipped>,
) -> io::Result<()> {
    for path in paths {
        if let Err(reason) = add(archive, dir, path)? {
            // If nothing receives it any more, the copy has failed already.
            let _ = skipped.send((path.clone(), reason));
        }
    }
    Ok(())
}

fn add(
    archive: &mut tar::Builder<impl io::Write>,
    dir: &Path,
    path: &Path,
) -> io::Result<Result<(), &'static str>> {
    let source = dir.join(path);
    let meta = match std::fs::symlink_metadata(&source) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err("it was removed meanwhile")),
        meta => meta?,
    };
    if meta.is_dir() {
        return archive.append_dir(path, &source).map(Ok);
    }
    if meta.is_symlink() {
        return match leaves_the_directory(path, &std::fs::read_link(&source)?) {
            true => Ok(Err("it is a link out of the directory")),
            false => archive.append_path_with_name(&source, path).map(Ok),
        };
    }
    if !meta.is_file() {
        return Ok(Err("it is neither a file, a directory nor a link"));
    }
    match std::fs::File::open(&source) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Err("it cannot be read")),
        Err(error) => Err(error),
        Ok(file) => {
            let meta = file.metadata()?;
            let mut header = tar::Header::new_gnu();
            header.set_metadata(&meta);
            header.set_size(meta.len());
            // Exactly as many bytes as the header says, also if the file grows or shrinks meanwhile.
            let content = file.chain(io::repeat(0)).take(meta.len());
            archive.append_data(&mut header, path, content).map(Ok)
        }
    }
}
