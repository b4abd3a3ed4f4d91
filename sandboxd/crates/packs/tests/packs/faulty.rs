//! An object store that fails on request.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::Semaphore;

/// The store behind, and its faults.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: Arc<dyn ObjectStore>,
    /// Whether writes fail.
    pub(crate) cannot_put: AtomicBool,
    /// Whether a write fails after it was done.
    pub(crate) loses_answers: AtomicBool,
    /// Whether reads fail.
    pub(crate) cannot_get: AtomicBool,
    /// Reads of this object fail.
    pub(crate) unreadable: Mutex<Option<Path>>,
    /// Whether deletions fail.
    pub(crate) cannot_delete: AtomicBool,
    /// Whether ranges are returned without their last byte.
    pub(crate) reads_short: AtomicBool,
    /// Whether one bit of each range is flipped.
    pub(crate) flips_bits: AtomicBool,
    /// Writes that are done wait for a permit before they return.
    pub(crate) hold_puts: Mutex<Option<Arc<Semaphore>>>,
    /// Number of reads of ranges.
    pub(crate) reads: AtomicU64,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self {
            inner,
            cannot_put: AtomicBool::default(),
            loses_answers: AtomicBool::default(),
            cannot_get: AtomicBool::default(),
            unreadable: Mutex::default(),
            cannot_delete: AtomicBool::default(),
            reads_short: AtomicBool::default(),
            flips_bits: AtomicBool::default(),
            hold_puts: Mutex::default(),
            reads: AtomicU64::default(),
        }
    }
}

fn fail_if(fault: &AtomicBool) -> Result<()> {
    fail(fault.load(Ordering::SeqCst))
}

fn fail(has_fault: bool) -> Result<()> {
    match has_fault {
        true => Err(object_store::Error::Generic { store: "faulty", source: "injected".into() }),
        false => Ok(()),
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        fail_if(&self.cannot_put)?;
        let put = self.inner.put_opts(location, payload, opts).await?;
        let held = self.hold_puts.lock().unwrap().clone();
        if let Some(permits) = held {
            permits.acquire().await.unwrap().forget();
        }
        fail_if(&self.loses_answers)?;
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        fail_if(&self.cannot_get)?;
        fail(self.unreadable.lock().unwrap().as_ref() == Some(location))?;
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        fail_if(&self.cannot_get)?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        let mut read = self.inner.get_ranges(location, ranges).await?;
        for bytes in &mut read {
            if self.reads_short.load(Ordering::SeqCst) {
                bytes.truncate(bytes.len().saturating_sub(1));
            }
            if self.flips_bits.load(Ordering::SeqCst) {
                let mut flipped = bytes.to_vec();
                let middle = flipped.len() / 2;
                flipped[middle] ^= 4;
                *bytes = flipped.into();
            }
        }
        Ok(read)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match fail_if(&self.cannot_delete) {
            Ok(()) => self.inner.delete_stream(locations),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
