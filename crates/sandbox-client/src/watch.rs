//! Changes of files.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;
use http::Method;
use sandbox_api::SandboxId;
use sandbox_api::files::WatchRecord;

use crate::deadlines::UNLIMITED;
use crate::lines::Lines;
use crate::request::{RequestBuilder, broken, send};
use crate::{BoxError, Client, Error};

impl Client {
    /// Watches a file or directory. With `recursive`, also watches everything below it. Every change after the first
    /// record is reported. The sandbox counts as used until the stream is dropped.
    pub async fn watch_files(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
        recursive: bool,
    ) -> Result<FileChanges, Error> {
        let request = self.files(Method::GET, sandbox, ":watch", path).query(&[("recursive", recursive)]);
        FileChanges::of(request).await
    }

    /// Watches a file, or the entries of a directory, without using the sandbox. The watch ends as lost when the sandbox
    /// is parked, and at once if it is parked already.
    pub async fn watch_files_passively(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
    ) -> Result<FileChanges, Error> {
        let request = self.files(Method::GET, sandbox, ":watch", path).query(&[("passive", true)]);
        FileChanges::of(request).await
    }
}

/// Changes in order. The last record is [`WatchRecord::Gone`] or [`WatchRecord::Lost`]. A stream that ends without
/// either returns an error. After a loss or an error, start a new watch and list the files again.
pub struct FileChanges {
    body: BoxStream<'static, Result<Bytes, BoxError>>,
    lines: Lines,
    done: bool,
}

impl FileChanges {
    async fn of(request: RequestBuilder) -> Result<Self, Error> {
        let body = Box::pin(send(request, UNLIMITED).await?.into_body().into_pieces());
        Ok(Self { body, lines: Lines::default(), done: false })
    }

    fn finish(&mut self, last: Error) -> Poll<Option<Result<WatchRecord, Error>>> {
        self.done = true;
        Poll::Ready(Some(Err(last)))
    }
}

impl Stream for FileChanges {
    type Item = Result<WatchRecord, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.done {
            match self.lines.next() {
                Err(error) => return self.finish(error),
                Ok(Some(line)) => match serde_json::from_slice(&line) {
                    Err(error) => return self.finish(Error::BadLine(error)),
                    Ok(record) => {
                        self.done = matches!(record, WatchRecord::Gone | WatchRecord::Lost);
                        return Poll::Ready(Some(Ok(record)));
                    }
                },
                Ok(None) => match ready!(self.body.as_mut().poll_next(context)) {
                    Some(Ok(bytes)) => self.lines.push(&bytes),
                    Some(Err(error)) => return self.finish(broken(error)),
                    None => return self.finish(Error::Cut),
                },
            }
        }
        Poll::Ready(None)
    }
}

impl std::fmt::Debug for FileChanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileChanges").field("done", &self.done).finish_non_exhaustive()
    }
}
