//! What a process is told where it is not connected: the kind, for its protocol, and a line for whoever reads what it
//! shows, which is most often a model. So the line says whether another try helps.

use sandbox_api::network::DenialReason;

use crate::egress;
use crate::model::port::RefusedReason;

/// What a process is told: the kind, and a line for whoever reads what the process shows.
pub(super) fn told(error: &egress::Error, host: &str, port: u16) -> (RefusedReason, String) {
    match error {
        egress::Error::Denied { reason } => (refused(*reason), words(*reason, host, port)),
        egress::Error::NotFound { .. } => (RefusedReason::NameNotFound, String::new()),
        egress::Error::Unreachable { .. } => (RefusedReason::Unreachable, String::new()),
        egress::Error::ByPeer { .. } => (RefusedReason::ByPeer, String::new()),
        egress::Error::Timeout => (RefusedReason::Timeout, String::new()),
        egress::Error::Upstream { status } => {
            let words = format!("{host}:{port}: the proxy of this machine's network answered {status}");
            (RefusedReason::Unreachable, words)
        }
    }
}

fn refused(reason: DenialReason) -> RefusedReason {
    match reason {
        DenialReason::Limit => RefusedReason::Limit,
        DenialReason::Invalid => RefusedReason::Invalid,
        _ => RefusedReason::Policy,
    }
}

fn words(reason: DenialReason, host: &str, port: u16) -> String {
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
                "{host}:{port} is refused: addresses may be reached only where they are named; use the host's name, or ask for {host} to be allowed"
            )
        }
        DenialReason::NotPublic => {
            format!(
                "{host}:{port} is refused: it is not on the public internet, or not only; no retry and no other spelling helps"
            )
        }
        // What a sandbox sends is not answered by us.
        DenialReason::NameMismatch | DenialReason::Limit => String::new(),
        DenialReason::Invalid => {
            format!("{host}:{port} is no host: write a name, or an address as four decimal numbers")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_in_one_line_what_it_asked_for() {
        let told_by_the_agent = [DenialReason::Limit, DenialReason::NameMismatch];
        for reason in DenialReason::ALL.into_iter().filter(|reason| !told_by_the_agent.contains(reason)) {
            let words = words(reason, "a.example", 443);
            assert!(words.starts_with("a.example:443 is") && !words.contains('\n'), "{reason:?}: {words}");
        }
    }
}
