//! `upload` and `download`: files between the host and the sandbox. `download_link`: files for the user's browser.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use sandbox_api::SandboxId;
use sandbox_api::files::{FileWritten, LinkFile};
use sandbox_client::{WriteOptions, upload_stream};

use crate::host_root::{HostError, HostRoot, Incoming, MAX_FILE_BYTES, read_piece};
use crate::toolbox::{Call, Toolbox};
use crate::{Error, Reply, input, output};

/// Lifetime of a link. A user may read the answer a while after it was written.
const LINK_TTL: Duration = Duration::from_secs(3600);

impl Toolbox {
    pub(crate) async fn download_link(
        &self,
        sandbox: &SandboxId,
        input: input::DownloadLink,
    ) -> Result<Reply, Error> {
        let about = Error::about(&input.path);
        let request = LinkFile { path: input.path.clone(), ttl_ms: Some(LINK_TTL.as_millis() as u64) };
        let link = self.client.link_file(sandbox, &request).await.map_err(about)?;
        let text = format!(
            "{}\nDownloads {} ({} bytes) until {}.",
            link.url, input.path, link.size, link.expires_at
        );
        let expires_at = link.expires_at.to_string();
        Ok(Reply::new(text, &output::FileLink { url: link.url, expires_at, bytes: link.size }))
    }

    pub(crate) async fn upload(
        &self,
        sandbox: &SandboxId,
        input: input::Upload,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let root = self.root.as_ref().ok_or(Error::NoRoot)?;
        let written = tokio::select! {
            biased;
            // Dropping the upload leaves the sandbox unchanged.
            () = call.cancel.cancelled() => return Err(Error::Cancelled),
            written = self.send_file(sandbox, root, &input.source, &input.path) => written?,
        };
        let text = format!("Uploaded {} to {} ({} bytes).", input.source, input.path, written.size);
        let result = output::Uploaded { path: input.path, bytes: written.size, created: written.created };
        Ok(Reply::new(text, &result))
    }

    /// Writes a file of the host to the sandbox.
    pub(crate) async fn send_file(
        &self,
        sandbox: &SandboxId,
        root: &HostRoot,
        source: &str,
        path: &str,
    ) -> Result<FileWritten, Error> {
        let (root, name) = (root.clone(), source.to_owned());
        let opened = blocking(move || root.read(&name)).await;
        let (file, _) = opened.map_err(host_error("source", source))?;
        let failed: Arc<Mutex<Option<HostError>>> = Arc::default();
        let note = Arc::clone(&failed);
        let pieces = stream::try_unfold((file, 0), move |(mut file, sent)| {
            let note = Arc::clone(&note);
            async move {
                let read = blocking(move || Ok((read_piece(&mut file)?, file))).await;
                match read {
                    Ok((piece, _)) if piece.is_empty() => Ok(None),
                    Ok((piece, file)) if sent + piece.len() as u64 <= MAX_FILE_BYTES => {
                        let sent = sent + piece.len() as u64;
                        Ok(Some((Bytes::from(piece), (file, sent))))
                    }
                    // The file has grown.
                    Ok(_) => Err(noted(&note, HostError::TooLarge)),
                    Err(error) => Err(noted(&note, error)),
                }
            }
        });
        let written =
            self.client.put_file(sandbox, path, upload_stream(pieces), WriteOptions::default()).await;
        let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        match failed {
            Some(error) => Err(host_error("source", source)(error)),
            None => Ok(written?),
        }
    }

    pub(crate) async fn download(
        &self,
        sandbox: &SandboxId,
        input: input::Download,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let root = self.root.clone().ok_or(Error::NoRoot)?;
        let (bytes, replaced) = tokio::select! {
            biased;
            // Dropping the download removes what was written.
            () = call.cancel.cancelled() => return Err(Error::Cancelled),
            received = self.receive_file(sandbox, root, &input) => received?,
        };
        let text = format!("Downloaded {} to {} ({bytes} bytes).", input.path, input.destination);
        Ok(Reply::new(text, &output::Downloaded { destination: input.destination, bytes, replaced }))
    }

    async fn receive_file(
        &self,
        sandbox: &SandboxId,
        root: HostRoot,
        input: &input::Download,
    ) -> Result<(u64, bool), Error> {
        let fail = host_error("destination", &input.destination);
        let about = Error::about(&input.path);
        // Opened first, so that a missing file creates no directories.
        let mut content = self.client.get_file(sandbox, &input.path, None).await.map_err(about)?;
        if content.total_bytes().is_some_and(|bytes| bytes > MAX_FILE_BYTES) {
            return Err(fail(HostError::TooLarge));
        }
        let destination = input.destination.clone();
        let mut incoming = blocking(move || root.create(&destination)).await.map_err(&fail)?;
        while let Some(piece) = content.next().await {
            let piece = piece?;
            let write = move || {
                incoming.write(&piece)?;
                Ok::<Incoming, HostError>(incoming)
            };
            incoming = blocking(write).await.map_err(&fail)?;
        }
        blocking(move || incoming.keep()).await.map_err(&fail)
    }
}

async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    let done = tokio::task::spawn_blocking(act).await;
    done.unwrap_or_else(|error| Err(HostError::Io(std::io::Error::other(error))))
}

/// Keeps the error, because the client reports only that the upload has failed.
fn noted(note: &Mutex<Option<HostError>>, error: HostError) -> std::io::Error {
    let failed = std::io::Error::other(error.to_string());
    *note.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    failed
}

fn host_error(field: &'static str, path: &str) -> impl Fn(HostError) -> Error {
    move |error| Error::Argument {
        field,
        problem: format!("`{}` cannot be used: {error}", path.escape_debug()),
    }
}
