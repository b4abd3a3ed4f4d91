//! One request of a visitor: which preview, may it, and what its server says.

use std::error::Error as _;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use hop_by_hop::is_upgrade;
use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use listen::unread::{self, Tracked};
use listen::waiting::Seat;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::admission::{Admission, Admitted, Entrance, Porter};
use super::body::{self, PreviewBody};
use super::pages::{self, Trouble};
use super::upstream::{self, Upstream};
use super::{cookies, credentials, upgrade};
use crate::model::preview::LinkEnd;
use crate::model::{AdminToken, Refusal, Resource};
use crate::service::{self, Link, Service};

/// What a connection holds. It goes along where the connection becomes something else, so that it counts among the
/// visitors for as long as it is open.
pub(super) struct Held {
    pub(super) _place: Arc<OwnedSemaphorePermit>,
    /// Cancelled when the entrance is closed.
    pub(super) stopping: CancellationToken,
}

/// Passes requests on.
pub(super) struct Gateway {
    service: Arc<Service>,
    upstream: Upstream,
    porter: Porter,
    /// Not to be passed on.
    token: AdminToken,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").finish_non_exhaustive()
    }
}

impl Gateway {
    pub(super) fn new(service: Arc<Service>, token: AdminToken) -> Self {
        let upstream = Upstream::new(Arc::clone(&service));
        Self { porter: Porter::new(Arc::clone(&service)), service, upstream, token }
    }

    /// Answers a request, whatever it is.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        entrance: &Entrance,
        visitor: IpAddr,
        held: Held,
    ) -> Response<PreviewBody> {
        let headers = request.headers().clone();
        let (mut request, reading) = unread::track(request);
        let answered = match self.porter.admit(&request, entrance, visitor) {
            Ok(Admission::Admitted(admitted)) => {
                if let Some(seat) = request.extensions_mut().remove::<Arc<Seat>>() {
                    seat.vouch();
                }
                let link = Arc::clone(&admitted.link);
                let passed = self.pass_on(request, admitted, held).await;
                passed.map_err(|trouble| self.unless_deleted(trouble, &link))
            }
            Ok(Admission::Answered(response)) => Ok(response),
            Err(trouble) => Err(trouble),
        };
        let mut response = answered.unwrap_or_else(|trouble| pages::answer(trouble, &headers));
        reading.tell(&mut response);
        response
    }

    /// The answer for a sandbox that could not be reached or broke the connection off. One that is being deleted is gone for
    /// good.
    fn unless_deleted(&self, trouble: Trouble, link: &Link) -> Trouble {
        match trouble {
            Trouble::NotReady | Trouble::BrokeOff
                if self.service.sandboxes().is_deleted(&link.record().sandbox) =>
            {
                Trouble::Ended(LinkEnd::SandboxGone)
            }
            other => other,
        }
    }

    async fn pass_on(
        &self,
        mut request: Request<Tracked>,
        Admitted { link, seen, jar }: Admitted,
        held: Held,
    ) -> Result<Response<PreviewBody>, Trouble> {
        // A daemon that stops wakes nothing more. A request may have come just before its connection was told to end.
        if held.stopping.is_cancelled() {
            return Err(link.end().map_or(Trouble::NotReady, Trouble::Ended));
        }
        let used = self
            .service
            .previews()
            .use_preview(&link)
            .await
            .map_err(|error| trouble_of(&error, seen.port))?;
        // To wake the sandbox may have taken a while.
        if let Some(end) = link.end() {
            return Err(Trouble::Ended(end));
        }
        if self.token.is_in(request.uri().path_and_query().map_or("", |path| path.as_str()).as_bytes()) {
            return Err(Trouble::Malformed("Its address has the daemon's own token in it."));
        }
        let visitor = is_upgrade(request.headers()).then(|| hyper::upgrade::on(&mut request));
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = upstream::uri(&link.record().sandbox, seen.port, path)
            .map_err(|_| Trouble::Malformed("Its path cannot be passed on."))?;
        *request.version_mut() = Version::HTTP_11;
        if let Some(jar) = &jar {
            jar.let_in(request.headers_mut());
        }
        credentials::take_off(request.headers_mut(), &self.token);
        seen.to_sandbox(request.headers_mut());
        let (request, sent) = body::sent(request);
        let answered = self.upstream.ask(request);
        let mut response = tokio::select! {
            answered = answered => answered.map_err(|error| refused(&error, seen.port))?,
            () = sent.silent_for(self.service.limits().preview_answer) => return Err(Trouble::NoAnswer),
            () = link.ended() => return Err(link.end().map_or(Trouble::BrokeOff, Trouble::Ended)),
        };
        cookies::untie(response.headers_mut());
        if let Some(jar) = &jar {
            jar.let_out(response.headers_mut());
        }
        seen.to_visitor(response.headers_mut());
        match visitor {
            Some(visitor) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                let server = hyper::upgrade::on(&mut response);
                tokio::spawn(upgrade::carry(visitor, server, Arc::clone(&link), used.into_activity(), held));
                Ok(response.map(|_| body::empty()))
            }
            // Nobody asked for it.
            _ if response.status() == StatusCode::SWITCHING_PROTOCOLS => Err(Trouble::BrokeOff),
            _ => Ok(response.map(|body| body::answer(body, &link, used))),
        }
    }
}

/// Why a request got no answer.
fn refused(error: &legacy::Error, port: u16) -> Trouble {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<service::Error>() {
            return trouble_of(error, port);
        }
        if error.is::<body::Unreadable>() {
            return Trouble::Malformed("Its body cannot be read to the end.");
        }
        cause = error.source();
    }
    debug!(error = error as &dyn std::error::Error, "a server in a sandbox broke off");
    Trouble::BrokeOff
}

fn trouble_of(error: &service::Error, port: u16) -> Trouble {
    match error {
        service::Error::Refused(Refusal::PortClosed { .. }) => Trouble::NothingListens(port),
        service::Error::Refused(Refusal::NotFound(Resource::Port)) => Trouble::NotOffered,
        service::Error::Refused(Refusal::NotFound(_)) => Trouble::Ended(LinkEnd::SandboxGone),
        service::Error::Refused(Refusal::LimitReached { .. }) => Trouble::Crowded,
        error => {
            debug!(error = error as &dyn std::error::Error, "a preview's sandbox cannot be had");
            Trouble::NotReady
        }
    }
}
