//! An object store that encrypts what it writes to another one.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::error::{Damage, system};
use crate::format::{self, HEADER_BYTES, Header, MAX_CONTENT_BYTES, Sealer, Segments};
use crate::headers::{Headers, Known};
use crate::key::Key;
use crate::names::Names;
use crate::read::read_within;

/// Folder of the objects.
const OBJECTS: &str = "objects";

/// An object store whose objects are encrypted objects of another store. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct SealedStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    sealer: Sealer,
    names: Names,
    headers: Headers,
}

impl SealedStore {
    /// The objects of a project, in the folder `project` of `store`.
    pub(crate) fn new(store: Arc<dyn ObjectStore>, project: &Path, key: &Key) -> Self {
        let (sealer, names) = (Sealer::new(key), Names::new(key));
        let folder = project.clone().join(OBJECTS);
        Self { inner: Arc::new(Inner { store, folder, sealer, names, headers: Headers::default() }) }
    }

    /// Where the object of a path is.
    fn sealed_path(&self, path: &Path) -> Path {
        let names = &self.inner.names;
        let first = path.parts().next();
        let group = names.group(first.as_ref().map(AsRef::as_ref).unwrap_or_default());
        self.inner.folder.clone().join(group).join(names.seal(path))
    }

    /// The object of a list entry. `None` if it is not an object of this store.
    fn listed(&self, meta: ObjectMeta) -> Option<ObjectMeta> {
        let path = self.inner.names.open(meta.location.filename()?)?;
        (self.sealed_path(&path) == meta.location).then(|| opened_meta(meta, path))
    }

    async fn put_sealed(&self, location: &Path, content: Bytes, opts: PutOptions) -> Result<PutResult> {
        if content.len() > MAX_CONTENT_BYTES {
            return Err(system(format!("an object of {} bytes is too large", content.len())));
        }
        let (sealing, name) = (Arc::clone(&self.inner), location.to_string());
        let sealed = tokio::task::spawn_blocking(move || {
            let salt = format::salt().map_err(system)?;
            sealing.sealer.seal(&name, salt, &content).map_err(system)
        });
        self.put_raw(location, sealed.await??, opts).await
    }

    /// Writes an encrypted object, and checks that the store has it: a pack that is missing is noticed before a snapshot refers
    /// to it.
    async fn put_raw(&self, location: &Path, sealed: Vec<u8>, opts: PutOptions) -> Result<PutResult> {
        let (path, len) = (self.sealed_path(location), sealed.len() as u64);
        self.inner.headers.remove(&path);
        let done = self.inner.store.put_opts(&path, PutPayload::from(sealed), opts).await?;
        let found = self.inner.store.head(&path).await?.size;
        match found == len {
            true => Ok(done),
            false => Err(system(format!("the store has {found} of the {len} bytes that were written"))),
        }
    }

    /// A whole encrypted object.
    async fn get_raw(&self, path: &Path, options: GetOptions) -> Result<(Vec<u8>, ObjectMeta)> {
        let found = self.inner.store.get_opts(path, options).await?;
        let meta = found.meta.clone();
        let bytes = read_within(found, format::sealed_len(MAX_CONTENT_BYTES)).await?;
        Ok((bytes.into(), meta))
    }

    async fn get_whole(&self, location: &Path, options: GetOptions) -> Result<(Bytes, ObjectMeta)> {
        let (sealed, meta) = self.get_raw(&self.sealed_path(location), options).await?;
        let content = self.open(location, sealed).await??;
        Ok((content, meta))
    }

    /// Decrypts a whole object, which was read.
    async fn open(&self, location: &Path, sealed: Vec<u8>) -> Result<Result<Bytes, Damage>> {
        let (opening, name) = (Arc::clone(&self.inner), location.to_string());
        let opened = tokio::task::spawn_blocking(move || opening.sealer.open(&name, sealed).map(Bytes::from));
        Ok(opened.await?)
    }

    /// The header of an object, and its encrypted size.
    async fn known(&self, path: &Path) -> Result<Known> {
        let range = (0..HEADER_BYTES as u64).into();
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        let found = match self.inner.store.get_opts(path, options).await {
            Ok(found) => found,
            Err(error @ object_store::Error::NotFound { .. }) => return Err(error),
            // A store has no range of an empty object.
            Err(error) => match self.inner.store.head(path).await {
                Ok(meta) if meta.size < HEADER_BYTES as u64 => return Err(Damage::Length.into()),
                _ => return Err(error),
            },
        };
        let sealed_bytes = found.meta.size;
        let header = Header::read(&read_within(found, HEADER_BYTES).await?, self.inner.sealer.key_id())?;
        let known = Known { header, sealed_bytes };
        self.inner.headers.insert(path, known.clone());
        Ok(known)
    }

    /// A range of an object, which ends at the object's end at the latest.
    async fn range(&self, location: &Path, range: Range<u64>) -> Result<Bytes> {
        let path = self.sealed_path(location);
        if let Some(known) = self.inner.headers.get(&path) {
            match self.range_of(location, &path, &known, range.clone()).await {
                Ok(bytes) => return Ok(bytes),
                // It may have been replaced since its header was read.
                Err(_) => self.inner.headers.remove(&path),
            }
        }
        let known = self.known(&path).await?;
        self.range_of(location, &path, &known, range).await
    }

    async fn range_of(
        &self,
        location: &Path,
        path: &Path,
        known: &Known,
        range: Range<u64>,
    ) -> Result<Bytes> {
        let len = format::content_len(known.sealed_bytes).ok_or(Damage::Length)?;
        if range.start >= len || range.is_empty() {
            return Err(system(format!("the range {range:?} is not in the {len} bytes of the object")));
        }
        let range = range.start..range.end.min(len);
        let segments = Segments::of(range.clone(), len);
        let options = GetOptions { range: Some(segments.sealed.clone().into()), ..GetOptions::default() };
        let found = self.inner.store.get_opts(path, options).await?;
        let sealed = read_within(found, format::sealed_len(MAX_CONTENT_BYTES)).await?;
        let (opening, name, header) = (Arc::clone(&self.inner), location.to_string(), known.header.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let skip = segments.skip;
            let opened = opening.sealer.open_segments(&name, &header, &segments, sealed.into())?;
            Ok::<_, Damage>((skip, Bytes::from(opened)))
        });
        let (skip, bytes) = opened.await??;
        let wanted = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        Ok(bytes.slice(skip..bytes.len().min(skip.saturating_add(wanted))))
    }
}

/// Metadata of an object. A size that no encrypted object has is 0; reading the object reports the damage.
fn opened_meta(meta: ObjectMeta, location: Path) -> ObjectMeta {
    ObjectMeta { location, size: format::content_len(meta.size).unwrap_or_default(), ..meta }
}

fn result(content: Bytes, meta: ObjectMeta, range: Range<u64>) -> GetResult {
    let payload = GetResultPayload::Stream(stream::iter([Ok(content)]).boxed());
    GetResult { payload, meta, range, attributes: Default::default(), extensions: Default::default() }
}

impl fmt::Display for SealedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "encrypted objects of {}", self.inner.store)
    }
}

#[async_trait]
impl ObjectStore for SealedStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.put_sealed(location, payload.into(), opts).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(unsupported("uploads in several parts"))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.head {
            let meta = self.inner.store.head(&self.sealed_path(location)).await?;
            let meta = opened_meta(meta, location.clone());
            return Ok(result(Bytes::new(), meta, 0..0));
        }
        let Some(range) = options.range.clone() else {
            let (content, meta) = self.get_whole(location, options).await?;
            let range = 0..content.len() as u64;
            return Ok(result(content, opened_meta(meta, location.clone()), range));
        };
        let meta = self.head(location).await?;
        let range = range.as_range(meta.size).map_err(system)?;
        let content = self.range(location, range.clone()).await?;
        Ok(result(content, meta, range))
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let mut found = Vec::with_capacity(ranges.len());
        for range in ranges {
            found.push(self.range(location, range.clone()).await?);
        }
        Ok(found)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let deleted = locations.then(move |location| {
            let store = store.clone();
            async move {
                let location = location?;
                let path = store.sealed_path(&location);
                store.inner.headers.remove(&path);
                store.inner.store.delete(&path).await?;
                Ok(location)
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let first = prefix.and_then(|prefix| prefix.parts().next());
        let folder = self.inner.folder.clone();
        let folder = match &first {
            Some(first) => folder.join(self.inner.names.group(first.as_ref())),
            None => folder,
        };
        let (store, prefix) = (self.clone(), prefix.cloned().unwrap_or_default());
        let found = self.inner.store.list(Some(&folder)).try_filter_map(move |meta| {
            let listed = store.listed(meta).filter(|meta| meta.location.prefix_matches(&prefix));
            futures::future::ready(Ok(listed))
        });
        found.boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        // The store has no folders of encrypted paths.
        Err(unsupported("lists of folders"))
    }

    /// An object that cannot be decrypted is copied as it is.
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        if !matches!(options.mode, CopyMode::Overwrite) {
            return Err(unsupported("copies that do not replace"));
        }
        let (sealed, _) = self.get_raw(&self.sealed_path(from), GetOptions::default()).await?;
        let done = match self.open(from, sealed.clone()).await? {
            Ok(content) => self.put_sealed(to, content, PutOptions::default()).await,
            Err(_) => self.put_raw(to, sealed, PutOptions::default()).await,
        };
        done.map(drop)
    }
}

fn unsupported(what: &str) -> object_store::Error {
    object_store::Error::NotSupported {
        source: format!("{what} are not supported by an encrypted store").into(),
    }
}
