//! What keeps the record durable, and shows elsewhere which line is its last.

use std::sync::Arc;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use super::Audit;
use crate::audit::{Entry, Head};
use crate::model::audit::Act;
use crate::model::limits;
use crate::service::Error;
use crate::store::AuditHead;

/// The last line that was written elsewhere, and when.
struct Shown {
    stored: (Head, Instant),
    logged: (Head, Instant),
    refusals: Instant,
}

impl Audit {
    /// Makes lines durable every second. Stores the last one in the database, and logs it every hour.
    pub(in crate::service) async fn keep(self: &Arc<Self>) {
        let mut ticks = interval(limits::AUDIT_SYNC_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let now = Instant::now();
        let mut shown = Shown { stored: (Head::NONE, now), logged: (Head::NONE, now), refusals: now };
        loop {
            ticks.tick().await;
            if shown.refusals.elapsed() >= limits::AUDIT_REFUSALS_EVERY {
                shown.refusals = Instant::now();
                self.note_refusals();
            }
            // An error is logged where it happens.
            let _ = self.written(self.record.flush());
            let Ok(head) = self.sync().await else { continue };
            self.remove_old().await;
            self.show(head, &mut shown).await;
        }
    }

    async fn show(&self, head: Head, shown: &mut Shown) {
        if head != shown.stored.0 && shown.stored.1.elapsed() >= limits::AUDIT_HEAD_EVERY {
            shown.stored.1 = Instant::now();
            match self.store_head(head).await {
                Ok(()) => shown.stored.0 = head,
                Err(error) => warn!(
                    error = &error as &dyn std::error::Error,
                    "could not write the last line of the audit record to the database"
                ),
            }
        }
        if head != shown.logged.0 && shown.logged.1.elapsed() >= limits::AUDIT_LOG_EVERY {
            shown.logged = (head, Instant::now());
            log(head);
        }
    }

    /// Writes what is left at a stop.
    pub(in crate::service) async fn close(&self) {
        self.note_refusals();
        self.note(Entry::new(Act::DaemonStop.as_str()));
        let close = async {
            self.written(self.record.flush())?;
            let head = self.sync().await?;
            self.store_head(head).await?;
            log(head);
            Ok::<_, Error>(())
        };
        match timeout(limits::AUDIT_CLOSE, close).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(error = &error as &dyn std::error::Error, "could not complete the audit record");
            }
            Err(_) => warn!("the audit record could not be completed in time"),
        }
    }

    fn note_refusals(&self) {
        self.refusals.take().into_iter().for_each(|line| self.note(line));
    }

    async fn store_head(&self, head: Head) -> Result<(), Error> {
        let head = AuditHead { seq: head.seq, mac: head.mac.to_string() };
        Ok(self.store.set_audit_head(&head).await?)
    }
}

fn log(Head { seq, mac }: Head) {
    info!(seq, %mac, "last line of the audit record");
}
