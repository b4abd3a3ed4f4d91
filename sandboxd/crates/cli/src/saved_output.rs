//! Files on this machine with outputs that were too long to be printed.
//!
//! They are in the user's cache: others cannot read them, and the oldest are removed. Their content is untrusted.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use futures::StreamExt;
use sandbox_api::{CommandId, SandboxId};
use sandbox_client::Client;

/// Maximum size of one file in bytes. The daemon does not keep more of an output.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of files that are kept.
const MAX_FILES: usize = 32;

/// Maximum size of all files that are kept, except the newest, in bytes.
const MAX_KEPT_BYTES: u64 = 256 * 1024 * 1024;

/// Begin and end of the names of the files. No other files are removed.
const PREFIX: &str = "output-";
const SUFFIX: &str = ".log";

/// A file that was written.
pub(super) struct SavedOutput {
    /// Its absolute path.
    pub(super) path: PathBuf,
    /// Its size.
    pub(super) bytes: u64,
    /// Whether it has all that the command has written, as the daemon counts it.
    pub(super) is_whole: bool,
}

/// Copies an output file of a sandbox, and then removes old copies.
pub(super) async fn save(client: &Client, sandbox: &SandboxId, source: &str) -> anyhow::Result<SavedOutput> {
    let dir = cache_dir().context("neither XDG_CACHE_HOME nor HOME is set")?;
    let failed = || format!("{} cannot be written", dir.display());
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).with_context(failed)?;
    let file = tempfile::Builder::new().prefix(PREFIX).suffix(SUFFIX).tempfile_in(&dir);
    let mut file = file.with_context(failed)?;
    let mut content = client.get_file(sandbox, source, None).await?;
    let mut bytes = 0;
    while let Some(piece) = content.next().await {
        let piece = piece?;
        let room = usize::try_from(MAX_FILE_BYTES - bytes).unwrap_or(usize::MAX);
        let piece = &piece[..piece.len().min(room)];
        file.write_all(piece).with_context(failed)?;
        bytes += piece.len() as u64;
        if bytes == MAX_FILE_BYTES {
            break;
        }
    }
    let (_, path) = file.keep().with_context(failed)?;
    // Files that cannot be removed now are removed the next time.
    let _ = remove_old(&dir, &path);
    Ok(SavedOutput { path, bytes, is_whole: written_bytes(client, sandbox, source).await == Some(bytes) })
}

/// How much the command of an output file has written. The file is named after it.
async fn written_bytes(client: &Client, sandbox: &SandboxId, source: &str) -> Option<u64> {
    let command: CommandId = Path::new(source).file_stem()?.to_str()?.parse().ok()?;
    let command = client.inspect(sandbox, &command).await.ok()?;
    Some(command.stdout_bytes + command.stderr_bytes)
}

fn cache_dir() -> Option<PathBuf> {
    let dir = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let cache = dir("XDG_CACHE_HOME").or_else(|| dir("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("sandboxd/outputs"))
}

/// Removes the oldest files beyond [`MAX_FILES`] and [`MAX_KEPT_BYTES`], but not the newest.
fn remove_old(dir: &Path, newest: &Path) -> io::Result<()> {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
        if !is_ours || entry.path() == newest {
            continue;
        }
        // Another program may have removed it.
        let Ok(meta) = fs::symlink_metadata(entry.path()) else { continue };
        if meta.is_file() {
            files.push((meta.modified()?, meta.len(), entry.path()));
        }
    }
    files.sort_unstable_by(|one, other| other.cmp(one));
    let mut kept_bytes = 0;
    for (at, (_, bytes, path)) in files.iter().enumerate() {
        kept_bytes += bytes;
        if at + 1 >= MAX_FILES || kept_bytes > MAX_KEPT_BYTES {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    fn write(dir: &Path, name: &str, bytes: u64, age_secs: u64) -> PathBuf {
        let path = dir.join(name);
        let file = File::create(&path).unwrap();
        file.set_len(bytes).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age_secs)).unwrap();
        path
    }

    #[test]
    fn the_oldest_files_are_removed_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let newest = write(dir.path(), "output-new.log", MAX_KEPT_BYTES * 2, 0);
        let kept: Vec<_> = (1..MAX_FILES as u64)
            .map(|age| write(dir.path(), &format!("output-{age}.log"), 1, age))
            .collect();
        let old = write(dir.path(), "output-old.log", 1, 1000);
        let other = write(dir.path(), "notes.log", 1, 2000);
        remove_old(dir.path(), &newest).unwrap();
        assert!(newest.exists() && other.exists() && kept.iter().all(|file| file.exists()) && !old.exists());

        let large = write(dir.path(), "output-large.log", MAX_KEPT_BYTES, 10_000);
        remove_old(dir.path(), &newest).unwrap();
        assert!(!large.exists() && kept.iter().all(|file| file.exists()));
    }
}
