//! Files that the user uploads, as `multipart/form-data` (RFC 7578).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::{Request, State};
use bytes::Bytes;
use futures::Stream;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use multer::{Field, Multipart};
use sandbox_client::{BoxError, WriteOptions, upload_stream};
use serde_json::json;
use tokio::time::timeout;

use crate::access::Chat;
use crate::discovery::ok;
use crate::failure::Failure;
use crate::params::Params;
use crate::paths;
use crate::server::{Answer, Server};

/// Name of the field with the file.
const FIELD: &str = "file";

/// Maximum size of everything before the content of the file, and the time in which it must arrive.
const MAX_PREAMBLE_BYTES: usize = 256 * 1024;
const PREAMBLE: Duration = Duration::from_secs(60);

/// Stands for a body without a limit. The workspace's quota limits the file.
const UNLIMITED: usize = usize::MAX;

/// Name of a file that has none.
const DEFAULT_NAME: &str = "upload";

pub(crate) async fn upload(
    State(server): State<Server>,
    chat: Chat,
    params: Params,
    request: Request<Body>,
) -> Answer {
    let directory = paths::writable(params.required("directory")?, &server.cwds.of(&chat))?;
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind).map_err(|_| {
        Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be multipart/form-data")
    })?;
    let allowance = Arc::new(AtomicUsize::new(MAX_PREAMBLE_BYTES));
    let form = Multipart::new(Pieces::new(request.into_body(), Arc::clone(&allowance)), boundary);
    let file = timeout(PREAMBLE, file_of(form)).await.map_err(|_| {
        Failure::new(StatusCode::REQUEST_TIMEOUT, format_args!("the file did not begin within {PREAMBLE:?}"))
    })??;
    allowance.store(UNLIMITED, Ordering::Relaxed);
    let path = format!("{directory}/{}", name_of(&file)?);
    let sandbox = chat.open().await?;
    let written = chat.client.put_file(&sandbox, &path, upload_stream(file), WriteOptions::default()).await?;
    Ok(ok(&json!({ "path": path, "size": written.size })))
}

/// Finds the field with the file. What comes before it is discarded.
async fn file_of(mut form: Multipart<'static>) -> Result<Field<'static>, Failure> {
    loop {
        match form.next_field().await {
            Ok(Some(field)) if field.name() == Some(FIELD) => return Ok(field),
            Ok(Some(_)) => {}
            Ok(None) => return Err(Failure::argument(FIELD, "is missing in the form")),
            Err(error) => return Err(Failure::bad_request(format_args!("the form is invalid: {error}"))),
        }
    }
}

/// Last part of the file's name, because some clients send a whole path.
fn name_of(file: &Field<'_>) -> Result<String, Failure> {
    let given = file.file_name().unwrap_or(DEFAULT_NAME);
    match paths::name_of(given) {
        name @ ("." | "..") => Err(Failure::bad_request(format_args!("`{name}` is not the name of a file"))),
        "" => Ok(DEFAULT_NAME.to_owned()),
        name if name.contains('\0') => Err(Failure::bad_request("the file's name must not contain NUL")),
        name => Ok(name.to_owned()),
    }
}

/// The pieces of a body, within an allowance. The parser reads on until it has to wait, so it has to wait after each
/// piece: otherwise a fast client could fill the memory.
struct Pieces {
    body: BodyDataStream,
    allowance: Arc<AtomicUsize>,
    waits: bool,
}

impl Pieces {
    fn new(body: Body, allowance: Arc<AtomicUsize>) -> Self {
        Self { body: body.into_data_stream(), allowance, waits: false }
    }
}

impl Stream for Pieces {
    type Item = Result<Bytes, BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.waits) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let piece = match ready!(Pin::new(&mut self.body).poll_next(context)) {
            Some(Ok(piece)) => piece,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        self.waits = true;
        let left = self.allowance.load(Ordering::Relaxed);
        if left != UNLIMITED {
            let Some(left) = left.checked_sub(piece.len()) else {
                let problem = format!("there are more than {MAX_PREAMBLE_BYTES} bytes before the file");
                return Poll::Ready(Some(Err(problem.into())));
            };
            self.allowance.store(left, Ordering::Relaxed);
        }
        Poll::Ready(Some(Ok(piece)))
    }
}
