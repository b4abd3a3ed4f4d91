//! Port and link handlers: convert between wire and model types.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use jiff::Timestamp;
use sandbox_api::Done;
use sandbox_api::port::{self as wire, CreateLink, LinkList, LinkStyle, PortFound, Ports, PublishedPort};

use super::body::Json;
use super::caller::{Reader, User};
use super::error::Result;
use super::hosts;
use super::openapi::answers::*;
use super::openapi::{InLink, InPort, InSandbox};
use super::params::{self, Params, Path};
use crate::model::port::ListeningPort;
use crate::model::preview::Reach;
use crate::model::{FieldError, limits};
use crate::preview::KEY_PARAMETER;
use crate::service::{Link, LinkRequest, Service};

/// List ports.
///
/// Returns the sandbox's listening sockets, published ports and links. A parked sandbox stays parked.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/ports", operation_id = "listPorts", tag = "ports",
    params(InSandbox), responses((status = 200, body = Ports), ByName, BySandbox))]
pub(super) async fn list(
    Reader(access): Reader,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Ports>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let listening = access.previews().listening(&id).await?;
    let links = access.previews().links(&id)?;
    let host = hosts::of(&headers);
    let published = access.previews().publications(&id).await;
    let to_published =
        |(port, host_port)| PublishedPort { port, host_port, url: published_url(&access, host_port, host) };
    Ok(Json(Ports {
        truncated: listening.truncated,
        listening: listening.ports.into_iter().map(listening_port).collect(),
        published: published.into_iter().map(to_published).collect(),
        links: links.iter().map(|link| to_wire(&access, link, host)).collect(),
    }))
}

/// Find a port.
///
/// Returns a URL for a port of the sandbox, created on the first request. It is either a link that lasts as long as
/// the sandbox, or a port that is published on the host. `found` is false if the sandbox may not expose the port.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/ports/{port}", operation_id = "findPort", tag = "ports",
    params(InPort, ("style" = Option<String>, Query, description = "`gateway` or `publish`. Default: the daemon's setting.")),
    responses((status = 200, body = PortFound), ByName, ByQuery, BySandbox))]
pub(super) async fn find(
    User(access): User,
    Path((id, port)): Path<(String, String)>,
    query: Params,
    headers: HeaderMap,
) -> Result<Json<PortFound>> {
    let (id, port) = (access.sandbox(params::sandbox(&id)?)?, params::port(&port)?);
    if reach(&access, &query)? == Reach::Publish {
        let host_port = access.previews().publish(&id, port).await?;
        let url = host_port.map(|port| published_url(&access, port, hosts::of(&headers)));
        return Ok(Json(PortFound { found: host_port.is_some(), host_port, url }));
    }
    let Some(link) = access.previews().default_link(&id, port, access.principal().token_id()).await? else {
        return Ok(Json(PortFound { found: false, host_port: None, url: None }));
    };
    let host_port = link.record().own_port.unwrap_or(access.previews().settings().bind.port());
    let url = url_of(&access, &link, hosts::of(&headers));
    Ok(Json(PortFound { found: true, host_port: Some(host_port), url: Some(url) }))
}

/// Create a link.
///
/// Creates a link to a port that the sandbox may expose. Its URL needs no other credentials. The port need not listen
/// yet.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/ports/{port}/links", operation_id = "createLink", tag = "ports",
    params(InPort), request_body = CreateLink,
    responses((status = 200, body = wire::Link), ByName, ByQuery, ByBody, BySandbox))]
pub(super) async fn create_link(
    User(access): User,
    Path((id, port)): Path<(String, String)>,
    headers: HeaderMap,
    Json(request): Json<CreateLink>,
) -> Result<Json<wire::Link>> {
    let (id, port) = (access.sandbox(params::sandbox(&id)?)?, params::port(&port)?);
    let request = LinkRequest {
        ttl: request.ttl_ms.map(ttl).transpose()?,
        style: request.style,
        token: access.principal().token_id().cloned(),
    };
    let link = access.previews().create_link(&id, port, request).await?;
    access.found("linkId", &link.record().id);
    Ok(Json(to_wire(&access, &link, hosts::of(&headers))))
}

/// List a port's links.
///
/// Returns the links to this port, without revoked and expired ones.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/ports/{port}/links", operation_id = "listLinks", tag = "ports",
    params(InPort), responses((status = 200, body = LinkList), ByName, ByQuery, BySandbox))]
pub(super) async fn links(
    Reader(access): Reader,
    Path((id, port)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<LinkList>> {
    let (id, port) = (access.sandbox(params::sandbox(&id)?)?, params::port(&port)?);
    let links = access.previews().links(&id)?.into_iter().filter(|link| link.record().port == port);
    let host = hosts::of(&headers);
    Ok(Json(LinkList { links: links.map(|link| to_wire(&access, &link, host)).collect() }))
}

/// Inspect a link.
///
/// Returns a link to this port, unless it is revoked or expired.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/ports/{port}/links/{linkId}", operation_id = "getLink", tag = "ports",
    params(InLink), responses((status = 200, body = wire::Link), ByName, ByQuery, BySandbox))]
pub(super) async fn link(
    Reader(access): Reader,
    Path((id, port, link)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Result<Json<wire::Link>> {
    let (id, port, link) =
        (access.sandbox(params::sandbox(&id)?)?, params::port(&port)?, params::link(&link)?);
    let link = access.previews().link(&id, port, &link)?;
    Ok(Json(to_wire(&access, &link, hosts::of(&headers))))
}

/// Revoke a link.
///
/// Closes open connections through the link at once.
#[utoipa::path(delete, path = "/v1/sandboxes/{id}/ports/{port}/links/{linkId}", operation_id = "revokeLink", tag = "ports",
    params(InLink), responses((status = 200, body = Done), ByName, ByQuery, BySandbox))]
pub(super) async fn revoke_link(
    User(access): User,
    Path((id, port, link)): Path<(String, String, String)>,
) -> Result<Json<Done>> {
    let (id, port, link) =
        (access.sandbox(params::sandbox(&id)?)?, params::port(&port)?, params::link(&link)?);
    access.previews().revoke_link(&id, port, &link).await?;
    Ok(Json(Done::OK))
}

fn reach(service: &Service, query: &Params) -> Result<Reach> {
    let Some(style) = query.get("style") else {
        return Ok(service.previews().settings().reach);
    };
    let reach = Reach::parse(style);
    Ok(reach.ok_or_else(|| FieldError::new("style", "must be `gateway` or `publish`"))?)
}

fn ttl(ttl_ms: u64) -> Result<Duration> {
    let range = limits::LINK_TTL_MS;
    if range.contains(&ttl_ms) {
        return Ok(Duration::from_millis(ttl_ms));
    }
    Err(FieldError::new("ttlMs", format!("must be {} to {}", range.start(), range.end())).into())
}

fn listening_port(listening: ListeningPort) -> wire::ListeningPort {
    let ListeningPort { port, address, process } = listening;
    let (process, pid) = process.map(|process| (process.name, process.pid)).unzip();
    wire::ListeningPort { port, address: address.to_string(), process, pid }
}

fn to_wire(service: &Service, link: &Arc<Link>, host: Option<&str>) -> wire::Link {
    let at = |ms| Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
    let record = link.record();
    wire::Link {
        link_id: record.id.clone(),
        port: record.port,
        style: record.style,
        url: url_of(service, link, host),
        created_at: at(record.created_at_ms),
        expires_at: record.expires_at_ms.map(at),
    }
}

fn published_url(service: &Service, host_port: u16, host: Option<&str>) -> String {
    let settings = service.previews().settings();
    settings.port_origin(settings.publish_ip, host_port, host)
}

fn url_of(service: &Service, link: &Link, host: Option<&str>) -> String {
    let (settings, record) = (service.previews().settings(), link.record());
    match (record.style, record.own_port) {
        (LinkStyle::Port, Some(port)) => {
            let origin = settings.port_origin(settings.bind.ip(), port, host);
            format!("{origin}/?{KEY_PARAMETER}={}", link.token().expose())
        }
        (LinkStyle::Host | LinkStyle::Port, _) => {
            format!("{}/", settings.host_origin(record.port, link.token()))
        }
    }
}
