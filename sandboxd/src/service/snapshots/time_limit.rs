//! The time that a snapshot or a restore may take.

use tokio::time::timeout;

use crate::agent;
use crate::model::limits;
use crate::service::Error;

/// Bounds the work that depends on a sandbox's agent, whatever that does. A restore keeps other requests waiting meanwhile.
pub(super) async fn within_limit<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = || agent::Error::Deadline { after: limits::EXCLUSIVE_USE };
    timeout(limits::EXCLUSIVE_USE, work).await.map_err(|_| late())?
}
