//! Limits on the number of requests.

use std::net::IpAddr;
use std::num::NonZeroU32;

use ipnet::IpNet;

use crate::front::is_in;

/// How many requests a subject may send in a minute. An address may send [`crate::limits::SUBJECTS_PER_ADDRESS`] times as
/// many.
#[derive(Debug, Clone, Default)]
pub struct RateSettings {
    /// Requests that read. `None` is any number.
    pub reads: Option<NonZeroU32>,
    /// Requests that run, write or change something.
    pub commands: Option<NonZeroU32>,
    /// Requests that create sandboxes, snapshots or links to them.
    pub creates: Option<NonZeroU32>,
    /// Proxies whose `X-Forwarded-For` names the client.
    pub trusted_proxies: Vec<IpNet>,
}

/// What a request does, for its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateClass {
    /// It reads.
    Reads,
    /// It runs, writes or changes something.
    Commands,
    /// It creates a sandbox, a snapshot or a token.
    Creates,
}

impl RateClass {
    /// All classes.
    pub const ALL: [Self; 3] = [Self::Reads, Self::Commands, Self::Creates];

    /// Its name in headers and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Commands => "commands",
            Self::Creates => "creates",
        }
    }
}

impl RateSettings {
    /// Whether this is the address of a trusted proxy.
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        is_in(&self.trusted_proxies, address)
    }

    /// Requests of a class that a subject may send in a minute.
    pub fn of(&self, class: RateClass) -> Option<NonZeroU32> {
        match class {
            RateClass::Reads => self.reads,
            RateClass::Commands => self.commands,
            RateClass::Creates => self.creates,
        }
    }
}
