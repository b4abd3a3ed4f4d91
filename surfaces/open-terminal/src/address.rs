//! The id of a terminal in this surface.

use sandbox_api::{SandboxId, TerminalId};
use sandbox_client::Error as ClientError;

use crate::failure::is_missing;

/// A terminal and its sandbox. Its text selects both, so a WebSocket needs no other header.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) sandbox: SandboxId,
    pub(crate) terminal: TerminalId,
}

impl Address {
    pub(crate) fn new(sandbox: &SandboxId, terminal: TerminalId) -> Self {
        Self { sandbox: sandbox.clone(), terminal }
    }

    /// Parses an id of this surface.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let (sandbox, terminal) = id.split_once('.')?;
        Some(Self { sandbox: sandbox.parse().ok()?, terminal: terminal.parse().ok()? })
    }

    pub(crate) fn text(&self) -> String {
        format!("{}.{}", self.sandbox, self.terminal)
    }
}

/// Whether the terminal or its sandbox does not exist.
pub(crate) fn is_gone(error: &ClientError) -> bool {
    is_missing(error, "terminal") || is_missing(error, "sandbox")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_the_sandbox_and_the_terminal() {
        let id = "sbx_0123456789abcdef.trm_0123456789abcdef";
        assert_eq!(Address::parse(id).unwrap().text(), id);
        for wrong in ["", ".", "sbx_0123456789abcdef", "trm_0123456789abcdef.sbx_0123456789abcdef", "a.b"] {
            assert_eq!(Address::parse(wrong), None, "{wrong}");
        }
    }
}
