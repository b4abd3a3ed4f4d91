//! The gateway: a way for visitors to a port of a sandbox, and to nothing else.
//!
//! It listens apart from the API and knows none of its routes, and of its token only how to keep it from sandboxes. A visitor has a link: a host name that
//! carries the link's token, or a listening port of its own with a cookie that does. Everything that comes from a
//! sandbox is hostile to the visitor's other pages: each preview is an origin of its own, cookies of the gateway never
//! reach a sandbox, and bytes pass in both directions without being kept.

mod address;
mod admission;
mod body;
mod cookies;
mod credentials;
mod door;
mod gateway;
mod headers;
mod location;
mod pages;
mod upgrade;
mod upstream;

use std::sync::Arc;

use listen::Places;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::admission::Entrance;
pub(crate) use self::admission::KEY_PARAMETER;
use self::gateway::Gateway;
use crate::model::{AdminToken, limits};
use crate::service::Service;

/// Serves previews until `shutdown`: by name on `listener`, and on the ports that links have of their own.
pub async fn serve(
    listener: TcpListener,
    service: Arc<Service>,
    token: AdminToken,
    shutdown: CancellationToken,
) {
    let Some(mut doors) = service.previews().listeners() else { return };
    let gateway = Arc::new(Gateway::new(Arc::clone(&service), token));
    let places = Places::new(limits::MAX_VISITORS);
    let entrances = TaskTracker::new();
    let entrance = |listener, entrance, shutdown| {
        entrances.spawn(door::serve(listener, entrance, Arc::clone(&gateway), places.clone(), shutdown));
    };
    entrance(listener, Entrance::ByName, shutdown.clone());
    loop {
        let door = tokio::select! {
            () = shutdown.cancelled() => break,
            door = doors.recv() => door,
        };
        let Some(door) = door else { break };
        let closed = shutdown.child_token();
        let shut = door.link.closing();
        let close = closed.clone();
        entrances.spawn(async move {
            tokio::select! {
                () = shut => close.cancel(),
                () = close.cancelled() => {}
            }
        });
        entrance(door.listener, Entrance::Own(door.link), closed);
    }
    entrances.close();
    entrances.wait().await;
}
