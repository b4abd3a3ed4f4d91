//! Client for Vercel's REST API: authentication, and limits of responses.
//!
//! Only the API gets the token. Redirects are not followed, and messages of Vercel are passed on without the token.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, redirect};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use super::call::{Body, Call, TRANSFER};
use super::credentials::Credentials;
use super::fault::Fault;
use super::wire::ErrorBody;
use crate::provider::{Error, Result as Answer};

/// Deadline for connecting.
const CONNECT: Duration = Duration::from_secs(10);

/// Maximum length of a JSON response.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// Maximum length of a message from Vercel, in characters.
const MAX_MESSAGE_CHARS: usize = 500;

/// A connection pool to Vercel for one project.
#[derive(Debug)]
pub(super) struct Api {
    http: reqwest::Client,
    base: String,
    credentials: Credentials,
}

impl Api {
    pub(super) fn new(base: &str, credentials: Credentials) -> Answer<Self> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .user_agent(concat!("bash-tools/", env!("CARGO_PKG_VERSION")))
            // The API never redirects, and no other host may get the token.
            .redirect(redirect::Policy::none())
            .build()
            .map_err(|error| Error::Broken(error.into()))?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned(), credentials })
    }

    pub(super) fn project(&self) -> &str {
        &self.credentials.project
    }

    /// Sends a call and reads its JSON response.
    pub(super) async fn json<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Fault> {
        let mut tries = 0;
        loop {
            let answer = match self.send_in_time(call).await {
                Ok(response) => in_time(call.limit, self.body(response)).await,
                Err(fault) => Err(fault),
            };
            match answer {
                Ok(body) => return serde_json::from_slice(&body).map_err(Fault::BadAnswer),
                Err(fault) => rest(call, fault, &mut tries).await?,
            }
        }
    }

    /// Sends a call whose response only confirms success.
    pub(super) async fn done(&self, call: &Call) -> Result<(), Fault> {
        self.send(call).await.map(drop)
    }

    /// Sends a call and retries it where possible. Returns a successful response whose body is still unread.
    pub(super) async fn send(&self, call: &Call) -> Result<Response, Fault> {
        let mut tries = 0;
        loop {
            match self.send_in_time(call).await {
                Ok(response) => return Ok(response),
                Err(fault) => rest(call, fault, &mut tries).await?,
            }
        }
    }

    /// Sends a streamed archive, which can be sent only once.
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
            // The API requires the type even for an empty body.
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
        let authorization = authorization.expect("credentials are checked to be valid in a header");
        let request = self.http.request(method, format!("{}{path}", self.base));
        Ok(request.header(AUTHORIZATION, authorization).query(&[("teamId", &self.credentials.team)]))
    }

    async fn send_in_time(&self, call: &Call) -> Result<Response, Fault> {
        in_time(call.limit, self.send_once(self.request(call)?)).await
    }

    async fn send_once(&self, request: RequestBuilder) -> Result<Response, Fault> {
        let response = request.send().await.map_err(broken)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let retry_after = retry_after(&response);
        // The status alone makes it an error, even if the body cannot be read.
        let body = self.body(response).await.unwrap_or_default();
        let words = serde_json::from_slice::<ErrorBody>(&body).unwrap_or_default().error;
        let message =
            if words.message.is_empty() { format!("status {}", status.as_u16()) } else { words.message };
        Err(Fault::Refused {
            status,
            code: self.shown(&words.code),
            message: self.shown(&message),
            retry_after,
        })
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

    /// A message of Vercel in a form that may be shown.
    fn shown(&self, text: &str) -> String {
        let text = self.credentials.redact(text);
        text.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE_CHARS).collect()
    }
}

const JSON: &str = "application/json";
const GZIP: &str = "application/gzip";

/// Sets the directory in which an archive is unpacked.
const CWD: &str = "x-cwd";

pub(super) fn broken(error: reqwest::Error) -> Fault {
    // The URL names team and project.
    Fault::Broken(error.without_url())
}

/// Delay in seconds. Vercel does not use the date form.
fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

/// Waits before a retry, or returns the fault if there is none.
async fn rest(call: &Call, fault: Fault, tries: &mut u32) -> Result<(), Fault> {
    let Some(pause) = call.pause_after(&fault, *tries) else { return Err(fault) };
    tracing::debug!(path = call.path, %fault, ?pause, "retrying a call of Vercel's API");
    sleep(pause).await;
    *tries += 1;
    Ok(())
}

async fn in_time<T>(limit: Duration, act: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    timeout(limit, act).await.unwrap_or(Err(Fault::Deadline { after: limit }))
}
