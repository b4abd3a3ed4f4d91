//! From a sandbox to this machine.
//!
//! What comes is hostile: its names, its links and how much it is. An archive is unpacked where nothing else is, by a
//! library that follows no link of it out of there, and takes its place when it is whole.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use sandbox_api::files::FileKind;
use sandbox_client::{ArchiveFormat, FileContent};
use tokio_util::io::{StreamReader, SyncIoBridge};

use super::progress::{bar, shown};
use super::remote::Remote;

/// Copies a file or a directory; a file also to `-`, standard output.
pub(super) async fn copy(from: &Remote, to: &str, draw: bool) -> anyhow::Result<()> {
    let info = from.client.stat_file(&from.sandbox, &from.path).await?;
    if info.kind == FileKind::Directory {
        anyhow::ensure!(to != "-", "a directory cannot go to standard output");
        let target = target(Path::new(to), &from.path)?;
        return unpack(from, &target, draw).await;
    }
    let content = from.client.get_file(&from.sandbox, &from.path, None).await?;
    let bar = bar(draw, &from.path, content.length());
    let mut reader = StreamReader::new(Box::pin(shown(content, bar.clone()).map_err(io::Error::other)));
    if to == "-" {
        tokio::io::copy(&mut reader, &mut tokio::io::stdout()).await?;
        return Ok(());
    }
    let target = target(Path::new(to), &from.path)?;
    let part = beside(&target)?;
    let mut file = tokio::fs::File::from_std(part.as_file().try_clone()?);
    tokio::io::copy(&mut reader, &mut file).await?;
    file.sync_all().await?;
    // Of a link there is no mode that says anything.
    set_mode(part.path(), if info.kind == FileKind::File { info.mode } else { 0o644 })?;
    part.persist(&target).with_context(|| format!("{} cannot be written", target.display()))?;
    bar.finish_and_clear();
    Ok(())
}

/// In a directory that is there it keeps its name.
fn target(to: &Path, from: &str) -> anyhow::Result<PathBuf> {
    if !to.is_dir() {
        return Ok(to.to_owned());
    }
    let name = Path::new(from).file_name().map_or_else(|| "workspace".into(), ToOwned::to_owned);
    Ok(to.join(name))
}

async fn unpack(from: &Remote, target: &Path, draw: bool) -> anyhow::Result<()> {
    let content = from.client.pack_files(&from.sandbox, &from.path, ArchiveFormat::TarZst).await?;
    let bar = bar(draw, &from.path, None);
    let parent = parent_of(target);
    let staging = tempfile::Builder::new().prefix(".sandboxd-cp-").tempdir_in(parent);
    let staging = staging.with_context(|| format!("{} cannot be written to", parent.display()))?;
    let reader = compressed(content, bar.clone());
    let dir = staging.path().to_owned();
    tokio::task::spawn_blocking(move || {
        let mut archive = tar::Archive::new(zstd::Decoder::new(SyncIoBridge::new(reader))?);
        archive.set_preserve_permissions(false);
        archive.unpack(&dir)
    })
    .await??;
    settle(staging, target)?;
    bar.finish_and_clear();
    Ok(())
}

fn compressed(content: FileContent, bar: indicatif::ProgressBar) -> impl tokio::io::AsyncRead + Send + Unpin {
    StreamReader::new(Box::pin(shown(content, bar).map_err(io::Error::other)).boxed())
}

/// A directory that is not there yet appears at once; what is there takes up what comes.
fn settle(staging: tempfile::TempDir, target: &Path) -> anyhow::Result<()> {
    set_mode(staging.path(), 0o755)?;
    if !target.exists() {
        std::fs::rename(staging.path(), target)
            .with_context(|| format!("{} cannot be made", target.display()))?;
        // It is not where it was, so there is nothing to remove.
        let _ = staging.keep();
        return Ok(());
    }
    merge(staging.path(), target)
        .with_context(|| format!("{} could not be written to its end", target.display()))
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

fn beside(target: &Path) -> anyhow::Result<tempfile::NamedTempFile> {
    let parent = parent_of(target);
    tempfile::Builder::new()
        .prefix(".sandboxd-cp-")
        .tempfile_in(parent)
        .with_context(|| format!("{} cannot be written to", parent.display()))
}

fn parent_of(target: &Path) -> &Path {
    target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode & 0o777))
}
