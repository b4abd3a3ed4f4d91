//! The server that a sandbox fetches one repository from.
//!
//! It is reached over plain HTTP by a name that only that sandbox knows. For a repository of a git server, it forwards the two
//! requests of a fetch to the one repository, over TLS and with the token of its host. Of a directory, it sends an archive.
//! Everything else is refused.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use reqwest::Url;
use sandboxd_model::limits;
use sandboxd_model::repository::{CommitHash, HttpsUrl};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::client::{Answer, Call};
use crate::directory::{ArchiveOf, ArchiveStream, Part};
use crate::look_up::{INFO_REFS, UPLOAD_PACK, base_of, below, url_of};
use crate::{Client, Directory, Error};

/// Path of the repository at the relay.
const PATH: &str = "/repository.git";

/// Path of the archive of a directory.
const ARCHIVE: &str = "/files.tar";

/// Headers of requests that the server gets.
const REQUEST_HEADERS: [HeaderName; 6] = [
    ACCEPT,
    ACCEPT_ENCODING,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    USER_AGENT,
    HeaderName::from_static("git-protocol"),
];

/// Headers of responses that git gets.
const RESPONSE_HEADERS: [HeaderName; 2] = [CONTENT_ENCODING, CONTENT_TYPE];

type Body = UnsyncBoxBody<Bytes, Error>;

/// Relays the fetch of one repository.
#[derive(Debug)]
pub struct Relay {
    source: Source,
    max_bytes: u64,
    state: Mutex<State>,
}

/// What a relay serves.
#[derive(Debug)]
enum Source {
    Server(Remote),
    Directory(Directory, ArchiveOf),
}

/// A repository of a git server.
#[derive(Debug)]
struct Remote {
    client: Client,
    url: HttpsUrl,
    with_token: bool,
}

/// What is sent to the sandbox.
enum Forwarded {
    Response(Box<Answer>),
    Archive(ArchiveStream),
}

#[derive(Debug, Default)]
struct State {
    /// Where the first request was redirected to.
    base: Option<Url>,
    /// Bytes that the server or the directory has sent.
    bytes: u64,
    /// Whether something of the directory was skipped. Known after its archive.
    has_skipped: bool,
    fault: Option<Error>,
}

impl Relay {
    /// Name of the relay in its sandbox. It is reached on [`Self::PORT`].
    pub const HOST: &str = "repository.internal";

    /// Port of the relay.
    pub const PORT: u16 = 80;

    /// Address of the repository in the sandbox.
    pub const URL: &str = "http://repository.internal/repository.git";

    /// Address of the archive of a directory in the sandbox.
    pub const ARCHIVE_URL: &str = "http://repository.internal/files.tar";

    /// Creates a relay for a repository. `with_token` sends the token of its host. After `max_bytes`, the fetch fails.
    pub fn new(client: Client, url: HttpsUrl, with_token: bool, max_bytes: u64) -> Self {
        Self {
            source: Source::Server(Remote { client, url, with_token }),
            max_bytes,
            state: Mutex::default(),
        }
    }

    /// Creates a relay for the objects of a git repository in a directory. The limit is that of the directory.
    pub fn for_objects(directory: Directory) -> Self {
        Self::for_archive(directory, ArchiveOf::Objects)
    }

    /// Creates a relay for the files of a directory. The fetch fails if they do not have this hash any more.
    pub fn for_files(directory: Directory, hash: CommitHash) -> Self {
        Self::for_archive(directory, ArchiveOf::Files(hash))
    }

    fn for_archive(directory: Directory, of: ArchiveOf) -> Self {
        // The walk counts the files. The archive also has their names.
        Self { source: Source::Directory(directory, of), max_bytes: u64::MAX, state: Mutex::default() }
    }

    /// Why a request failed, if one did. Taken once.
    pub fn take_fault(&self) -> Option<Error> {
        self.state().fault.take()
    }

    /// Whether something of the directory was skipped.
    pub fn has_skipped(&self) -> bool {
        self.state().has_skipped
    }

    /// Serves a connection. `moved` gets the number of bytes that the server sends.
    pub async fn serve(
        self: Arc<Self>,
        near: impl AsyncRead + AsyncWrite + Unpin,
        moved: impl Fn(usize) + Clone + Send + Sync + 'static,
    ) {
        let service = service_fn(|request| {
            let (relay, moved) = (Arc::clone(&self), moved.clone());
            async move { Ok::<_, Infallible>(relay.answer(request, moved).await) }
        });
        let mut builder = http1::Builder::new();
        builder.max_buf_size(limits::MAX_HEAD_BYTES).half_close(true);
        // If git ends its connection early, it has failed for another reason.
        let _ = builder.serve_connection(TokioIo::new(near), service).await;
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        moved: impl Fn(usize) + Send + Sync + 'static,
    ) -> Response<Body> {
        match self.forward(request).await {
            Ok(Some(Forwarded::Response(answer))) => self.relayed(*answer, moved),
            Ok(Some(Forwarded::Archive(parts))) => self.archived(parts, moved),
            Ok(None) => empty(StatusCode::FORBIDDEN),
            Err(error) => {
                self.note(error);
                empty(StatusCode::BAD_GATEWAY)
            }
        }
    }

    /// Forwards a request. `None` if it is not one of a fetch of this repository.
    async fn forward(&self, request: Request<Incoming>) -> Result<Option<Forwarded>, Error> {
        match &self.source {
            Source::Server(remote) => {
                let answer = self.forward_to(remote, request).await?;
                Ok(answer.map(|answer| Forwarded::Response(Box::new(answer))))
            }
            Source::Directory(directory, of) => {
                let is_archive = *request.method() == Method::GET && request.uri().path() == ARCHIVE;
                Ok(is_archive.then(|| Forwarded::Archive(directory.archive(of.clone()))))
            }
        }
    }

    async fn forward_to(&self, remote: &Remote, request: Request<Incoming>) -> Result<Option<Answer>, Error> {
        let (parts, body) = request.into_parts();
        let headers = only(&parts.headers, &REQUEST_HEADERS);
        let target = parts.uri.path_and_query().and_then(|target| target.as_str().strip_prefix(PATH));
        match (parts.method, target) {
            (Method::GET, Some(INFO_REFS)) => {
                let answer = remote.client.info_refs(&remote.url, headers, remote.with_token).await?;
                self.state().base = Some(base_of(&answer.url)?);
                Ok(Some(answer))
            }
            (Method::POST, Some(UPLOAD_PACK)) => {
                let body = Limited::new(body, limits::MAX_GIT_REQUEST_BYTES).collect().await;
                let body = body.map_err(|_| Error::Malformed("the request of git"))?.to_bytes();
                self.upload_pack(remote, headers, body).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    async fn upload_pack(&self, remote: &Remote, headers: HeaderMap, body: Bytes) -> Result<Answer, Error> {
        let own = url_of(&remote.url)?;
        let base = self.state().base.clone().unwrap_or_else(|| own.clone());
        let call = Call {
            method: Method::POST,
            url: below(&base, UPLOAD_PACK)?,
            headers,
            body,
            with_token: remote.with_token && base.origin() == own.origin(),
            follows_redirects: false,
        };
        remote.client.send(call).await?.checked()
    }

    fn relayed(
        self: Arc<Self>,
        answer: Answer,
        moved: impl Fn(usize) + Send + Sync + 'static,
    ) -> Response<Body> {
        let headers = only(answer.response.headers(), &RESPONSE_HEADERS);
        let parts = answer.response.bytes_stream().map(|part| part.map_err(Error::from_reqwest));
        let mut response = self.response(parts, moved);
        *response.headers_mut() = headers;
        response
    }

    /// Sends an archive.
    fn archived(
        self: Arc<Self>,
        parts: ArchiveStream,
        moved: impl Fn(usize) + Send + Sync + 'static,
    ) -> Response<Body> {
        let relay = Arc::clone(&self);
        let parts = parts.filter_map(move |part| {
            let bytes = match part {
                Ok(Part::Bytes(bytes)) => Some(Ok(bytes)),
                Ok(Part::End { has_skipped }) => {
                    relay.state().has_skipped = has_skipped;
                    None
                }
                Err(error) => Some(Err(error)),
            };
            std::future::ready(bytes)
        });
        self.response(parts, moved)
    }

    fn response(
        self: Arc<Self>,
        parts: impl Stream<Item = Result<Bytes, Error>> + Send + 'static,
        moved: impl Fn(usize) + Send + Sync + 'static,
    ) -> Response<Body> {
        let parts = parts.map(move |part| match part.and_then(|part| self.counted(part)) {
            Ok(part) => {
                moved(part.len());
                Ok(Frame::data(part))
            }
            Err(error) => {
                self.note(error);
                Err(Error::Silent)
            }
        });
        Response::new(StreamBody::new(parts).boxed_unsync())
    }

    fn counted(&self, part: Bytes) -> Result<Bytes, Error> {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_add(part.len() as u64);
        match state.bytes > self.max_bytes {
            true => Err(Error::TooLarge { max: self.max_bytes }),
            false => Ok(part),
        }
    }

    /// Keeps the first error. Later ones follow from it.
    fn note(&self, error: Error) {
        self.state().fault.get_or_insert(error);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn only(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let found = names.iter().filter_map(|name| Some((name.clone(), headers.get(name)?.clone())));
    found.collect()
}

fn empty(status: StatusCode) -> Response<Body> {
    let body = Full::new(Bytes::new()).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response
}
