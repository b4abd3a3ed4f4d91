//! The index that the uv of a sandbox gets packages from.
//!
//! It is reached over plain HTTP by a name that only that sandbox knows. It forwards requests for the pages of packages to the
//! one index, and for the wheels and the source code that those pages name to where they are, over TLS and with the
//! credentials of the host. Everything else is refused.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use reqwest::Url;
use sandboxd_model::limits;
use sandboxd_model::repository::HttpsUrl;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::client::{Answer, Call};
use crate::index_page::{self, FILES, Page, is_source, is_wheel};
use crate::{Client, Error};

const JSON: HeaderValue = HeaderValue::from_static("application/vnd.pypi.simple.v1+json");
const HTML: HeaderValue = HeaderValue::from_static("text/html");
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");
/// The formats of a page, the better one first.
const ACCEPTED: HeaderValue =
    HeaderValue::from_static("application/vnd.pypi.simple.v1+json, text/html;q=0.5, */*;q=0.1");
/// Indexes report which programs use them.
const AGENT: HeaderValue = HeaderValue::from_static("uv (sandboxd)");
/// End of the address of a wheel's metadata (PEP 658).
const METADATA: &str = ".metadata";
/// Beginning of the paths of pages at the relay.
const PAGES: &str = "/simple/";

type Body = UnsyncBoxBody<Bytes, Error>;

/// Relays the resolution of one set of packages.
#[derive(Debug)]
pub struct PackageRelay {
    client: Client,
    index: HttpsUrl,
    max_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pages: usize,
    /// Addresses of the files that the index has named, by their names.
    files: HashMap<String, Url>,
    /// Whether a package has source code and no wheel.
    has_sources: bool,
    /// Packages that the index does not have.
    missing: Vec<String>,
    /// Packages of which the index has no wheel, only other files.
    without_wheel: Vec<String>,
    /// Bytes that the servers have sent.
    bytes: u64,
    fault: Option<Error>,
}

/// What the index does not have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lacks {
    /// Packages that it does not know.
    pub packages: Vec<String>,
    /// Packages of which it has no wheel, only other files.
    pub wheels: Vec<String>,
}

impl PackageRelay {
    /// Name of the relay in its sandbox. It is reached on [`Self::PORT`].
    pub const HOST: &str = "packages.internal";

    /// Port of the relay.
    pub const PORT: u16 = 80;

    /// Address of the index in the sandbox.
    pub const URL: &str = "http://packages.internal/simple";

    /// Creates a relay for an index. After `max_bytes`, the resolution fails.
    pub fn new(client: Client, index: HttpsUrl, max_bytes: u64) -> Self {
        Self { client, index, max_bytes, state: Mutex::default() }
    }

    /// Why a request failed, if one did. Taken once.
    pub fn take_fault(&self) -> Option<Error> {
        self.state().fault.take()
    }

    /// What the index did not have.
    pub fn lacks(&self) -> Lacks {
        let state = self.state();
        Lacks { packages: state.missing.clone(), wheels: state.without_wheel.clone() }
    }

    /// Whether the index has every package, and some only as source code.
    pub fn lacks_only_wheels(&self) -> bool {
        let state = self.state();
        state.has_sources && state.missing.is_empty()
    }

    /// Serves a connection. `moved` gets the number of bytes that the servers send.
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
        // If uv ends its connection early, it has failed for another reason.
        let _ = builder.serve_connection(TokioIo::new(near), service).await;
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        moved: impl Fn(usize) + Send + Sync + 'static,
    ) -> Response<Body> {
        // uv asks for parts of a wheel with HEAD first. Without them, it gets the metadata from the whole.
        if request.method() != Method::GET {
            return status(StatusCode::METHOD_NOT_ALLOWED);
        }
        let path = request.uri().path().to_owned();
        let answered = match Asked::parse(&path) {
            Some(Asked::Page(name)) => self.page(name, &moved).await,
            Some(Asked::File { name, end }) => Arc::clone(&self).file(name, end, moved).await,
            None => return status(StatusCode::FORBIDDEN),
        };
        match answered {
            Ok(response) => response,
            Err(Error::NotFound { .. }) => status(StatusCode::NOT_FOUND),
            Err(error) => {
                self.note(error);
                status(StatusCode::BAD_GATEWAY)
            }
        }
    }

    /// The page of a package, with other addresses.
    async fn page(&self, name: &str, moved: &impl Fn(usize)) -> Result<Response<Body>, Error> {
        self.count_page()?;
        let url = format!("{}/", self.index.join(name)).parse();
        let found = self.get(url.map_err(|_| Error::Malformed("the address"))?, ACCEPTED).await;
        if let Err(Error::NotFound { .. }) = found {
            self.state().missing.push(name.to_owned());
        }
        let answer = found?;
        let at = answer.url.clone();
        let content_type = answer.response.headers().get(CONTENT_TYPE);
        let is_json = content_type.is_some_and(|value| value.as_bytes().ends_with(b"json"));
        let body = self.whole(answer, moved).await?;
        let page = match is_json {
            true => index_page::from_json(&body, &at)?,
            false => index_page::from_html(&body, &at)?,
        };
        self.note_page(name, &page);
        self.remember(if page.wheels.is_empty() { page.sources } else { page.wheels })?;
        let mut response = Response::new(body_of(page.text.into()));
        response.headers_mut().insert(CONTENT_TYPE, if is_json { JSON } else { HTML });
        Ok(response)
    }

    fn note_page(&self, name: &str, page: &Page) {
        if page.wheels.is_empty() && page.has_other_files {
            let mut state = self.state();
            state.has_sources |= !page.sources.is_empty();
            state.without_wheel.push(name.to_owned());
        }
    }

    fn count_page(&self) -> Result<(), Error> {
        let mut state = self.state();
        state.pages += 1;
        if state.pages > limits::MAX_INDEX_PAGES {
            return Err(Error::TooLarge { max: self.max_bytes });
        }
        Ok(())
    }

    fn remember(&self, files: Vec<(String, Url)>) -> Result<(), Error> {
        let mut state = self.state();
        state.files.extend(files);
        match state.files.len() > limits::MAX_INDEX_FILES {
            true => Err(Error::TooLarge { max: self.max_bytes }),
            false => Ok(()),
        }
    }

    /// A file that a page has named, or its metadata.
    async fn file(
        self: Arc<Self>,
        name: &str,
        end: &str,
        moved: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Response<Body>, Error> {
        let url = self.state().files.get(name).cloned();
        let mut url = url.ok_or(Error::NotFound { status: StatusCode::NOT_FOUND.as_u16() })?;
        let path = format!("{}{end}", url.path());
        url.set_path(&path);
        let answer = self.get(url, ANYTHING).await?;
        let length = answer.response.headers().get(CONTENT_LENGTH).cloned();
        let parts = answer.response.bytes_stream().map(move |part| {
            let part = part.map_err(Error::from_reqwest).and_then(|part| self.counted(part));
            match part {
                Ok(part) => {
                    moved(part.len());
                    Ok(Frame::data(part))
                }
                Err(error) => {
                    self.note(error);
                    Err(Error::Silent)
                }
            }
        });
        let mut response = Response::new(StreamBody::new(parts).boxed_unsync());
        if let Some(length) = length {
            response.headers_mut().insert(CONTENT_LENGTH, length);
        }
        Ok(response)
    }

    async fn get(&self, url: Url, accept: HeaderValue) -> Result<Answer, Error> {
        let call = Call {
            method: Method::GET,
            url,
            headers: HeaderMap::from_iter([(ACCEPT, accept), (USER_AGENT, AGENT)]),
            body: Bytes::new(),
            with_token: true,
            follows_redirects: true,
        };
        self.client.send(call).await?.checked()
    }

    /// The body of a page.
    async fn whole(&self, answer: Answer, moved: &impl Fn(usize)) -> Result<Vec<u8>, Error> {
        let mut parts = answer.response.bytes_stream();
        let mut body = Vec::new();
        while let Some(part) = parts.next().await {
            let part = self.counted(part.map_err(Error::from_reqwest)?)?;
            moved(part.len());
            body.extend_from_slice(&part);
            if body.len() > limits::MAX_INDEX_PAGE_BYTES {
                return Err(Error::TooLarge { max: limits::MAX_INDEX_PAGE_BYTES as u64 });
            }
        }
        Ok(body)
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

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked<'a> {
    /// The page of a package.
    Page(&'a str),
    /// A wheel or source code, or with another end of its address something about it.
    File { name: &'a str, end: &'static str },
}

impl<'a> Asked<'a> {
    /// Reads a path. `None` if nothing is there.
    fn parse(path: &'a str) -> Option<Self> {
        if let Some(file) = path.strip_prefix(FILES) {
            let (name, end) = match file.strip_suffix(METADATA) {
                Some(name) => (name, METADATA),
                None => (file, ""),
            };
            return (is_wheel(name) || is_source(name)).then_some(Self::File { name, end });
        }
        let name = path.strip_prefix(PAGES)?.strip_suffix('/')?;
        let is_char = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (!name.is_empty() && name.bytes().all(is_char)).then_some(Self::Page(name))
    }
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(body_of(Bytes::new()));
    *response.status_mut() = status;
    response
}

fn body_of(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_wheels_and_sources_are_there() {
        let file = |name, end| Some(Asked::File { name, end });
        assert_eq!(Asked::parse("/simple/a-1/"), Some(Asked::Page("a-1")));
        assert_eq!(Asked::parse("/files/a-1-py3-none-any.whl"), file("a-1-py3-none-any.whl", ""));
        assert_eq!(Asked::parse("/files/a+b.whl.metadata"), file("a+b.whl", METADATA));
        assert_eq!(Asked::parse("/files/a-1.tar.gz"), file("a-1.tar.gz", ""));
        for bad in [
            "/",
            "/simple/",
            "/simple/a",
            "/simple/A/",
            "/simple/../",
            "/simple/a/b/",
            "/simple/a%2f/",
            "/files/a.egg",
            "/files/../a.tar.gz",
            "/files/../a.whl",
            "/files/%2e%2e%2fa.whl",
            "http://files.example/a.whl",
        ] {
            assert_eq!(Asked::parse(bad), None, "{bad}");
        }
    }
}
