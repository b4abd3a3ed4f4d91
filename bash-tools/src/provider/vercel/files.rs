//! Files of a sandbox: written in gzip-compressed archives, read as bytes.

use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use tokio::time::timeout;

use super::Vercel;
use super::api::broken;
use super::call::{Call, TRANSFER, path};
use super::fault::Fault;
use super::wire::ReadFile;
use crate::provider::{Content, Download, Error, FilePart, Result as Answer, SandboxId, WORKSPACE};

/// Maximum length of a file that is written at once.
const MAX_WRITE_BYTES: usize = 64 * 1024 * 1024;

/// Permission bits of a written file.
const MODE: u32 = 0o644;

impl Vercel {
    /// The API has no ranges, so bytes before the requested part are read and discarded.
    pub(super) async fn read_part(
        &self,
        sandbox: &SandboxId,
        file: &str,
        offset: u64,
        max_bytes: usize,
    ) -> Answer<FilePart> {
        let response = self.fetch(sandbox, file).await?;
        let part = timeout(TRANSFER, part(response, offset, max_bytes)).await;
        Ok(part.unwrap_or(Err(Fault::Deadline { after: TRANSFER }))?)
    }

    pub(super) async fn open_file(&self, sandbox: &SandboxId, file: &str) -> Answer<Download> {
        let response = self.fetch(sandbox, file).await?;
        let bytes = response.content_length();
        let content = response.bytes_stream().map(|part| Ok(part.map_err(broken)?));
        Ok(Download { bytes, content: content.boxed() })
    }

    async fn fetch(&self, sandbox: &SandboxId, file: &str) -> Answer<reqwest::Response> {
        let request = ReadFile { path: file, cwd: WORKSPACE };
        let read = |session: Arc<str>| {
            let call = Call::post(path(&["sessions", &session, "fs", "read"])).json(&request);
            async move { self.api.send(&call).await }
        };
        match self.in_session(sandbox, read).await {
            Err(fault) if fault.is_not_found() => Err(self.no_file(sandbox, file).await),
            response => Ok(response?),
        }
    }

    /// The API returns the same response for a missing file and a missing sandbox.
    async fn no_file(&self, sandbox: &SandboxId, file: &str) -> Error {
        match self.exists(sandbox).await {
            Ok(true) => Error::NoFile { path: file.to_owned() },
            Ok(false) => Error::Gone,
            Err(fault) => fault.into(),
        }
    }

    pub(super) async fn write_whole(&self, sandbox: &SandboxId, file: &str, content: Bytes) -> Answer<()> {
        if content.len() > MAX_WRITE_BYTES {
            let message = format!("{file} must be at most {MAX_WRITE_BYTES} bytes long");
            return Err(Error::Refused { message });
        }
        let Some(entry) = entry_of(file) else {
            return Err(Error::Refused { message: format!("{file:?} is not a path of a file") });
        };
        let archive = tokio::task::spawn_blocking(move || archive_of(&entry, &content)).await;
        let archive = archive.map_err(|error| Error::Broken(error.into()))?;
        let archive = archive.map_err(|error| Error::Unreadable(error.into()))?;
        let write = |session: Arc<str>| {
            let call = Call::post(path(&["sessions", &session, "fs", "write"]));
            let call = call.archive(archive.clone(), "/").within(TRANSFER);
            async move { self.api.done(&call).await }
        };
        Ok(self.in_session(sandbox, write).await?)
    }

    /// Collected first, because an archive declares the length of a file, and the length that a browser declares is
    /// not trusted.
    pub(super) async fn write_stream(
        &self,
        sandbox: &SandboxId,
        file: &str,
        bytes: u64,
        mut content: Content,
    ) -> Answer<()> {
        let too_long =
            || Error::Refused { message: format!("{file} must be at most {MAX_WRITE_BYTES} bytes long") };
        if bytes > MAX_WRITE_BYTES as u64 {
            return Err(too_long());
        }
        let mut whole = BytesMut::new();
        while let Some(part) = content.next().await {
            whole.extend_from_slice(&part.map_err(|error| Error::Unreadable(error.into()))?);
            if whole.len() > MAX_WRITE_BYTES {
                return Err(too_long());
            }
        }
        self.write_whole(sandbox, file, whole.freeze()).await
    }

    pub(super) async fn unpack_stream(&self, sandbox: &SandboxId, archive: Content) -> Answer<()> {
        // The content can be sent only once, so conditions that would need a retry are checked first.
        let (session, _) = self.wake(sandbox).await?;
        let unreadable = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&unreadable);
        let archive = archive.map(move |part| {
            part.inspect_err(|error| {
                let copied = std::io::Error::new(error.kind(), error.to_string());
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(copied);
            })
        });
        let into = path(&["sessions", &session, "fs", "write"]);
        let sent = self.api.upload(into, WORKSPACE, reqwest::Body::wrap_stream(archive)).await;
        match unreadable.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(Fault::Unreadable(error).into()),
            None => Ok(sent?),
        }
    }
}

async fn part(mut response: reqwest::Response, offset: u64, max_bytes: usize) -> Result<FilePart, Fault> {
    let total_bytes = response.content_length();
    let (mut seen, mut bytes) = (0u64, BytesMut::new());
    while let Some(mut part) = response.chunk().await.map_err(broken)? {
        let skip = offset.saturating_sub(seen).min(part.len() as u64);
        seen += part.len() as u64;
        // At most the length of the part, so it fits into memory.
        let part = part.split_off(skip as usize);
        let wanted = (max_bytes - bytes.len()).min(part.len());
        bytes.extend_from_slice(&part[..wanted]);
        if bytes.len() == max_bytes {
            return Ok(FilePart { bytes: bytes.freeze(), total_bytes, etag: None });
        }
    }
    Ok(FilePart { bytes: bytes.freeze(), total_bytes: Some(seen), etag: None })
}

/// Absolute path, as Vercel's own client writes it. `None` if it has no file name.
fn entry_of(file: &str) -> Option<PathBuf> {
    if matches!(file.rsplit('/').next(), None | Some("" | "." | "..")) || file.contains('\0') {
        return None;
    }
    let mut entry = PathBuf::new();
    for component in Path::new(WORKSPACE).join(file).components() {
        match component {
            Component::Normal(name) => entry.push(name),
            Component::ParentDir => drop(entry.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(entry)
}

fn archive_of(entry: &Path, content: &[u8]) -> std::io::Result<Bytes> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(MODE);
    archive.append_data(&mut header, entry, content)?;
    let mut gzip = archive.into_inner()?;
    gzip.flush()?;
    gzip.finish().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_path_from_the_root() {
        let entry = |file: &str| entry_of(file).map(|it| it.to_str().unwrap().to_owned());
        assert_eq!(entry("a/b.txt").unwrap(), "vercel/sandbox/workspace/a/b.txt");
        assert_eq!(entry("./a").unwrap(), "vercel/sandbox/workspace/a");
        assert_eq!(entry("../a.").unwrap(), "vercel/sandbox/a.");
        assert_eq!(entry("/tmp/a").unwrap(), "tmp/a");
        assert_eq!(entry("/../../a").unwrap(), "a");
        for bad in ["", "/", ".", "..", "a/", "a/..", "a/.", "a\0b", "../../../.."] {
            assert_eq!(entry(bad), None, "{bad:?}");
        }
    }
}
