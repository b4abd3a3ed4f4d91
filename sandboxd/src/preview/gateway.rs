//! Handles one request of a visitor: authenticates it, rewrites it, sends it to the server in the sandbox, and rewrites
//! the response.

use std::error::Error as _;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use hop_by_hop::is_upgrade;
use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use listen::client_address;
use listen::slot::ConnectionSlot;
use listen::unread::{self, TrackedBody};
use tracing::debug;

use super::admission::{Admission, Admitted, Authenticator, ListenerScope};
use super::body::{self, PreviewBody};
use super::pages::{self, PreviewError};
use super::upgrade::{self, Held};
use super::upstream::{self, Upstream};
use super::{cookies, credentials, download};
use crate::model::preview::LinkEnd;
use crate::model::rates::RateSettings;
use crate::model::{AdminToken, Refusal, Resource, limits};
use crate::service::{self, Link, Service};

/// Forwards requests to sandboxes.
pub(super) struct Gateway {
    service: Arc<Service>,
    upstream: Upstream,
    authenticator: Authenticator,
    /// Removed from every request.
    token: AdminToken,
    /// Has the proxies that name their visitors.
    rates: Arc<RateSettings>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").finish_non_exhaustive()
    }
}

impl Gateway {
    pub(super) fn new(service: Arc<Service>, token: AdminToken, rates: Arc<RateSettings>) -> Self {
        let upstream = Upstream::new(Arc::clone(&service));
        Self { authenticator: Authenticator::new(Arc::clone(&service)), service, upstream, token, rates }
    }

    /// Responds to any request. `peer` is the other end of its connection: the visitor, or a proxy.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        scope: &ListenerScope,
        peer: IpAddr,
        held: Held,
    ) -> Response<PreviewBody> {
        let headers = request.headers().clone();
        let is_proxy = |address| self.rates.is_proxy(address);
        let visitor = client_address(peer, &headers, limits::MAX_FORWARDED, is_proxy);
        let (mut request, reading) = unread::track(request);
        let answered = match self.authenticator.admit(&request, scope, visitor) {
            Ok(Admission::Admitted(admitted)) => {
                mark_authenticated(&mut request);
                let link = Arc::clone(&admitted.link);
                match self.service.previews().record_visit(&link, visitor) {
                    Ok(()) => {
                        let forwarded = self.forward(request, admitted, held).await;
                        forwarded.map_err(|error| self.unless_deleted(error, &link))
                    }
                    Err(_) => Err(PreviewError::Unrecorded),
                }
            }
            Ok(Admission::Download(grant)) => {
                let slot = mark_authenticated(&mut request);
                download::answer(&self.service, grant, visitor, request.method(), &headers, slot, &held).await
            }
            Ok(Admission::Answered(response)) => Ok(response),
            Err(error) => Err(error),
        };
        let mut response = answered.unwrap_or_else(|error| pages::answer(error, &headers));
        reading.announce_close(&mut response);
        response
    }

    /// If the sandbox is being deleted, reports a connection error as the link's end, because a retry cannot succeed.
    fn unless_deleted(&self, error: PreviewError, link: &Link) -> PreviewError {
        match error {
            PreviewError::NotReady | PreviewError::ConnectionBroke
                if self.service.sandboxes().is_deleted(&link.record().sandbox) =>
            {
                PreviewError::Ended(LinkEnd::SandboxGone)
            }
            other => other,
        }
    }

    async fn forward(
        &self,
        mut request: Request<TrackedBody>,
        Admitted { link, context, jar }: Admitted,
        held: Held,
    ) -> Result<Response<PreviewBody>, PreviewError> {
        // A daemon that shuts down wakes no sandbox. This request may have arrived just before the shutdown.
        if held.stopping.is_cancelled() {
            return Err(link.end().map_or(PreviewError::NotReady, PreviewError::Ended));
        }
        let used = self
            .service
            .previews()
            .use_preview(&link)
            .await
            .map_err(|error| error_of(&error, context.port))?;
        // The link may have ended while the sandbox woke.
        if let Some(end) = link.end() {
            return Err(PreviewError::Ended(end));
        }
        if self.token.is_in(request.uri().path_and_query().map_or("", |path| path.as_str()).as_bytes()) {
            return Err(PreviewError::Malformed("Its address contains the daemon's admin token."));
        }
        let visitor = is_upgrade(request.headers()).then(|| hyper::upgrade::on(&mut request));
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = upstream::uri(&link.record().sandbox, context.port, path)
            .map_err(|_| PreviewError::Malformed("Its path is invalid."))?;
        *request.version_mut() = Version::HTTP_11;
        if let Some(jar) = &jar {
            jar.to_sandbox(request.headers_mut());
        }
        credentials::remove_token(request.headers_mut(), &self.token);
        context.to_sandbox(request.headers_mut());
        let (request, progress) = body::track_upload(request);
        let answered = self.upstream.send(request);
        let mut response = tokio::select! {
            answered = answered => answered.map_err(|error| refused(&error, context.port))?,
            () = progress.idle_for(self.service.limits().preview_answer) => return Err(PreviewError::NoAnswer),
            () = link.ended() => return Err(link.end().map_or(PreviewError::ConnectionBroke, PreviewError::Ended)),
        };
        cookies::remove_domains(response.headers_mut());
        if let Some(jar) = &jar {
            jar.to_visitor(response.headers_mut());
        }
        context.to_visitor(response.headers_mut());
        match visitor {
            Some(visitor) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                let server = hyper::upgrade::on(&mut response);
                tokio::spawn(upgrade::carry(visitor, server, Arc::clone(&link), used.into_activity(), held));
                Ok(response.map(|_| body::empty()))
            }
            // The visitor did not request an upgrade.
            _ if response.status() == StatusCode::SWITCHING_PROTOCOLS => Err(PreviewError::ConnectionBroke),
            _ => Ok(response.map(|body| body::response(body, &link, used))),
        }
    }
}

/// Records that the visitor has a link, so that connections of strangers are closed first. Returns the slot of the
/// connection.
fn mark_authenticated(request: &mut Request<TrackedBody>) -> Option<Arc<ConnectionSlot>> {
    let slot = request.extensions_mut().remove::<Arc<ConnectionSlot>>();
    slot.inspect(|slot| slot.mark_authenticated())
}

/// Converts the error of a request that got no response.
fn refused(error: &legacy::Error, port: u16) -> PreviewError {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<service::Error>() {
            return error_of(error, port);
        }
        if error.is::<body::Unreadable>() {
            return PreviewError::Malformed("Its body is incomplete or malformed.");
        }
        cause = error.source();
    }
    debug!(error = error as &dyn std::error::Error, "a connection to a server in a sandbox broke");
    PreviewError::ConnectionBroke
}

fn error_of(error: &service::Error, port: u16) -> PreviewError {
    match error {
        service::Error::Refused(Refusal::PortClosed { .. }) => PreviewError::NothingListens(port),
        service::Error::Refused(Refusal::NotFound(Resource::Port)) => PreviewError::PortNotExposed,
        service::Error::Refused(Refusal::NotFound(_)) => PreviewError::Ended(LinkEnd::SandboxGone),
        service::Error::Refused(Refusal::LimitReached { .. }) => PreviewError::TooManyConnections,
        error => {
            debug!(error = error as &dyn std::error::Error, "could not use the sandbox of a preview");
            PreviewError::NotReady
        }
    }
}
