//! What happens on the engine without our doing.

use std::collections::HashMap;

use bollard::models::{EventMessage, EventMessageTypeEnum};
use bollard::query_parameters::EventsOptions;
use futures::{Stream, StreamExt};
use sandbox_api::SandboxId;

use super::labels::{INSTANCE, SANDBOX_ID};
use super::{Engine, Error};

/// What of a container's life concerns us. Docker API 1.41, `GET /events`.
const ACTIONS: [&str; 4] = ["die", "destroy", "oom", "start"];

impl Engine {
    /// The sandboxes whose containers started, ended or went away, as it happens. What the labels say is not
    /// verified: it is where to look and nothing more. Ends with an error when the engine goes away.
    pub fn changes(&self) -> impl Stream<Item = Result<SandboxId, Error>> + Send + use<> {
        let label = format!("{INSTANCE}={}", self.instance.id());
        let filters = HashMap::from([
            ("type".to_owned(), vec![EventMessageTypeEnum::CONTAINER.to_string()]),
            ("label".to_owned(), vec![label]),
            ("event".to_owned(), ACTIONS.map(str::to_owned).into()),
        ]);
        let options = EventsOptions { filters: Some(filters), ..Default::default() };
        let address = self.address.clone();
        self.docker.events(Some(options)).filter_map(move |event| {
            let found = match event {
                Ok(event) => sandbox_of(event).map(Ok),
                Err(source) => Some(Err(Error::from_call("events", &address, source))),
            };
            std::future::ready(found)
        })
    }
}

fn sandbox_of(event: EventMessage) -> Option<SandboxId> {
    event.actor?.attributes?.get(SANDBOX_ID)?.parse().ok()
}
