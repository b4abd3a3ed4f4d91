//! The pages that show terminals, and the tickets for more of them.

use bash_tools::Workspace;
use bash_tools::provider::TerminalId;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::Result;
use super::places::{Place, Places};
use super::tickets::Tickets;
use super::until_ended::Ended;
use crate::account::{Owner, Secret};

/// Maximum number of terminals that pages show at once. Each has a connection.
const MAX_VIEWERS: usize = 128;

/// Maximum number of terminals that the pages of one user show at once.
const MAX_VIEWERS_OF_USER: usize = 16;

/// The viewers of terminals. Cheap to clone.
#[derive(Clone)]
pub(super) struct Viewers {
    tickets: Tickets<MayShow>,
    places: Places,
    /// The connections, which are served outside of their requests.
    pub(super) shown: TaskTracker,
    /// Cancelled when the app stops.
    pub(super) stop: CancellationToken,
}

/// A permission to show one terminal.
pub(super) struct MayShow {
    pub(super) workspace: Workspace,
    pub(super) terminal: TerminalId,
    /// Taken by the ticket already, so that its owner's others bound it.
    pub(super) place: Place,
    /// Ready when the session has ended that asked for it.
    pub(super) session_ended: Ended,
}

impl Default for Viewers {
    fn default() -> Self {
        Self {
            tickets: Tickets::default(),
            places: Places::new(MAX_VIEWERS, MAX_VIEWERS_OF_USER),
            shown: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }
}

impl Viewers {
    /// Makes a ticket that admits a page of an owner. Fails if its pages show, or are about to show, too many terminals.
    pub(super) fn admit(
        &self,
        owner: Owner,
        workspace: Workspace,
        terminal: TerminalId,
        session_ended: Ended,
    ) -> Result<Secret> {
        self.tickets.forget_expired();
        let place = self.places.take(owner)?;
        self.tickets.make(MayShow { workspace, terminal, place, session_ended })
    }

    /// Uses up a ticket.
    pub(super) fn take(&self, ticket: &str) -> Option<MayShow> {
        self.tickets.take(ticket)
    }

    /// Ends all connections, and waits until each page knows why.
    pub(super) async fn end(&self) {
        self.stop.cancel();
        self.shown.close();
        self.shown.wait().await;
    }
}
