//! Why a process's connection to the outside is not made, in the words of each protocol it can have asked in.

use agent_protocol::v1::{Refused, RefusedReason};
use http::StatusCode;
use hyper::ext::ReasonPhrase;

use super::desk::Wish;
use crate::limits::MAX_REFUSAL_BYTES;

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Policy,
    NameNotFound,
    Unreachable,
    ByPeer,
    Timeout,
    Limit,
    Invalid,
    /// There is nobody to ask.
    Nobody,
}

/// What a process is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) why: Why,
    /// One line, without its end.
    text: Option<String>,
}

impl From<Why> for Refusal {
    fn from(why: Why) -> Self {
        Self { why, text: None }
    }
}

impl Refusal {
    pub(crate) fn from_wire(wire: &Refused) -> Self {
        let why = match wire.reason() {
            RefusedReason::Policy => Why::Policy,
            RefusedReason::NameNotFound => Why::NameNotFound,
            RefusedReason::Unreachable | RefusedReason::Unspecified => Why::Unreachable,
            RefusedReason::ByPeer => Why::ByPeer,
            RefusedReason::Timeout => Why::Timeout,
            RefusedReason::Limit => Why::Limit,
            RefusedReason::Invalid => Why::Invalid,
        };
        let text = one_line(&wire.text);
        Self { why, text: (!text.is_empty()).then_some(text) }
    }

    /// One line that says why, and what to do.
    pub(crate) fn line(&self, wish: &Wish) -> String {
        self.text.clone().unwrap_or_else(|| format!("{}: {}\n", wish.target(), self.words()))
    }

    fn words(&self) -> &'static str {
        match self.why {
            Why::Policy => {
                "this sandbox's network policy does not allow it; do not retry, ask for it to be allowed"
            }
            Why::NameNotFound => "there is no such host; check the name",
            Why::Unreachable => "the host cannot be reached from here; try again later or use another one",
            Why::ByPeer => "the host refused the connection; check the port",
            Why::Timeout => "the host did not answer in time; try again later",
            Why::Limit => {
                "this sandbox has as many connections as it may have, or moved as much as it may; end some and try again"
            }
            Why::Invalid => "this is not a host and a port that can be connected to",
            Why::Nobody => "the network cannot be asked for at the moment; try again in a few seconds",
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self.why {
            Why::Policy => StatusCode::FORBIDDEN,
            Why::NameNotFound | Why::Unreachable | Why::ByPeer => StatusCode::BAD_GATEWAY,
            Why::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Why::Limit | Why::Nobody => StatusCode::SERVICE_UNAVAILABLE,
            Why::Invalid => StatusCode::BAD_REQUEST,
        }
    }

    /// Stands beside the status, because it is all that many programs show of an answer to CONNECT.
    pub(crate) fn phrase(&self) -> ReasonPhrase {
        ReasonPhrase::from_static(match self.why {
            Why::Policy => b"Forbidden by the network policy of this sandbox",
            Why::NameNotFound => b"No such host",
            Why::Unreachable => b"Host unreachable",
            Why::ByPeer => b"Connection refused by the host",
            Why::Timeout => b"The host did not answer in time",
            Why::Limit => b"Too many connections from this sandbox",
            Why::Invalid => b"Not a host and a port",
            Why::Nobody => b"Network not available at the moment",
        })
    }

    /// The reply field of RFC 1928, section 6.
    pub(crate) fn socks_code(&self) -> u8 {
        match self.why {
            Why::Limit | Why::Invalid | Why::Nobody => 1,
            Why::Policy => 2,
            Why::Unreachable => 3,
            Why::NameNotFound => 4,
            Why::ByPeer => 5,
            // "TTL expired" is what there is for it.
            Why::Timeout => 6,
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
    use agent_protocol::v1::Via;

    #[test]
    fn what_a_process_is_told_is_one_line_of_bounded_length() {
        let wish = Wish { host: "example.org".into(), port: 443, via: Via::Connect };
        let wire = |text: &str| Refused { reason: RefusedReason::Policy.into(), text: text.into() };
        let line = |text: &str| Refusal::from_wire(&wire(text)).line(&wish);
        assert_eq!(line("no\r\nway\x1b"), "no  way\n");
        assert_eq!(line(&"ä".repeat(1000)).len(), MAX_REFUSAL_BYTES + 1);
        assert!(line(" ").starts_with("example.org:443: this sandbox's network policy"), "{}", line(" "));
    }
}
