//! Replies to denied and failed connections: a reason for the protocol, and one line of text.
//!
//! Usually a model reads the line in the program's output. Therefore the line says whether a retry helps, and what to do.

use sandbox_api::network::DenialReason;

use crate::egress;
use crate::model::port::RefusedReason;

/// Returns the reason and the message for a process. The message is empty if the agent words it.
pub(super) fn reply_for(error: &egress::Error, host: &str, port: u16) -> (RefusedReason, String) {
    match error {
        egress::Error::Denied { reason } => (refused_reason(*reason), message_for(*reason, host, port)),
        egress::Error::NotFound { .. } => (RefusedReason::NameNotFound, String::new()),
        egress::Error::Unreachable { .. } => (RefusedReason::Unreachable, String::new()),
        egress::Error::ByPeer { .. } => (RefusedReason::ByPeer, String::new()),
        egress::Error::Timeout => (RefusedReason::Timeout, String::new()),
        egress::Error::Upstream { status } => {
            let message = format!("{host}:{port}: the proxy of this machine's network answered {status}");
            (RefusedReason::Unreachable, message)
        }
    }
}

fn refused_reason(reason: DenialReason) -> RefusedReason {
    match reason {
        DenialReason::Limit => RefusedReason::Limit,
        DenialReason::Invalid => RefusedReason::Invalid,
        _ => RefusedReason::Policy,
    }
}

fn message_for(reason: DenialReason, host: &str, port: u16) -> String {
    match reason {
        DenialReason::Off => {
            format!(
                "{host}:{port} is refused: this sandbox has no network; do not retry, ask for the network to be allowed"
            )
        }
        DenialReason::HostNotAllowed => {
            format!(
                "{host}:{port} is refused: this sandbox may reach named hosts only; do not retry, ask for {host} to be allowed"
            )
        }
        DenialReason::PortNotAllowed => {
            format!(
                "{host}:{port} is refused: without a rule only ports 80 and 443 may be reached; ask for {host}:{port} to be allowed"
            )
        }
        DenialReason::AddressNotAllowed => {
            format!(
                "{host}:{port} is refused: IP addresses are allowed only if a rule names them; use the host's name, or ask for {host} to be allowed"
            )
        }
        DenialReason::NotPublic => {
            format!(
                "{host}:{port} is refused: it has an address outside the public internet; a retry or another spelling does not help"
            )
        }
        // For these, the agent words the message, or the connection is already open.
        DenialReason::NameMismatch | DenialReason::Limit => String::new(),
        DenialReason::Invalid => {
            format!("{host}:{port} is not a host: write a name, or an address as four decimal numbers")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_with_the_requested_host() {
        let without_message = [DenialReason::Limit, DenialReason::NameMismatch];
        for reason in DenialReason::ALL.into_iter().filter(|reason| !without_message.contains(reason)) {
            let message = message_for(reason, "a.example", 443);
            assert!(
                message.starts_with("a.example:443 is") && !message.contains('\n'),
                "{reason:?}: {message}"
            );
        }
    }
}
