//! A provider with a concurrent writer: each time a file has been read, a command changes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bash_tools::provider::{
    Command, Content, Download, FileList, FilePart, Opened, Provider, Result, Running, SandboxId, Status,
};
use bash_tools::session::ChatKey;
use bytes::Bytes;
use futures::StreamExt;

pub(super) struct ConcurrentWriter {
    inner: Arc<dyn Provider>,
    script: &'static str,
    /// The number of changes it will make.
    left: AtomicUsize,
}

impl ConcurrentWriter {
    pub(super) fn new(inner: &Arc<dyn Provider>, script: &'static str, times: usize) -> Arc<Self> {
        Arc::new(Self { inner: Arc::clone(inner), script, left: AtomicUsize::new(times) })
    }
}

#[async_trait]
impl Provider for ConcurrentWriter {
    async fn open(&self, key: &ChatKey) -> Result<Opened> {
        self.inner.open(key).await
    }

    async fn find(&self, key: &ChatKey) -> Result<Option<SandboxId>> {
        self.inner.find(key).await
    }

    async fn run(&self, sandbox: &SandboxId, command: Command) -> Result<Running> {
        self.inner.run(sandbox, command).await
    }

    async fn read_file(
        &self,
        sandbox: &SandboxId,
        path: &str,
        offset: u64,
        max_bytes: usize,
    ) -> Result<FilePart> {
        let read = self.inner.read_file(sandbox, path, offset, max_bytes).await;
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            let command = Command::new(self.script, Duration::from_secs(20));
            self.inner.run(sandbox, command).await?.for_each(|event| async { drop(event.unwrap()) }).await;
        }
        read
    }

    async fn write_file(&self, sandbox: &SandboxId, path: &str, content: Bytes) -> Result<()> {
        self.inner.write_file(sandbox, path, content).await
    }

    async fn replace_file(
        &self,
        sandbox: &SandboxId,
        path: &str,
        was: &FilePart,
        content: Bytes,
    ) -> Result<()> {
        self.inner.replace_file(sandbox, path, was, content).await
    }

    async fn list_files(&self, sandbox: &SandboxId, path: &str, cursor: Option<&str>) -> Result<FileList> {
        self.inner.list_files(sandbox, path, cursor).await
    }

    async fn download(&self, sandbox: &SandboxId, path: &str) -> Result<Download> {
        self.inner.download(sandbox, path).await
    }

    async fn upload(&self, sandbox: &SandboxId, path: &str, bytes: u64, content: Content) -> Result<()> {
        self.inner.upload(sandbox, path, bytes, content).await
    }

    async fn remove_file(&self, sandbox: &SandboxId, path: &str) -> Result<()> {
        self.inner.remove_file(sandbox, path).await
    }

    async fn status(&self, sandbox: &SandboxId) -> Result<Status> {
        self.inner.status(sandbox).await
    }

    async fn park(&self, sandbox: &SandboxId) -> Result<()> {
        self.inner.park(sandbox).await
    }

    async fn unpack(&self, sandbox: &SandboxId, archive: Content) -> Result<()> {
        self.inner.unpack(sandbox, archive).await
    }

    async fn url(&self, sandbox: &SandboxId, port: u16) -> Result<String> {
        self.inner.url(sandbox, port).await
    }

    async fn release(&self, sandbox: &SandboxId) -> Result<()> {
        self.inner.release(sandbox).await
    }

    async fn delete(&self, sandbox: &SandboxId) -> Result<()> {
        self.inner.delete(sandbox).await
    }
}
