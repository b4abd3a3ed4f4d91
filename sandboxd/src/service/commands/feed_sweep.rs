//! Releases the events of streams that are not read.

use tokio::time::{MissedTickBehavior, interval};

use super::Commands;
use crate::model::limits;

impl Commands {
    /// Releases events of streams that are not read, in regular intervals.
    pub(in crate::service) async fn sweep_feeds(&self) {
        let mut ticks = interval(limits::FEED_SWEEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for feed in self.feeds.sweep() {
                // An agent that misses this keeps the reader's log position only as long as for a broken connection.
                self.tasks.spawn(async move { feed.report_slow().await });
            }
        }
    }
}
