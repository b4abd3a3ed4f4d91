//! Copies from a sandbox to this machine.
//!
//! The data is untrusted: its names, its links and its size. An archive is unpacked into an empty temporary directory,
//! by a library that follows no link out of it. It is moved to the target when it is complete.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use sandbox_api::files::FileKind;
use sandbox_client::{ArchiveFormat, FileContent};
use tokio_util::io::{StreamReader, SyncIoBridge};

use super::remote_path::RemotePath;
use crate::progress::{progress_bar, with_progress};

/// Copies a file or a directory. A file can be copied to standard output, `-`.
pub(super) async fn copy(from: &RemotePath, to: &str, show_progress: bool) -> anyhow::Result<()> {
    let info = from.client.stat_file(&from.sandbox, &from.path).await?;
    if info.kind == FileKind::Directory {
        anyhow::ensure!(to != "-", "a directory cannot be copied to standard output");
        let target = target(Path::new(to), &from.path)?;
        return unpack(from, &target, show_progress).await;
    }
    let content = from.client.get_file(&from.sandbox, &from.path, None).await?;
    let bar = progress_bar(show_progress, &from.path, content.length());
    let mut reader =
        StreamReader::new(Box::pin(with_progress(content, bar.clone()).map_err(io::Error::other)));
    if to == "-" {
        tokio::io::copy(&mut reader, &mut tokio::io::stdout()).await?;
        return Ok(());
    }
    let target = target(Path::new(to), &from.path)?;
    let temporary = temporary_file_beside(&target)?;
    let mut file = tokio::fs::File::from_std(temporary.as_file().try_clone()?);
    tokio::io::copy(&mut reader, &mut file).await?;
    file.sync_all().await?;
    // The mode of a link is meaningless.
    set_mode(temporary.path(), if info.kind == FileKind::File { info.mode } else { 0o644 })?;
    temporary.persist(&target).with_context(|| format!("{} cannot be written", target.display()))?;
    bar.finish_and_clear();
    Ok(())
}

/// Target path of the copy. In an existing directory, the copy keeps the name of the original.
fn target(to: &Path, from: &str) -> anyhow::Result<PathBuf> {
    if !to.is_dir() {
        return Ok(to.to_owned());
    }
    let name = Path::new(from).file_name().map_or_else(|| "workspace".into(), ToOwned::to_owned);
    Ok(to.join(name))
}

async fn unpack(from: &RemotePath, target: &Path, show_progress: bool) -> anyhow::Result<()> {
    let content = from.client.pack_files(&from.sandbox, &from.path, ArchiveFormat::TarZst).await?;
    let bar = progress_bar(show_progress, &from.path, None);
    let parent = parent_of(target);
    let staging = tempfile::Builder::new().prefix(".sandboxd-cp-").tempdir_in(parent);
    let staging = staging.with_context(|| format!("{} is not writable", parent.display()))?;
    let reader = compressed_reader(content, bar.clone());
    let dir = staging.path().to_owned();
    tokio::task::spawn_blocking(move || {
        let mut archive = tar::Archive::new(zstd::Decoder::new(SyncIoBridge::new(reader))?);
        archive.set_preserve_permissions(false);
        archive.unpack(&dir)
    })
    .await??;
    move_to_target(staging, target)?;
    bar.finish_and_clear();
    Ok(())
}

fn compressed_reader(
    content: FileContent,
    bar: indicatif::ProgressBar,
) -> impl tokio::io::AsyncRead + Send + Unpin {
    StreamReader::new(Box::pin(with_progress(content, bar).map_err(io::Error::other)).boxed())
}

/// Renames the temporary directory to the target, or merges it into an existing target.
fn move_to_target(staging: tempfile::TempDir, target: &Path) -> anyhow::Result<()> {
    set_mode(staging.path(), 0o755)?;
    if !target.exists() {
        std::fs::rename(staging.path(), target)
            .with_context(|| format!("{} cannot be created", target.display()))?;
        // The directory was moved, so there is nothing to remove.
        let _ = staging.keep();
        return Ok(());
    }
    merge(staging.path(), target).with_context(|| format!("{} is only partly written", target.display()))
}

fn merge(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let is_dir_here = std::fs::symlink_metadata(&target).is_ok_and(|meta| meta.is_dir());
        if entry.file_type()?.is_dir() && is_dir_here {
            merge(&entry.path(), &target)?;
        } else {
            std::fs::rename(entry.path(), target)?;
        }
    }
    Ok(())
}

fn temporary_file_beside(target: &Path) -> anyhow::Result<tempfile::NamedTempFile> {
    let parent = parent_of(target);
    tempfile::Builder::new()
        .prefix(".sandboxd-cp-")
        .tempfile_in(parent)
        .with_context(|| format!("{} is not writable", parent.display()))
}

fn parent_of(target: &Path) -> &Path {
    target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode & 0o777))
}
