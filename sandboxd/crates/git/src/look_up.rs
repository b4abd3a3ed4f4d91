//! The branches and tags of a repository (gitprotocol-http(5)).

use std::future::Future;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::Url;
use sandboxd_model::limits;
use sandboxd_model::repository::{Advertisement, HttpsUrl};
use tokio::time::timeout;

use crate::client::{Answer, Call};
use crate::pkt_line::{self, Greeting};
use crate::{Client, Error};

/// Path and query of the first request, after the address of the repository.
pub(crate) const INFO_REFS: &str = "/info/refs?service=git-upload-pack";
/// Path of the others.
pub(crate) const UPLOAD_PACK: &str = "/git-upload-pack";
/// Selects the version of the protocol.
const GIT_PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");
const VERSION_2: HeaderValue = HeaderValue::from_static("version=2");
const REQUEST_TYPE: HeaderValue = HeaderValue::from_static("application/x-git-upload-pack-request");
const RESPONSE_TYPE: HeaderValue = HeaderValue::from_static("application/x-git-upload-pack-result");

impl Client {
    /// The branches and tags of a repository. `with_token` sends the token of its host.
    pub async fn refs(&self, url: &HttpsUrl, with_token: bool) -> Result<Advertisement, Error> {
        within_look_up(async {
            let headers = HeaderMap::from_iter([(GIT_PROTOCOL, VERSION_2)]);
            let answer = self.info_refs(url, headers, with_token).await?;
            let base = base_of(&answer.url)?;
            let is_moved = base.origin() != url_of(url)?.origin();
            match pkt_line::greeting(&answer.bytes().await?)? {
                Greeting::First(refs) => Ok(refs),
                // A token is not sent to the host of a redirect.
                Greeting::Second => self.ls_refs(&base, with_token && !is_moved).await,
            }
        })
        .await
    }

    /// Sends the first request of a look-up or a fetch, and follows redirects.
    pub(crate) async fn info_refs(
        &self,
        url: &HttpsUrl,
        headers: HeaderMap,
        with_token: bool,
    ) -> Result<Answer, Error> {
        let url = format!("{url}{INFO_REFS}").parse().map_err(|_| Error::Malformed("the address"))?;
        let call = Call {
            method: Method::GET,
            url,
            headers,
            body: Bytes::new(),
            with_token,
            follows_redirects: true,
        };
        self.send(call).await?.checked()
    }

    async fn ls_refs(&self, base: &Url, with_token: bool) -> Result<Advertisement, Error> {
        let call = Call {
            method: Method::POST,
            url: below(base, UPLOAD_PACK)?,
            headers: HeaderMap::from_iter([
                (GIT_PROTOCOL, VERSION_2),
                (CONTENT_TYPE, REQUEST_TYPE),
                (ACCEPT, RESPONSE_TYPE),
            ]),
            body: ls_refs_request().into(),
            with_token,
            follows_redirects: false,
        };
        pkt_line::refs(&self.send(call).await?.checked()?.bytes().await?)
    }
}

/// Fails if a look-up takes too long.
pub(crate) async fn within_look_up<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(limits::LOOK_UP, work).await.map_err(|_| Error::Silent)?
}

fn ls_refs_request() -> String {
    let arguments = ["peel", "symrefs", "ref-prefix HEAD", "ref-prefix refs/heads/", "ref-prefix refs/tags/"];
    let command = [pkt_line::line("command=ls-refs"), "0001".into()].concat();
    let arguments: String = arguments.into_iter().map(pkt_line::line).collect();
    format!("{command}{arguments}0000")
}

pub(crate) fn url_of(url: &HttpsUrl) -> Result<Url, Error> {
    url.to_string().parse().map_err(|_| Error::Malformed("the address"))
}

/// Address of the repository whose first request was answered by `url`. A redirect must keep the end of the address, as git
/// itself requires it.
pub(crate) fn base_of(url: &Url) -> Result<Url, Error> {
    let base = url.as_str().strip_suffix(INFO_REFS).ok_or(Error::Redirect)?;
    base.parse().map_err(|_| Error::Redirect)
}

/// An address below that of a repository.
pub(crate) fn below(base: &Url, path: &str) -> Result<Url, Error> {
    format!("{}{path}", base.as_str().trim_end_matches('/')).parse().map_err(|_| Error::Redirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_must_lead_to_a_repository() {
        let base = |text: &str| base_of(&text.parse().unwrap()).map(|url| url.to_string()).ok();
        let moved = "https://git.example/new.git";
        assert_eq!(base(&format!("{moved}{INFO_REFS}")).as_deref(), Some(moved));
        for other in ["https://git.example/login", "https://git.example/a/info/refs?service=git-receive-pack"]
        {
            assert_eq!(base(other), None, "{other}");
        }
    }

    #[test]
    fn only_branches_and_tags_are_requested() {
        let request = ls_refs_request();
        let lines: Vec<_> = pkt_line::packets(request.as_bytes()).map(Result::unwrap).collect();
        assert_eq!(lines[0], pkt_line::Packet::Line(b"command=ls-refs"));
        assert_eq!((lines.len(), lines.last()), (8, Some(&pkt_line::Packet::Mark)));
    }
}
