//! What happens on the engine without our doing.

use std::collections::HashMap;

use bollard::models::{EventMessage, EventMessageTypeEnum};
use bollard::query_parameters::EventsOptions;
use futures::{Stream, StreamExt};
use sandbox_api::SandboxId;

use super::labels::{INSTANCE, PROXY_PORT, SANDBOX_ID};
use super::{Engine, Error};

/// What of a container's life concerns us. Docker API 1.41, `GET /events`.
const ACTIONS: [&str; 7] = ["die", "destroy", "oom", "pause", "rename", "start", "update"];

/// Something that happened to a sandbox's container, or to one that publishes a port of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Whose container, as its labels claim.
    pub sandbox: SandboxId,
    /// Whether it is one that publishes a port.
    pub of_publisher: bool,
    /// That its memory was not enough, and when, in milliseconds since the Unix epoch by the engine's clock;
    /// `None` is anything else that happened to it.
    pub oom_at_ms: Option<i64>,
}

impl Engine {
    /// What happens to the sandboxes' containers, as it happens, and before that what happened since
    /// `since_ms`. What the labels say is not verified: it is where to look and nothing more. Ends with an
    /// error when the engine goes away.
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
        self.docker.events(Some(options)).filter_map(move |event| {
            let found = match event {
                Ok(event) => change_of(event).map(Ok),
                Err(source) => Some(Err(Error::from_call("events", &address, source))),
            };
            std::future::ready(found)
        })
    }

    /// Each time an epoch of ours is made, by whichever daemon, from `since_ms` on. Ends with an error when the engine goes away.
    pub fn new_epochs(&self, since_ms: i64) -> impl Stream<Item = Result<(), Error>> + Send + use<> {
        let filters = HashMap::from([
            ("type".to_owned(), vec![EventMessageTypeEnum::VOLUME.to_string()]),
            ("event".to_owned(), vec!["create".to_owned()]),
        ]);
        let options =
            EventsOptions { since: Some(seconds(since_ms)), filters: Some(filters), ..Default::default() };
        let (address, prefix) = (self.address.clone(), self.epoch_prefix());
        self.docker.events(Some(options)).filter_map(move |event| {
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
}

fn change_of(event: EventMessage) -> Option<Change> {
    let attributes = event.actor?.attributes?;
    let sandbox = attributes.get(SANDBOX_ID)?.parse().ok()?;
    let of_publisher = attributes.contains_key(PROXY_PORT);
    let is_oom = event.action.as_deref() == Some("oom") && !of_publisher;
    let at_ms = event.time_nano.map(|nanos| nanos / 1_000_000);
    Some(Change { sandbox, of_publisher, oom_at_ms: at_ms.filter(|_| is_oom) })
}

/// A time as the engine takes it: seconds with a fraction.
fn seconds(ms: i64) -> String {
    format!("{}.{:03}000000", ms.div_euclid(1000), ms.rem_euclid(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_engines_nine_digits() {
        assert_eq!(seconds(1_795_275_339_015), "1795275339.015000000");
        assert_eq!(seconds(0), "0.000000000");
    }
}
