//! Request and response bodies.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use sandbox_api::batch::RunBatch;
use sandbox_api::command::KillCommand;
use sandbox_api::context::{OpenContext, RunCode};
use sandbox_api::files::{EditFile, GlobFiles, GrepFiles, LinkFile, MakeDir, MoveFile, WriteFiles};
use sandbox_api::mcp::{ApproveMcpServer, RegisterMcpServer};
use sandbox_api::network::AllowDenied;
use sandbox_api::port::CreateLink;
use sandbox_api::project::{CreateChildToken, CreateProject, CreateTicket, CreateToken, RevokeSubject};
use sandbox_api::quota::ChangeProject;
use sandbox_api::repository::RunInRepository;
use sandbox_api::sandbox::{CreateSandbox, Network, ParkSandbox, TouchSandbox};
use sandbox_api::snapshot::{CheckSnapshots, ForkSandbox, MakeSnapshot, RestoreSnapshot};
use sandbox_api::terminal::{OpenTerminal, ResizeTerminal};
use sandbox_api::tool::ToolAnswer;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use super::decode::{decode, decode_known};
use super::error::{ApiError, HttpError, Result};
use super::{ApiState, JSON};
use crate::model::{FieldError, limits};

/// Limits of a request body.
pub(super) trait RequestBody: DeserializeOwned {
    /// Maximum length in bytes, unless the operator's limit is lower.
    const MAX_BYTES: usize = limits::MAX_CONTROL_BODY_BYTES;

    /// Whether fields that the type does not have are refused. Others may be of a later version.
    const IS_STRICT: bool = false;
}

impl RequestBody for CreateSandbox {}
impl RequestBody for MakeSnapshot {}
impl RequestBody for RestoreSnapshot {}
impl RequestBody for ForkSandbox {}
impl RequestBody for CheckSnapshots {}
impl RequestBody for ParkSandbox {}
impl RequestBody for TouchSandbox {}
impl RequestBody for KillCommand {}
impl RequestBody for ResizeTerminal {}
impl RequestBody for CreateLink {}
impl RequestBody for Network {}
impl RequestBody for AllowDenied {}
impl RequestBody for LinkFile {}
impl RequestBody for RegisterMcpServer {}
impl RequestBody for ApproveMcpServer {}
impl RequestBody for CreateProject {}
impl RequestBody for CreateToken {}
impl RequestBody for CreateChildToken {}
impl RequestBody for CreateTicket {}
impl RequestBody for RevokeSubject {}
impl RequestBody for MakeDir {}
impl RequestBody for MoveFile {}
impl RequestBody for GrepFiles {}
impl RequestBody for GlobFiles {}

/// It replaces all quotas, so one with a wrong name would remove a limit.
impl RequestBody for ChangeProject {
    const IS_STRICT: bool = true;
}

/// Fits a script, as for a command.
impl RequestBody for RunInRepository {
    const MAX_BYTES: usize = limits::MAX_COMMAND_BODY_BYTES;
}

/// Fits a program and its arguments, as for a command.
impl RequestBody for OpenTerminal {
    const MAX_BYTES: usize = limits::MAX_COMMAND_BODY_BYTES;
}

/// Fits the definitions of tools.
impl RequestBody for OpenContext {
    const MAX_BYTES: usize = limits::MAX_OPEN_CONTEXT_BODY_BYTES;
}

/// Fits the result of a tool.
impl RequestBody for ToolAnswer {
    const MAX_BYTES: usize = limits::MAX_TOOL_ANSWER_BODY_BYTES;
}

impl RequestBody for RunCode {
    const MAX_BYTES: usize = limits::MAX_RUN_BODY_BYTES;
}

/// Same limit as for one command, for all commands together.
impl RequestBody for RunBatch {
    const MAX_BYTES: usize = limits::MAX_COMMAND_BODY_BYTES;
}

impl RequestBody for WriteFiles {
    const MAX_BYTES: usize = usize::MAX;
}

impl RequestBody for EditFile {
    const MAX_BYTES: usize = usize::MAX;
}

/// A decoded JSON body. An empty one counts as `{}`, which only suits types without required fields.
pub(super) struct Json<T>(pub(super) T);

impl<T: RequestBody> FromRequest<ApiState> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self> {
        let kind = ContentKind::of(request.headers());
        // The memory permit is held until the body is decoded.
        let (bytes, _memory) = read_whole(request, state, T::MAX_BYTES).await?;
        if bytes.is_empty() {
            return Ok(Self(Self::decode(b"{}")?));
        }
        if kind != ContentKind::Json {
            return Err(HttpError::NotJson.into());
        }
        Ok(Self(Self::decode(&bytes)?))
    }
}

impl<T: RequestBody> Json<T> {
    fn decode(json: &[u8]) -> std::result::Result<T, FieldError> {
        if T::IS_STRICT { decode_known(json) } else { decode(json) }
    }
}

/// Reads a body of at most `max_bytes`, unless the operator's limit is lower.
pub(super) async fn read_whole(
    request: Request,
    state: &ApiState,
    max_bytes: usize,
) -> Result<(Vec<u8>, Option<SemaphorePermit<'_>>)> {
    let limit = state.service.limits().max_body_bytes.min(max_bytes);
    let declared = declared_length(&request, limit)?;
    read(request.into_body(), declared, limit, &state.bodies).await
}

/// Terminal input: any bytes, with a limited length.
pub(super) struct Input(pub(super) Bytes);

impl FromRequest<ApiState> for Input {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self> {
        let limit = limits::MAX_TERMINAL_INPUT_BYTES;
        let declared = declared_length(&request, limit)?;
        let (bytes, _memory) = read(request.into_body(), declared, limit, &state.bodies).await?;
        Ok(Self(bytes.into()))
    }
}

/// A value to keep: any bytes, with a limited length.
pub(super) struct KeptBytes(pub(super) Bytes);

impl FromRequest<ApiState> for KeptBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self> {
        let (bytes, _memory) = read_whole(request, state, limits::MAX_VALUE_BYTES).await?;
        Ok(Self(bytes.into()))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let json = serde_json::to_vec(&self.0).expect("our types have string keys and finite numbers");
        ([(CONTENT_TYPE, JSON)], Body::from(json)).into_response()
    }
}

/// What a body declares to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentKind {
    Json,
    PlainText,
    Other,
}

impl ContentKind {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let kind = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if kind.eq_ignore_ascii_case(b"application/json") {
            Self::Json
        } else if kind.eq_ignore_ascii_case(b"text/plain") {
            Self::PlainText
        } else {
            Self::Other
        }
    }
}

/// Declared or maximum length of the body. A body that declares more than `limit` is rejected without reading it.
fn declared_length(request: &Request, limit: usize) -> Result<usize> {
    let header = request.headers().get(CONTENT_LENGTH);
    let declared: Option<usize> = header.and_then(|value| value.to_str().ok()?.parse().ok());
    let declared = declared.unwrap_or(if request.body().is_end_stream() { 0 } else { limit });
    if declared > limit { Err(HttpError::BodyTooLarge { limit }.into()) } else { Ok(declared) }
}

/// Reads a body of at most `limit` bytes. Memory for all `declared` bytes is reserved when the body turns out not to be
/// small. A body that never arrives reserves nothing, and a small one does not wait for a large one.
async fn read(
    body: Body,
    declared: usize,
    limit: usize,
    bodies: &Semaphore,
) -> Result<(Vec<u8>, Option<SemaphorePermit<'_>>)> {
    let mut body = Limited::new(body, limit);
    let mut bytes = Vec::with_capacity(declared.min(limits::SMALL_BODY_BYTES));
    let mut memory = None;
    let mut deadline = Instant::now() + limits::REQUEST_BODY;
    while let Some(data) =
        timeout_at(deadline, next(&mut body, limit)).await.map_err(|_| HttpError::BodyLate)??
    {
        if memory.is_none() && bytes.len() + data.len() > limits::SMALL_BODY_BYTES {
            let began = Instant::now();
            memory = Some(reserve_memory(bodies, declared).await?);
            // Time spent waiting for memory does not count against the client.
            deadline += began.elapsed();
            bytes.reserve_exact(declared.saturating_sub(bytes.len()));
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, memory))
}

/// A body of any length that is passed on as it arrives and never stored.
pub(super) struct Upload(Body);

impl FromRequest<ApiState> for Upload {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &ApiState) -> Result<Self> {
        Ok(Self(request.into_body()))
    }
}

impl Upload {
    /// Streams the bytes. Fails if the client disconnects or sends nothing for too long.
    pub(super) fn into_stream(self) -> BoxStream<'static, std::result::Result<Bytes, HttpError>> {
        futures::stream::try_unfold(self.0, |mut body| async move {
            if body.is_end_stream() {
                return Ok(None);
            }
            let first = timeout(limits::UPLOAD_PAUSE, piece(&mut body)).await;
            let first = first.map_err(|_| HttpError::UploadPaused)??;
            let Some(first) = first else { return Ok(None) };
            Ok(Some((gather(first, &mut body).await?, body)))
        })
        .boxed()
    }
}

/// Combines pieces that arrive close together, because each piece has a fixed cost on its way to the sandbox.
async fn gather(first: Bytes, body: &mut Body) -> std::result::Result<Bytes, HttpError> {
    if body.is_end_stream() || first.len() >= limits::FILE_PART_BYTES {
        return Ok(first);
    }
    let mut gathered = BytesMut::with_capacity(limits::FILE_PART_BYTES);
    gathered.extend_from_slice(&first);
    let deadline = Instant::now() + limits::UPLOAD_GATHER;
    while gathered.len() < limits::FILE_PART_BYTES && !body.is_end_stream() {
        match timeout_at(deadline, piece(body)).await {
            Ok(more) => match more? {
                Some(more) => gathered.extend_from_slice(&more),
                None => break,
            },
            Err(_) => break,
        }
    }
    Ok(gathered.freeze())
}

async fn piece(body: &mut Body) -> std::result::Result<Option<Bytes>, HttpError> {
    while let Some(frame) = body.frame().await {
        // Any other frame is trailers, which are not used.
        if let Ok(data) = frame.map_err(HttpError::BodyCut)?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Returns the next bytes of a body.
async fn next(body: &mut Limited<Body>, limit: usize) -> Result<Option<Bytes>> {
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                // Any other frame is trailers, which are not used.
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(HttpError::BodyTooLarge { limit }.into());
            }
            Err(error) => return Err(HttpError::BodyCut(axum::Error::new(error)).into()),
        }
    }
    Ok(None)
}

/// Reserves all memory at once. Reserving it in steps could make requests wait for each other forever.
async fn reserve_memory(bodies: &Semaphore, bytes: usize) -> Result<SemaphorePermit<'_>> {
    let memory = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
    match timeout(limits::REQUEST_BODY, bodies.acquire_many(memory)).await {
        Ok(Ok(memory)) => Ok(memory),
        Ok(Err(_)) | Err(_) => Err(HttpError::NoMemoryForBody.into()),
    }
}
