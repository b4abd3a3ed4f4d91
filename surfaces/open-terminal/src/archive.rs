//! Downloads of several files or directories as one ZIP archive. It is packed while it is sent.

use std::error::Error as StdError;
use std::io::{self, Read, Write};
use std::path::Component;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, StreamExt, future, stream};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use sandbox_api::SandboxId;
use sandbox_api::files::FileKind;
use sandbox_client::{ArchiveFormat, Client};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::io::SyncIoBridge;
use tracing::debug;
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

use crate::access::Chat;
use crate::failure::{Failure, is_missing_file};
use crate::params::Json;
use crate::paths;
use crate::server::{Answer, Server};

/// Maximum number of paths in a request.
const MAX_PATHS: usize = 100;

/// Memory for the index of the archive, which is at its end.
const MAX_INDEX_BYTES: usize = 32 * 1024 * 1024;

/// What an entry needs in the index besides its name.
const ENTRY_BYTES: usize = 256;

/// Pieces that the client has not taken yet, and their size.
const PIECES: usize = 4;
const PIECE_BYTES: usize = 64 * 1024;

/// How long a client may take no piece. A client that stops reading must not keep others from archives.
const CLIENT_STALL: Duration = Duration::from_secs(60);

/// Name of an archive with several paths.
const DEFAULT_NAME: &str = "download";

#[derive(Deserialize)]
pub(crate) struct Archive {
    paths: Vec<String>,
}

pub(crate) async fn archive(
    State(server): State<Server>,
    chat: Chat,
    Json(request, _): Json<Archive>,
) -> Answer {
    if request.paths.is_empty() || request.paths.len() > MAX_PATHS {
        return Err(Failure::bad_request(format_args!("`paths` must have 1 to {MAX_PATHS} entries")));
    }
    let cwd = server.cwds.of(&chat);
    let paths = request.paths.iter().map(|path| paths::readable(path, &cwd));
    let paths: Vec<String> = paths.collect::<Result<_, _>>()?;
    let sandbox = chat.find().await?.ok_or_else(|| Failure::not_found("Path not found"))?;
    let mut roots = Vec::new();
    for path in &paths {
        let missing = || Failure::not_found(format_args!("Path not found: {path}"));
        let found = chat.client.stat_file(&sandbox, path).await;
        let found = found.map_err(|error| if is_missing_file(&error) { missing() } else { error.into() })?;
        roots.push(Root { path: path.clone(), is_directory: found.kind == FileKind::Directory });
    }
    let permit = std::sync::Arc::clone(&server.archives)
        .try_acquire_owned()
        .map_err(|_| Failure::busy("too many archives are packed: try again later"))?;
    let name = match paths.as_slice() {
        [path] => paths::name_of(path),
        _ => DEFAULT_NAME,
    };
    let disposition = format!("attachment; filename=\"{}.zip\"", in_header(name));
    let (sender, receiver) = mpsc::channel(PIECES);
    let packing = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let packed = Pack { client: chat.client, sandbox }.pack(&roots, Pieces::new(sender));
        packed.inspect_err(|error| debug!(error = error as &dyn StdError, "an archive is incomplete"))
    });
    let headers = [(CONTENT_TYPE, "application/zip".to_owned()), (CONTENT_DISPOSITION, disposition)];
    let response: Response = (headers, Body::from_stream(content(receiver, packing))).into_response();
    Ok(response)
}

/// The pieces, and an error after them if the archive is incomplete, so that the client does not take it for whole.
fn content(
    pieces: mpsc::Receiver<Bytes>,
    packing: JoinHandle<io::Result<()>>,
) -> impl Stream<Item = io::Result<Bytes>> {
    let problem = async { packing.await.unwrap_or_else(|panic| Err(io::Error::other(panic))).err() };
    let problem = stream::once(problem).filter_map(|problem| future::ready(problem.map(Err)));
    ReceiverStream::new(pieces).map(Ok).chain(problem)
}

/// Replaces what a quoted name in a header cannot have, or browsers interpret differently.
fn in_header(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || " ._-()".contains(char);
    name.chars().map(|char| if is_plain(char) { char } else { '_' }).collect()
}

/// A path that is packed.
struct Root {
    path: String,
    is_directory: bool,
}

impl Root {
    /// Name of an entry in the archive: below the name of the directory. A file is packed alone.
    fn name_of(&self, entry: &tar::Entry<'_, impl Read>) -> Option<String> {
        let root = portable(paths::name_of(&self.path));
        if !self.is_directory {
            return Some(root);
        }
        let (path, mut parts) = (entry.path().ok()?, vec![root]);
        for part in path.components() {
            match part {
                Component::Normal(part) => parts.push(portable(&part.to_string_lossy())),
                Component::CurDir => {}
                _ => return None,
            }
        }
        Some(parts.join("/"))
    }
}

/// Replaces backslashes, because they separate directories where Windows unpacks the archive.
fn portable(part: &str) -> String {
    part.replace('\\', "_")
}

/// Packs files of a sandbox. Runs on a thread that may block.
struct Pack {
    client: Client,
    sandbox: SandboxId,
}

type Zip = ZipWriter<StreamWriter<Pieces>>;

impl Pack {
    fn pack(&self, roots: &[Root], pieces: Pieces) -> io::Result<()> {
        let (mut zip, mut index) = (ZipWriter::new_stream(pieces), 0);
        for root in roots {
            let packed = self.client.pack_files(&self.sandbox, &root.path, ArchiveFormat::Tar);
            let content = Handle::current().block_on(packed).map_err(io::Error::other)?;
            let mut tar = tar::Archive::new(SyncIoBridge::new(content.reader()));
            for entry in tar.entries()? {
                add(&mut zip, &mut index, root, entry?)?;
            }
        }
        zip.finish()?.into_inner().finish()
    }
}

/// Adds an entry of a tar archive. Links and special files are skipped.
fn add(
    zip: &mut Zip,
    index: &mut usize,
    root: &Root,
    mut entry: tar::Entry<'_, impl Read>,
) -> io::Result<()> {
    let kind = entry.header().entry_type();
    let Some(name) = root.name_of(&entry).filter(|_| kind.is_file() || kind.is_dir()) else {
        return Ok(());
    };
    *index += name.len() + ENTRY_BYTES;
    if *index > MAX_INDEX_BYTES {
        return Err(io::Error::other("there are too many files for one archive"));
    }
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .large_file(true)
        .unix_permissions(entry.header().mode()? & 0o777)
        .last_modified_time(time_of(entry.header().mtime()?));
    if kind.is_dir() {
        zip.add_directory(name, options)?;
    } else {
        zip.start_file(name, options)?;
        io::copy(&mut entry, zip)?;
    }
    Ok(())
}

/// Time in UTC. Times before 1980 do not exist in ZIP.
fn time_of(seconds: u64) -> zip::DateTime {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    let time = time.map(|time| TimeZone::UTC.to_datetime(time));
    let zip_time = time.and_then(|time| {
        let (year, month, day) = (u16::try_from(time.year()).ok()?, time.month() as u8, time.day() as u8);
        let (hour, minute, second) = (time.hour() as u8, time.minute() as u8, time.second() as u8);
        zip::DateTime::from_date_and_time(year, month, day, hour, minute, second).ok()
    });
    zip_time.unwrap_or_default()
}

/// Sends what is written in pieces. Fails when the client has left or reads nothing.
struct Pieces {
    sender: mpsc::Sender<Bytes>,
    piece: Vec<u8>,
}

impl Pieces {
    fn new(sender: mpsc::Sender<Bytes>) -> Self {
        Self { sender, piece: Vec::with_capacity(PIECE_BYTES) }
    }

    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        Handle::current().block_on(deliver(&self.sender, piece.into()))
    }

    fn finish(mut self) -> io::Result<()> {
        self.send()
    }
}

/// Waits until the client takes a piece.
async fn deliver(sender: &mpsc::Sender<Bytes>, piece: Bytes) -> io::Result<()> {
    sender.send_timeout(piece, CLIENT_STALL).await.map_err(|error| match error {
        SendTimeoutError::Timeout(_) => io::ErrorKind::TimedOut.into(),
        SendTimeoutError::Closed(_) => io::ErrorKind::BrokenPipe.into(),
    })
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        if self.piece.len() == PIECE_BYTES {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_reading_gets_an_incomplete_archive() {
        let (sender, receiver) = mpsc::channel(PIECES);
        let packing = tokio::spawn(async move {
            loop {
                deliver(&sender, Bytes::from_static(b"piece")).await?;
            }
        });
        while !packing.is_finished() {
            sleep(CLIENT_STALL).await;
        }
        let read: Vec<_> = content(receiver, packing).collect().await;
        assert_eq!(read.iter().filter(|piece| piece.is_ok()).count(), PIECES);
        assert_eq!(read.last().unwrap().as_ref().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_name_in_a_header_is_plain() {
        assert_eq!(in_header("my file (1).txt"), "my file (1).txt");
        assert_eq!(in_header("a\"\r\nb/é"), "a___b__");
    }

    fn names_of(root: &Root, paths: &[&str]) -> Vec<Option<String>> {
        let mut tar = tar::Builder::new(Vec::new());
        for path in paths {
            let mut header = tar::Header::new_gnu();
            // Directly, because the library refuses some names.
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_size(0);
            header.set_cksum();
            tar.append(&header, io::empty()).unwrap();
        }
        let bytes = tar.into_inner().unwrap();
        let mut tar = tar::Archive::new(bytes.as_slice());
        tar.entries().unwrap().map(|entry| root.name_of(&entry.unwrap())).collect()
    }

    #[test]
    fn the_name_of_an_entry_leads_to_no_other_directory() {
        let root = Root { path: "/vercel/sandbox/workspace/a\\b".into(), is_directory: true };
        let given = ["./c/d", "..\\..\\evil", "C:\\evil\\e", "../evil", "/evil"];
        let wanted = [Some("a_b/c/d"), Some("a_b/.._.._evil"), Some("a_b/C:_evil_e"), None, None];
        assert_eq!(names_of(&root, &given), wanted.map(|name| name.map(str::to_owned)));
        let file = Root { is_directory: false, ..root };
        assert_eq!(names_of(&file, &["x"]), [Some("a_b".to_owned())]);
    }

    #[test]
    fn times_beyond_the_format_are_replaced() {
        assert_eq!(time_of(1_700_000_000).year(), 2023);
        for seconds in [0, u64::MAX, 1 << 40] {
            assert_eq!(time_of(seconds), zip::DateTime::default());
        }
    }
}
