//! Files of a workspace.
//!
//! A path is relative to the workspace or absolute and beneath it; it is bytes, because names are, so anything that is
//! text or bytes will do. Where it leads is decided in the sandbox.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderValue, IF_MATCH, IF_NONE_MATCH, RANGE};
use reqwest::{Method, RequestBuilder, Response};
use sandbox_api::files::{
    ArchiveUnpacked, DirMade, EditFile, FileDeleted, FileEdited, FileInfo, FileList, FileRead, FileWritten,
    GlobFiles, GlobFound, GrepFiles, GrepFound, MakeDir, MoveFile, WriteFiles,
};
use sandbox_api::{Done, SandboxId};
use tokio::io::AsyncRead;
use tokio_util::io::{ReaderStream, StreamReader};

use crate::{ACT, Client, Error, TRANSFER, UNLIMITED, json, send};

/// How a file is written; by default with the mode it has or 0644, whatever is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteOptions<'a> {
    /// Permission bits, 0 to 0o777.
    pub mode: Option<u32>,
    /// Only if the file has this etag now; `*` is any.
    pub if_match: Option<&'a str>,
    /// Only if there is nothing.
    pub if_absent: bool,
    /// Wait until the file would outlive a crash of the machine.
    pub durable: bool,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteRange {
    /// From the first byte to the last, both counted from 0.
    Span(u64, u64),
    /// From a byte to the end.
    From(u64),
    /// So many bytes of the end.
    Last(u64),
}

/// How an archive is packed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// Not compressed.
    #[default]
    Tar,
    /// With gzip.
    TarGz,
    /// With zstd.
    TarZst,
}

impl ArchiveFormat {
    fn name(self) -> &'static str {
        match self {
            Self::Tar => "tar",
            Self::TarGz => "tar.gz",
            Self::TarZst => "tar.zst",
        }
    }
}

/// What is sent as a file: bytes, text, or what [`upload`] and [`upload_stream`] make.
pub type Upload = reqwest::Body;

/// A file to be sent, from a reader.
pub fn upload(reader: impl AsyncRead + Send + 'static) -> Upload {
    Upload::wrap_stream(ReaderStream::new(reader))
}

/// A file to be sent, from a stream of its pieces. Where that fails, nothing is written.
pub fn upload_stream(
    pieces: impl Stream<Item = Result<Bytes, impl Into<Box<dyn std::error::Error + Send + Sync>> + 'static>>
    + Send
    + 'static,
) -> Upload {
    Upload::wrap_stream(pieces)
}

impl Client {
    /// Writes all of the files or none. Safe to repeat.
    pub async fn write_files(&self, sandbox: &SandboxId, files: &WriteFiles) -> Result<Done, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:write"), files), TRANSFER).await
    }

    /// A whole file of at most 50 MiB; `None` where there is none.
    pub async fn read_file(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let read: FileRead = json(self.files(Method::GET, sandbox, ":read", path), TRANSFER).await?;
        read.content_base64
            .map(|content| BASE64_STANDARD.decode(content))
            .transpose()
            .map_err(Error::BadContent)
    }

    /// Writes one file of any size. It appears at once and whole, or not at all. Safe to repeat without a condition.
    /// Has no deadline: the daemon ends an upload that stands still for a minute.
    pub async fn put_file(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
        content: impl Into<Upload>,
        options: WriteOptions<'_>,
    ) -> Result<FileWritten, Error> {
        let mut request = self.files(Method::PUT, sandbox, "", path).body(content);
        if let Some(mode) = options.mode {
            request = request.query(&[("mode", format!("{mode:o}"))]);
        }
        if options.durable {
            request = request.query(&[("durable", true)]);
        }
        if let Some(etag) = options.if_match {
            request =
                request.header(IF_MATCH, if etag == "*" { etag.to_owned() } else { format!("\"{etag}\"") });
        }
        if options.if_absent {
            request = request.header(IF_NONE_MATCH, "*");
        }
        json(request, UNLIMITED).await
    }

    /// Opens a file for reading, all of it or a part. Fails with `not_found` where there is none. Has no deadline.
    pub async fn get_file(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
        range: Option<ByteRange>,
    ) -> Result<FileContent, Error> {
        let mut request = self.files(Method::GET, sandbox, "", path);
        if let Some(range) = range {
            request = request.header(RANGE, range.to_header());
        }
        Ok(FileContent::new(send(request, UNLIMITED).await?))
    }

    /// What a path names, without following it.
    pub async fn stat_file(&self, sandbox: &SandboxId, path: impl AsRef<[u8]>) -> Result<FileInfo, Error> {
        json(self.files(Method::GET, sandbox, ":stat", path), ACT).await
    }

    /// A page of what is in a directory and `depth - 1` levels beneath, at most `limit` entries, from where the page
    /// with this cursor ended.
    pub async fn list_files(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
        depth: u32,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<FileList, Error> {
        let request =
            self.files(Method::GET, sandbox, ":list", path).query(&[("depth", depth), ("limit", limit)]);
        json(request.query(&cursor.map(|cursor| [("cursor", cursor)])), ACT).await
    }

    /// Makes a directory and what is missing above it. Safe to repeat.
    pub async fn make_dir(&self, sandbox: &SandboxId, path: impl Into<String>) -> Result<DirMade, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:mkdir"), &MakeDir { path: path.into() }), ACT)
            .await
    }

    /// Gives a file or directory another path.
    pub async fn move_file(&self, sandbox: &SandboxId, wish: &MoveFile) -> Result<Done, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:move"), wish), ACT).await
    }

    /// Removes a file or an empty directory, or with `recursive` a directory with all that is beneath.
    pub async fn delete_file(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
        recursive: bool,
    ) -> Result<FileDeleted, Error> {
        let request = self.files(Method::DELETE, sandbox, "", path).query(&[("recursive", recursive)]);
        json(request, TRANSFER).await
    }

    /// Replaces texts in a file, all of them or none.
    pub async fn edit_file(&self, sandbox: &SandboxId, wish: &EditFile) -> Result<FileEdited, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:edit"), wish), ACT).await
    }

    /// Packs what is at a path. Has no deadline.
    pub async fn pack_files(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
        format: ArchiveFormat,
    ) -> Result<FileContent, Error> {
        let request = self.files(Method::GET, sandbox, ":archive", path).query(&[("format", format.name())]);
        Ok(FileContent::new(send(request, UNLIMITED).await?))
    }

    /// Unpacks an archive (tar, plain or with gzip or zstd) into a directory: all of it or nothing. Safe to repeat. Has
    /// no deadline: the daemon ends an upload that stands still for a minute.
    pub async fn unpack_files(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
        archive: impl Into<Upload>,
    ) -> Result<ArchiveUnpacked, Error> {
        json(self.files(Method::PUT, sandbox, ":archive", path).body(archive), UNLIMITED).await
    }

    /// Lines that match. Looks, and changes nothing.
    pub async fn grep_files(&self, sandbox: &SandboxId, wish: &GrepFiles) -> Result<GrepFound, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:grep"), wish), ACT).await
    }

    /// Files and directories with a fitting path. Looks, and changes nothing.
    pub async fn glob_files(&self, sandbox: &SandboxId, wish: &GlobFiles) -> Result<GlobFound, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:glob"), wish), ACT).await
    }

    pub(crate) fn files(
        &self,
        method: Method,
        sandbox: &SandboxId,
        verb: &str,
        path: impl AsRef<[u8]>,
    ) -> RequestBuilder {
        let path = percent_encode(path.as_ref(), NON_ALPHANUMERIC);
        self.request(method, &format!("/v1/sandboxes/{sandbox}/files{verb}?path={path}"))
    }
}

impl ByteRange {
    fn to_header(self) -> String {
        match self {
            Self::Span(from, to) => format!("bytes={from}-{to}"),
            Self::From(from) => format!("bytes={from}-"),
            Self::Last(last) => format!("bytes=-{last}"),
        }
    }
}

/// A file or an archive as it comes: a stream of its pieces, or by [`FileContent::reader`] something to read from. One
/// that breaks off is an error and never looks like the end.
pub struct FileContent {
    length: Option<u64>,
    total: Option<u64>,
    etag: Option<String>,
    pieces: BoxStream<'static, reqwest::Result<Bytes>>,
}

impl FileContent {
    fn new(response: Response) -> Self {
        let header = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let length = header(CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let range = header(CONTENT_RANGE).and_then(|range| range.rsplit_once('/')?.1.parse().ok());
        let etag = header(ETAG).map(|etag| etag.trim_matches('"').to_owned());
        Self { length, total: range.or(length), etag, pieces: response.bytes_stream().boxed() }
    }

    /// How many bytes come, where that is known beforehand.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// How many bytes the whole file has, of which this may be a part; where that is known beforehand.
    pub fn total_bytes(&self) -> Option<u64> {
        self.total
    }

    /// Of the whole file as it was opened.
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// All of it, at most `max_bytes`; fails with [`Error::TooLong`] where there is more.
    pub async fn bytes(mut self, max_bytes: usize) -> Result<Vec<u8>, Error> {
        let mut content = Vec::new();
        while let Some(piece) = self.try_next().await? {
            if content.len() + piece.len() > max_bytes {
                return Err(Error::TooLong { limit: max_bytes });
            }
            content.extend_from_slice(&piece);
        }
        Ok(content)
    }

    /// The same, to be read from.
    pub fn reader(self) -> impl AsyncRead + Send + Unpin {
        StreamReader::new(self.pieces.map_err(io::Error::other))
    }
}

impl Stream for FileContent {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.pieces.as_mut().poll_next(context).map_err(Error::Broken)
    }
}

impl std::fmt::Debug for FileContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileContent")
            .field("length", &self.length)
            .field("total", &self.total)
            .field("etag", &self.etag)
            .finish_non_exhaustive()
    }
}
