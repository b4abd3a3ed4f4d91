//! Why an outbound connection failed, in the form of each protocol of the proxy.

use agent_protocol::v1::{Refused, RefusedReason};
use http::StatusCode;
use hyper::ext::ReasonPhrase;

use crate::limits::MAX_REFUSAL_BYTES;

/// Reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Policy,
    NameNotFound,
    Unreachable,
    ByPeer,
    Timeout,
    Limit,
    Invalid,
    /// No sandboxd is connected.
    NoDaemon,
}

/// What the process receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    /// One line without a line break.
    text: Option<String>,
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self { reason, text: None }
    }
}

impl Refusal {
    pub(crate) fn from_wire(wire: &Refused) -> Self {
        let reason = match wire.reason() {
            RefusedReason::Policy => Reason::Policy,
            RefusedReason::NameNotFound => Reason::NameNotFound,
            RefusedReason::Unreachable | RefusedReason::Unspecified => Reason::Unreachable,
            RefusedReason::ByPeer => Reason::ByPeer,
            RefusedReason::Timeout => Reason::Timeout,
            RefusedReason::Limit => Reason::Limit,
            RefusedReason::Invalid => Reason::Invalid,
        };
        let text = one_line(&wire.text);
        Self { reason, text: (!text.is_empty()).then_some(text) }
    }

    /// Returns one line that says what is wrong and what to do. `authority` is the requested host and port.
    pub(crate) fn line(&self, authority: &str) -> String {
        self.text.clone().unwrap_or_else(|| format!("{authority}: {}\n", self.text_of_reason()))
    }

    fn text_of_reason(&self) -> &'static str {
        match self.reason {
            Reason::Policy => {
                "this sandbox's network policy does not allow it; do not retry, ask for it to be allowed"
            }
            Reason::NameNotFound => "there is no such host; check the name",
            Reason::Unreachable => {
                "the host cannot be reached from here; try again later or use another host"
            }
            Reason::ByPeer => "the host refused the connection; check the port",
            Reason::Timeout => "the host did not answer in time; try again later",
            Reason::Limit => {
                "this sandbox has reached its limit of connections or of transferred bytes; close some connections and try again"
            }
            Reason::Invalid => "this is not a valid host and port",
            Reason::NoDaemon => "the network is not available at the moment; try again in a few seconds",
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self.reason {
            Reason::Policy => StatusCode::FORBIDDEN,
            Reason::NameNotFound | Reason::Unreachable | Reason::ByPeer => StatusCode::BAD_GATEWAY,
            Reason::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Reason::Limit | Reason::NoDaemon => StatusCode::SERVICE_UNAVAILABLE,
            Reason::Invalid => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the reason phrase of the status line, because many programs show only that of a response to CONNECT.
    pub(crate) fn phrase(&self) -> ReasonPhrase {
        ReasonPhrase::from_static(match self.reason {
            Reason::Policy => b"Forbidden by the network policy of this sandbox",
            Reason::NameNotFound => b"No such host",
            Reason::Unreachable => b"Host unreachable",
            Reason::ByPeer => b"Connection refused by the host",
            Reason::Timeout => b"The host did not answer in time",
            Reason::Limit => b"Too many connections from this sandbox",
            Reason::Invalid => b"Not a valid host and port",
            Reason::NoDaemon => b"Network not available at the moment",
        })
    }

    /// Returns the reply field of RFC 1928, section 6.
    pub(crate) fn socks_code(&self) -> u8 {
        match self.reason {
            Reason::Limit | Reason::Invalid | Reason::NoDaemon => 1,
            Reason::Policy => 2,
            Reason::Unreachable => 3,
            Reason::NameNotFound => 4,
            Reason::ByPeer => 5,
            // "TTL expired" is the closest code.
            Reason::Timeout => 6,
        }
    }
}

fn one_line(text: &str) -> String {
    let mut line: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    line.truncate(line.floor_char_boundary(MAX_REFUSAL_BYTES));
    let line = line.trim();
    if line.is_empty() { String::new() } else { format!("{line}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_line_of_bounded_length() {
        let wire = |text: &str| Refused { reason: RefusedReason::Policy.into(), text: text.into() };
        let line = |text: &str| Refusal::from_wire(&wire(text)).line("example.org:443");
        assert_eq!(line("no\r\nway\x1b"), "no  way\n");
        assert_eq!(line(&"ä".repeat(1000)).len(), MAX_REFUSAL_BYTES + 1);
        assert!(line(" ").starts_with("example.org:443: this sandbox's network policy"), "{}", line(" "));
    }
}
