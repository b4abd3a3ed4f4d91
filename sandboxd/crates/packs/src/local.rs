//! A directory as an object store whose changes survive a power loss.
//!
//! `object_store` writes a file beside its place, syncs it, renames it and syncs the directory if asked to. It does not
//! sync a deletion, and never removes the files of writes that a crash interrupted. This store does both.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use crate::Error;
use crate::path::{PACKS, QUARANTINE, prefix_of_byte};

/// A directory that is an object store.
#[derive(Debug)]
pub(crate) struct LocalStore {
    files: Arc<LocalFileSystem>,
}

impl LocalStore {
    /// Opens or creates the directory `root`, which only this user may read. Its parent must exist.
    pub(crate) fn open(root: &FsPath) -> std::result::Result<Self, Error> {
        let fail = |source| Error::Directory { path: root.to_owned(), source };
        prepare(root).map_err(fail)?;
        let files = LocalFileSystem::new_with_prefix(root).map_err(|error| fail(io::Error::other(error)))?;
        Ok(Self { files: Arc::new(files.with_fsync(true)) })
    }
}

/// Creates the directories, so that writers never create one at the same time: the second would not wait until the
/// first has synced it.
fn prepare(root: &FsPath) -> io::Result<()> {
    create_private(root)?;
    let packs = root.join(PACKS);
    create_private(&packs)?;
    create_private(&root.join(QUARANTINE))?;
    for byte in 0..=u8::MAX {
        let dir = packs.join(prefix_of_byte(byte));
        create_private(&dir)?;
        remove_interrupted(&dir)?;
    }
    sync(&packs)?;
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_interrupted(&entry.path())?;
        }
    }
    sync(root)?;
    root.parent().map_or(Ok(()), sync)
}

fn create_private(dir: &FsPath) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        created => created,
    }
}

/// Removes files of writes that a crash interrupted: `name#1`. `object_store` does not list them.
fn remove_interrupted(dir: &FsPath) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((_, number)) = name.to_str().and_then(|name| name.rsplit_once('#')) else { continue };
        if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn sync(dir: &FsPath) -> io::Result<()> {
    // The parent of a relative path of one name is empty.
    let dir = if dir.as_os_str().is_empty() { FsPath::new(".") } else { dir };
    File::open(dir)?.sync_all()
}

/// Syncs the directory of a deleted file.
async fn sync_parent(file: PathBuf) -> Result<()> {
    let synced = tokio::task::spawn_blocking(move || file.parent().map_or(Ok(()), sync)).await?;
    synced.map_err(|source| object_store::Error::Generic { store: "directory", source: source.into() })
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for LocalStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.files.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.files.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.files.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let files = Arc::clone(&self.files);
        let deleted = self.files.delete_stream(locations);
        let synced = deleted.then(move |deleted| {
            let files = Arc::clone(&files);
            async move {
                let location = deleted?;
                sync_parent(files.path_to_filesystem(&location)?).await?;
                Ok(location)
            }
        });
        synced.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.files.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::ObjectStoreExt;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn files_of_interrupted_writes_are_removed_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("snapshots");
        let store = LocalStore::open(&root).unwrap();
        store.put(&Path::from("snapshots/snap_1"), "kept".into()).await.unwrap();
        for name in ["packs/ab/x#1", "snapshots/snap_2#12", "quarantine/y#3"] {
            fs::write(root.join(name), "cut off").unwrap();
        }
        let store = LocalStore::open(&root).unwrap();
        assert!(!root.join("packs/ab/x#1").exists() && !root.join("snapshots/snap_2#12").exists());
        assert!(!root.join("quarantine/y#3").exists());
        assert!(store.head(&Path::from("snapshots/snap_1")).await.is_ok());
        assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[tokio::test]
    async fn a_deleted_object_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::open(&dir.path().join("packs")).unwrap();
        let path = Path::from("snapshots/a");
        store.put(&path, "content".into()).await.unwrap();
        store.delete(&path).await.unwrap();
        assert!(matches!(store.head(&path).await, Err(object_store::Error::NotFound { .. })));
    }
}
