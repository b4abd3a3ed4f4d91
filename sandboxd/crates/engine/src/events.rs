//! Events of the engine that the daemon did not cause.

use std::collections::HashMap;

use bollard::models::{EventMessage, EventMessageTypeEnum};
use bollard::query_parameters::EventsOptions;
use futures::{Stream, StreamExt};
use sandbox_api::SandboxId;

use super::labels::{INSTANCE, PROXY_PORT, SANDBOX_ID};
use super::{Engine, Error};

/// The events of a container that matter here. Docker API 1.41, `GET /events`.
const ACTIONS: [&str; 7] = ["die", "destroy", "oom", "pause", "rename", "start", "update"];

/// An event of a sandbox's container, or of the container that publishes one of its ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The sandbox, according to the container's labels.
    pub sandbox: SandboxId,
    /// Whether the container publishes a port.
    pub of_publisher: bool,
    /// When the sandbox ran out of memory, in milliseconds since the Unix epoch by the engine's clock. `None` for
    /// any other event.
    pub oom_at_ms: Option<i64>,
}

impl Engine {
    /// The events of the sandboxes' containers, beginning with those since `since_ms`. The labels are not verified:
    /// an event says where to look, and nothing else. Ends with an error when the connection to the engine is lost.
    pub fn changes(&self, since_ms: i64) -> impl Stream<Item = Result<Change, Error>> + Send + use<> {
        let label = format!("{INSTANCE}={}", self.instance.id());
        let filters = HashMap::from([
            ("type".to_owned(), vec![EventMessageTypeEnum::CONTAINER.to_string()]),
            ("label".to_owned(), vec![label]),
            ("event".to_owned(), ACTIONS.map(str::to_owned).into()),
        ]);
        let options =
            EventsOptions { since: Some(seconds(since_ms)), filters: Some(filters), ..Default::default() };
        let address = self.address.clone();
        self.docker.events(options).filter_map(move |event| {
            let found = match event {
                Ok(event) => change_of(event).map(Ok),
                Err(source) => Some(Err(Error::from_call("events", &address, source))),
            };
            std::future::ready(found)
        })
    }

    /// An item for each new epoch of this instance since `since_ms`, whichever daemon created it. Ends with an
    /// error when the connection to the engine is lost.
    pub fn new_epochs(&self, since_ms: i64) -> impl Stream<Item = Result<(), Error>> + Send + use<> {
        let filters = HashMap::from([
            ("type".to_owned(), vec![EventMessageTypeEnum::VOLUME.to_string()]),
            ("event".to_owned(), vec!["create".to_owned()]),
        ]);
        let options =
            EventsOptions { since: Some(seconds(since_ms)), filters: Some(filters), ..Default::default() };
        let (address, prefix) = (self.address.clone(), self.epoch_prefix());
        self.docker.events(options).filter_map(move |event| {
            let found = match event {
                Ok(event) => {
                    let name = event.actor.and_then(|actor| actor.id);
                    name.filter(|name| name.starts_with(&prefix)).map(|_| Ok(()))
                }
                Err(source) => Some(Err(Error::from_call("events", &address, source))),
            };
            std::future::ready(found)
        })
    }

    /// An item for each name that an image gets or loses since `since_ms`. Ends with an error when the connection to the
    /// engine is lost.
    pub fn image_changes(&self, since_ms: i64) -> impl Stream<Item = Result<(), Error>> + Send + use<> {
        let filters = HashMap::from([
            ("type".to_owned(), vec![EventMessageTypeEnum::IMAGE.to_string()]),
            ("event".to_owned(), ["delete", "load", "pull", "tag", "untag"].map(str::to_owned).into()),
        ]);
        let options =
            EventsOptions { since: Some(seconds(since_ms)), filters: Some(filters), ..Default::default() };
        let address = self.address.clone();
        let changes = self.docker.events(options);
        changes
            .map(move |event| event.map(drop).map_err(|source| Error::from_call("events", &address, source)))
    }
}

fn change_of(event: EventMessage) -> Option<Change> {
    let attributes = event.actor?.attributes?;
    let sandbox = attributes.get(SANDBOX_ID)?.parse().ok()?;
    let of_publisher = attributes.contains_key(PROXY_PORT);
    let is_oom = event.action.as_deref() == Some("oom") && !of_publisher;
    let at_ms = event.time_nano.map(|nanos| nanos / 1_000_000);
    Some(Change { sandbox, of_publisher, oom_at_ms: at_ms.filter(|_| is_oom) })
}

/// A time in the engine's format: seconds with a fraction.
fn seconds(ms: i64) -> String {
    format!("{}.{:03}000000", ms.div_euclid(1000), ms.rem_euclid(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_nine_fractional_digits() {
        assert_eq!(seconds(1_795_275_339_015), "1795275339.015000000");
        assert_eq!(seconds(0), "0.000000000");
    }
}
