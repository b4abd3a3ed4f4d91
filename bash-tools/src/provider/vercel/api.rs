//! Calls of Vercel's REST API: who asks, for how long, and what is asked twice.
//!
//! Only a GET is sent again where nobody knows what became of it. A 429 says that nothing was done, so whatever it refused is
//! sent again after the time it names, unless that is long.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::credentials::Credentials;
use super::fault::Fault;
use super::wire::ErrorBody;
use crate::provider::{Error, Result as Answer};

/// Deadline of a call that only looks, or ends a command.
pub(super) const LOOK: Duration = Duration::from_secs(30);

/// How long Vercel may take to say that a command has started.
pub(super) const START: Duration = Duration::from_secs(20);

/// Deadline of a call that makes or wakes a sandbox, which may fetch a repository or a snapshot first.
pub(super) const ACT: Duration = Duration::from_secs(120);

/// Deadline of a call that carries files.
pub(super) const TRANSFER: Duration = Duration::from_secs(300);

/// How long a connection may take to stand.
const CONNECT: Duration = Duration::from_secs(10);

/// Times that a call is sent again.
const MAX_RETRIES: u32 = 2;

/// Pause before the first of them, and twice that before the second; half as much again by chance.
const PAUSE: Duration = Duration::from_millis(400);

/// Longest time that Vercel may ask to wait for. Whoever must wait longer is told so.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(20);

/// Longest JSON answer that is read.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// Longest text of Vercel's that is passed on, in characters.
const MAX_SAID_CHARS: usize = 500;

/// What an id or a name keeps in a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// A connection pool to Vercel for one project.
#[derive(Debug)]
pub(super) struct Api {
    http: reqwest::Client,
    base: String,
    credentials: Credentials,
}

/// A request that can be sent again.
#[derive(Clone)]
pub(super) struct Call {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    body: Body,
    limit: Duration,
}

#[derive(Clone)]
enum Body {
    Empty,
    Json(Bytes),
    /// A tar archive in gzip, to be unpacked there.
    Archive(Bytes, &'static str),
}

impl Call {
    pub(super) fn get(path: String) -> Self {
        Self { method: Method::GET, path, query: Vec::new(), body: Body::Empty, limit: LOOK }
    }

    pub(super) fn delete(path: String) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    pub(super) fn post(path: String) -> Self {
        Self { method: Method::POST, ..Self::get(path) }
    }

    pub(super) fn json(self, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("bodies are maps of text and numbers, which JSON has");
        Self { body: Body::Json(body.into()), ..self }
    }

    pub(super) fn archive(self, archive: Bytes, into: &'static str) -> Self {
        Self { body: Body::Archive(archive, into), ..self }
    }

    pub(super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub(super) fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// How long to wait before the call is sent again, where it is.
    fn pause_after(&self, fault: &Fault, tries: u32) -> Option<Duration> {
        if tries >= MAX_RETRIES {
            return None;
        }
        if let Fault::Refused { status: StatusCode::TOO_MANY_REQUESTS, retry_after: Some(pause), .. } = fault
        {
            return (*pause <= MAX_RETRY_AFTER).then_some(*pause);
        }
        // Who was silent for a whole deadline is not given two more.
        let is_silent = matches!(fault, Fault::Deadline { .. });
        let is_passing =
            fault.is_uncertain() && !is_silent || fault.status() == Some(StatusCode::TOO_MANY_REQUESTS);
        let chance = u32::from(Uuid::new_v4().as_bytes()[0]);
        (self.method == Method::GET && is_passing)
            .then(|| (PAUSE + PAUSE * chance / (2 * u32::from(u8::MAX))) * 2u32.pow(tries))
    }
}

impl Api {
    pub(super) fn new(base: &str, credentials: Credentials) -> Answer<Self> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .user_agent(concat!("bash-tools/", env!("CARGO_PKG_VERSION")))
            // The API never sends anywhere else, and the token is for nobody else.
            .redirect(redirect::Policy::none())
            .build()
            .map_err(|error| Error::Broken(error.into()))?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned(), credentials })
    }

    pub(super) fn project(&self) -> &str {
        &self.credentials.project
    }

    /// Sends a call and reads its answer.
    pub(super) async fn json<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Fault> {
        let response = self.send(call).await?;
        let body = in_time(call.limit, self.body(response)).await?;
        serde_json::from_slice(&body).map_err(Fault::BadAnswer)
    }

    /// Sends a call whose answer says nothing but that it worked.
    pub(super) async fn done(&self, call: &Call) -> Result<(), Fault> {
        self.send(call).await.map(drop)
    }

    /// Sends a call, again where that makes sense. What is answered is a success of which only the head has come.
    pub(super) async fn send(&self, call: &Call) -> Result<Response, Fault> {
        let mut tries = 0;
        loop {
            let fault = match in_time(call.limit, self.send_once(self.request(call)?)).await {
                Ok(response) => return Ok(response),
                Err(fault) => fault,
            };
            let Some(pause) = call.pause_after(&fault, tries) else { return Err(fault) };
            tracing::debug!(path = call.path, %fault, ?pause, "a call of Vercel's API is sent again");
            sleep(pause).await;
            tries += 1;
        }
    }

    /// Sends an archive as it comes, which can be done but once.
    pub(super) async fn upload(
        &self,
        path: String,
        into: &'static str,
        archive: reqwest::Body,
    ) -> Result<(), Fault> {
        let request = self.start(Method::POST, &path)?;
        let request = request.header(CONTENT_TYPE, GZIP).header(CWD, into).body(archive);
        in_time(TRANSFER, self.send_once(request)).await.map(drop)
    }

    fn request(&self, call: &Call) -> Result<RequestBuilder, Fault> {
        let request = self.start(call.method.clone(), &call.path)?.query(&call.query);
        Ok(match &call.body {
            // The API wants the type even where there is nothing of it.
            Body::Empty => request.header(CONTENT_TYPE, JSON),
            Body::Json(body) => request.header(CONTENT_TYPE, JSON).body(body.clone()),
            Body::Archive(archive, into) => {
                request.header(CONTENT_TYPE, GZIP).header(CWD, *into).body(archive.clone())
            }
        })
    }

    fn start(&self, method: Method, path: &str) -> Result<RequestBuilder, Fault> {
        if let Some(ago) = self.credentials.expired() {
            return Err(Fault::Expired { ago });
        }
        let authorization = self.credentials.authorization();
        let authorization = authorization.expect("credentials are made only of what is a header's value");
        let request = self.http.request(method, format!("{}{path}", self.base));
        Ok(request.header(AUTHORIZATION, authorization).query(&[("teamId", &self.credentials.team)]))
    }

    async fn send_once(&self, request: RequestBuilder) -> Result<Response, Fault> {
        let response = request.send().await.map_err(broken)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let retry_after = retry_after(&response);
        // Whatever cannot be read of a refusal, it is one.
        let body = self.body(response).await.unwrap_or_default();
        let words = serde_json::from_slice::<ErrorBody>(&body).unwrap_or_default().error;
        let said =
            if words.message.is_empty() { format!("status {}", status.as_u16()) } else { words.message };
        Err(Fault::Refused { status, code: self.shown(&words.code), said: self.shown(&said), retry_after })
    }

    async fn body(&self, mut response: Response) -> Result<Bytes, Fault> {
        let mut body = BytesMut::new();
        while let Some(part) = response.chunk().await.map_err(broken)? {
            if body.len() + part.len() > MAX_ANSWER_BYTES {
                return Err(Fault::TooLong { limit: MAX_ANSWER_BYTES });
            }
            body.extend_from_slice(&part);
        }
        Ok(body.freeze())
    }

    /// Vercel's text as it may be shown.
    fn shown(&self, text: &str) -> String {
        let text = self.credentials.redact(text);
        text.chars().filter(|c| !c.is_control()).take(MAX_SAID_CHARS).collect()
    }
}

const JSON: &str = "application/json";
const GZIP: &str = "application/gzip";

/// Says where an archive is unpacked.
const CWD: &str = "x-cwd";

/// A path of the API's second version, whose ids may be anything.
pub(super) fn path(segments: &[&str]) -> String {
    let mut path = "/v2/sandboxes".to_owned();
    for segment in segments {
        path.push('/');
        path.extend(utf8_percent_encode(segment, SEGMENT));
    }
    path
}

pub(super) fn broken(error: reqwest::Error) -> Fault {
    // It names team and project.
    Fault::Broken(error.without_url())
}

/// In seconds; the form with a date is not used by Vercel.
fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

async fn in_time<T>(limit: Duration, act: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    timeout(limit, act).await.unwrap_or(Err(Fault::Deadline { after: limit }))
}
