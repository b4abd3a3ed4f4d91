//! Files of a workspace.
//!
//! A path is relative to the workspace, or absolute and inside it. Paths are bytes, because file names need not be
//! valid UTF-8. The sandbox resolves them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, RANGE,
};
use http::{Method, Response};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use sandbox_api::files::{
    ArchiveUnpacked, DirMade, EditFile, FileDeleted, FileEdited, FileInfo, FileLink, FileList, FileRead,
    FileWritten, GlobFiles, GlobFound, GrepFiles, GrepFound, LinkFile, MakeDir, MoveFile, WriteFiles,
};
use sandbox_api::{Done, FILE_SIZE_HEADER, SandboxId};
use tokio::io::AsyncRead;
use tokio_util::io::{ReaderStream, StreamReader};

use crate::deadlines::{ACT, TRANSFER, UNLIMITED};
use crate::request::{RequestBuilder, broken, json, send};
use crate::{Body, BoxError, Client, Error};

/// Options of a write. By default it replaces an existing file and keeps its mode, or uses 0644.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteOptions<'a> {
    /// Permission bits, 0 to 0o777.
    pub mode: Option<u32>,
    /// Writes only if the file has this etag. `*` means any.
    pub if_match: Option<&'a str>,
    /// Writes only if nothing exists at the path.
    pub if_absent: bool,
    /// Waits until the file would survive a crash of the machine.
    pub durable: bool,
}

/// A range of bytes in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteRange {
    /// From the first to the last byte, inclusive, both counted from 0.
    Span(u64, u64),
    /// From this byte to the end.
    From(u64),
    /// This many bytes at the end.
    Last(u64),
}

/// Compression of an archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// No compression.
    #[default]
    Tar,
    /// Gzip.
    TarGz,
    /// Zstandard.
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

/// Creates an upload from a reader.
pub fn upload(reader: impl AsyncRead + Send + 'static) -> Body {
    Body::stream(ReaderStream::new(reader))
}

/// Creates an upload from a stream. If the stream fails, nothing is written.
pub fn upload_stream(
    pieces: impl Stream<Item = Result<Bytes, impl Into<BoxError> + 'static>> + Send + 'static,
) -> Body {
    Body::stream(pieces)
}

impl Client {
    /// Writes either all files or none. Safe to repeat.
    pub async fn write_files(&self, sandbox: &SandboxId, files: &WriteFiles) -> Result<Done, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:write"), files), TRANSFER).await
    }

    /// Returns a whole file of at most 50 MiB, or `None` if it does not exist.
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

    /// Writes a file of any size. The write is atomic: the whole file appears at once, or nothing changes. Safe to
    /// repeat without a condition. Has no deadline: the daemon ends an upload that stalls for a minute.
    pub async fn put_file(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
        content: impl Into<Body>,
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
            let quoted = if etag == "*" { etag.to_owned() } else { format!("\"{etag}\"") };
            request = request.header(IF_MATCH, &quoted);
        }
        if options.if_absent {
            request = request.header(IF_NONE_MATCH, "*");
        }
        json(request, UNLIMITED).await
    }

    /// Opens a file, or a range of it, for reading. Fails with `not_found` if it does not exist. Has no deadline.
    pub async fn get_file(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
        range: Option<ByteRange>,
    ) -> Result<FileContent, Error> {
        let mut request = self.files(Method::GET, sandbox, "", path);
        if let Some(range) = range {
            request = request.header(RANGE, &range.to_header());
        }
        Ok(FileContent::new(send(request, UNLIMITED).await?))
    }

    /// Opens a whole file as a model may see it: `[NAME]` replaces the value of each secret variable. Has no deadline.
    pub async fn get_file_without_secrets(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
    ) -> Result<FileContent, Error> {
        let request = self.files(Method::GET, sandbox, "", path).query(&[("hideSecrets", "true")]);
        Ok(FileContent::new(send(request, UNLIMITED).await?))
    }

    /// Creates a URL that downloads a file without other credentials. Safe to repeat.
    pub async fn link_file(&self, sandbox: &SandboxId, body: &LinkFile) -> Result<FileLink, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:link"), body), ACT).await
    }

    /// Returns information about a path. Does not follow symbolic links.
    pub async fn stat_file(&self, sandbox: &SandboxId, path: impl AsRef<[u8]>) -> Result<FileInfo, Error> {
        json(self.files(Method::GET, sandbox, ":stat", path), ACT).await
    }

    /// Returns one page of a directory and `depth - 1` levels below it, with at most `limit` entries. `cursor` is the
    /// end of the previous page.
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

    /// Creates a directory and missing parent directories. Safe to repeat.
    pub async fn make_dir(&self, sandbox: &SandboxId, path: impl Into<String>) -> Result<DirMade, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:mkdir"), &MakeDir { path: path.into() }), ACT)
            .await
    }

    /// Moves a file or directory.
    pub async fn move_file(&self, sandbox: &SandboxId, body: &MoveFile) -> Result<Done, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:move"), body), ACT).await
    }

    /// Removes a file or an empty directory. With `recursive`, removes a directory with its content.
    pub async fn delete_file(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
        recursive: bool,
    ) -> Result<FileDeleted, Error> {
        let request = self.files(Method::DELETE, sandbox, "", path).query(&[("recursive", recursive)]);
        json(request, TRANSFER).await
    }

    /// Applies text replacements to a file, all of them or none.
    pub async fn edit_file(&self, sandbox: &SandboxId, body: &EditFile) -> Result<FileEdited, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:edit"), body), ACT).await
    }

    /// Packs a file or directory as an archive. Has no deadline.
    pub async fn pack_files(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
        format: ArchiveFormat,
    ) -> Result<FileContent, Error> {
        let request = self.files(Method::GET, sandbox, ":archive", path).query(&[("format", format.name())]);
        Ok(FileContent::new(send(request, UNLIMITED).await?))
    }

    /// Unpacks a tar archive, optionally compressed with gzip or zstd, into a directory: all of it or nothing. Safe
    /// to repeat. Has no deadline: the daemon ends an upload that stalls for a minute.
    pub async fn unpack_files(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
        archive: impl Into<Body>,
    ) -> Result<ArchiveUnpacked, Error> {
        json(self.files(Method::PUT, sandbox, ":archive", path).body(archive), UNLIMITED).await
    }

    /// Searches for matching lines. Changes nothing.
    pub async fn grep_files(&self, sandbox: &SandboxId, body: &GrepFiles) -> Result<GrepFound, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:grep"), body), ACT).await
    }

    /// Searches for files and directories with a matching path. Changes nothing.
    pub async fn glob_files(&self, sandbox: &SandboxId, body: &GlobFiles) -> Result<GlobFound, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/files:glob"), body), ACT).await
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

/// Content of a file or an archive: a stream of bytes, or a reader from [`FileContent::reader`]. If it breaks off, it
/// returns an error, never an early end.
pub struct FileContent {
    length: Option<u64>,
    total: Option<u64>,
    etag: Option<String>,
    pieces: BoxStream<'static, Result<Bytes, BoxError>>,
}

impl FileContent {
    pub(crate) fn new(response: Response<Body>) -> Self {
        let header = |name: HeaderName| {
            response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok())
        };
        let length = header(CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let range = header(CONTENT_RANGE).and_then(|range| range.rsplit_once('/')?.1.parse().ok());
        let size = header(HeaderName::from_static(FILE_SIZE_HEADER)).and_then(|size| size.parse().ok());
        let etag = header(ETAG).map(|etag| etag.trim_matches('"').to_owned());
        Self {
            length,
            total: range.or(size).or(length),
            etag,
            pieces: response.into_body().into_pieces().boxed(),
        }
    }

    /// Number of bytes to come, if known.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Size of the whole file, if known. The content may be only a part of it.
    pub fn total_bytes(&self) -> Option<u64> {
        self.total
    }

    /// Etag of the whole file at the time it was opened.
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// Returns all of it, at most `max_bytes`. Fails with [`Error::TooLong`] if there is more.
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

    /// Returns a reader of the content.
    pub fn reader(self) -> impl AsyncRead + Send + Unpin {
        StreamReader::new(self.pieces.map_err(io::Error::other))
    }
}

impl Stream for FileContent {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.pieces.as_mut().poll_next(context).map_err(broken)
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
