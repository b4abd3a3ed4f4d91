//! Denied connections of a sandbox, and the streams of them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sandbox_api::DenialId;
use sandbox_api::network::DenialReason;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};
use tracing::warn;

use crate::model::{Refusal, limits};
use crate::service::Error;
use crate::service::clock::now_ms;

/// A host and port that a sandbox was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Id, the same for all attempts.
    pub id: DenialId,
    /// The host in the form that was compared. An invalid one, as the process wrote it.
    pub host: String,
    /// Port, from 1.
    pub port: u16,
    /// Why.
    pub reason: DenialReason,
    /// Number of attempts.
    pub count: u64,
    /// Time of the last attempt, in milliseconds since the Unix epoch.
    pub last_at_ms: i64,
    /// Whether the host can be allowed, as far as host, port and reason decide it.
    pub allowable: bool,
}

/// The latest denials of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Denials(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The newest last.
    list: Vec<Denial>,
    /// Number of all attempts so far.
    attempts: u64,
    /// Exists while there are streams.
    streams: Option<Sender<Denial>>,
    /// The sandbox is deleted.
    is_closed: bool,
}

impl Denials {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a denial. Drops the oldest one at the maximum.
    pub(super) fn record(&self, host: &str, port: u16, reason: DenialReason, allowable: bool) {
        let mut kept = self.lock();
        kept.attempts += 1;
        let known = kept.list.iter().position(|it| it.host == host && it.port == port && it.reason == reason);
        let (id, count) = match known.map(|at| kept.list.remove(at)) {
            Some(known) => (known.id, known.count),
            None => match DenialId::random() {
                Ok(id) => (id, 0),
                Err(error) => return warn!(%error, "the system has no randomness; a denial is not recorded"),
            },
        };
        if kept.list.len() == limits::MAX_DENIALS {
            kept.list.remove(0);
        }
        let (host, count) = (host.to_owned(), count.saturating_add(1));
        let denial = Denial { id, host, port, reason, count, last_at_ms: now_ms(), allowable };
        // Fails if the last stream has ended.
        kept.streams.take_if(|streams| streams.send(denial.clone()).is_err());
        kept.list.push(denial);
    }

    /// All of them, newest first.
    pub(super) fn newest_first(&self) -> Vec<Denial> {
        let mut list = self.lock().list.clone();
        list.reverse();
        list
    }

    /// Number of all attempts so far.
    pub(super) fn attempts(&self) -> u64 {
        self.lock().attempts
    }

    pub(super) fn find(&self, id: &DenialId) -> Option<Denial> {
        self.lock().list.iter().find(|denial| denial.id == *id).cloned()
    }

    /// Streams the recorded denials, oldest first, and then those that happen.
    pub(super) fn follow(&self) -> Result<DenialStream, Error> {
        let mut kept = self.lock();
        if kept.streams.as_ref().is_some_and(|it| it.receiver_count() >= limits::MAX_DENIAL_STREAMS) {
            let value = limits::MAX_DENIAL_STREAMS as u64;
            return Err(Refusal::LimitReached { limit: "streams of denials".into(), value }.into());
        }
        let recorded = kept.list.clone().into_iter();
        let live = match kept.is_closed {
            true => None,
            false => Some(kept.streams.get_or_insert_with(|| Sender::new(limits::DENIAL_QUEUE)).subscribe()),
        };
        Ok(DenialStream { recorded: Some(recorded), live })
    }

    /// Ends all streams.
    pub(super) fn close(&self) {
        let mut kept = self.lock();
        kept.is_closed = true;
        kept.streams = None;
    }
}

/// An event in a stream of denials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DenialEvent {
    /// A denial.
    Denied(Denial),
    /// Later denials happened after the stream began, at this time in milliseconds since the Unix epoch.
    Ready {
        /// The current time.
        at_ms: i64,
    },
    /// Denials that the reader was too slow for.
    Dropped {
        /// Their number.
        count: u64,
    },
}

/// Denials of one sandbox. Does not count as use of the sandbox.
#[derive(Debug)]
pub struct DenialStream {
    recorded: Option<std::vec::IntoIter<Denial>>,
    live: Option<Receiver<Denial>>,
}

impl DenialStream {
    /// Returns the next event, or `None` when the sandbox is deleted. Loses nothing if it is dropped while it waits.
    pub async fn next(&mut self) -> Option<DenialEvent> {
        if let Some(recorded) = &mut self.recorded {
            if let Some(denial) = recorded.next() {
                return Some(DenialEvent::Denied(denial));
            }
            self.recorded = None;
            return Some(DenialEvent::Ready { at_ms: now_ms() });
        }
        match self.live.as_mut()?.recv().await {
            Ok(denial) => Some(DenialEvent::Denied(denial)),
            Err(RecvError::Lagged(count)) => Some(DenialEvent::Dropped { count }),
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(denials: &Denials, host: &str, reason: DenialReason) {
        denials.record(host, 443, reason, reason == DenialReason::HostNotAllowed);
    }

    #[test]
    fn denials_are_counted_and_the_oldest_are_forgotten() {
        let denials = Denials::default();
        for at in 0..limits::MAX_DENIALS + 5 {
            record(&denials, &format!("host-{at}"), DenialReason::HostNotAllowed);
        }
        let first = denials.newest_first().into_iter().find(|it| it.host == "host-50").unwrap();
        record(&denials, "host-50", DenialReason::HostNotAllowed);
        record(&denials, "host-50", DenialReason::NotPublic);
        let list = denials.newest_first();
        assert_eq!(list.len(), limits::MAX_DENIALS);
        assert_eq!((list[99].host.as_str(), list[99].count), ("host-6", 1));
        let newest: Vec<_> =
            list.iter().take(2).map(|it| (it.host.as_str(), it.count, it.reason, it.allowable)).collect();
        let reasons = (DenialReason::NotPublic, DenialReason::HostNotAllowed);
        assert_eq!(newest, [("host-50", 1, reasons.0, false), ("host-50", 2, reasons.1, true)]);
        assert!(list[1].id == first.id && list[0].id != first.id);
        assert_eq!(denials.find(&first.id), Some(list[1].clone()));
    }

    async fn hosts(stream: &mut DenialStream, count: usize) -> Vec<String> {
        let mut hosts = Vec::new();
        for _ in 0..count {
            hosts.push(match stream.next().await {
                Some(DenialEvent::Denied(denial)) => denial.host,
                Some(DenialEvent::Ready { .. }) => "ready".to_owned(),
                Some(DenialEvent::Dropped { count }) => format!("{count} dropped"),
                None => "end".to_owned(),
            });
        }
        hosts
    }

    #[tokio::test]
    async fn a_stream_has_recorded_denials_new_ones_and_the_number_of_dropped_ones() {
        let denials = Denials::default();
        record(&denials, "a", DenialReason::HostNotAllowed);
        let mut stream = denials.follow().unwrap();
        record(&denials, "b", DenialReason::HostNotAllowed);
        assert_eq!(hosts(&mut stream, 3).await, ["a", "ready", "b"]);
        for at in 0..limits::DENIAL_QUEUE + 3 {
            record(&denials, &at.to_string(), DenialReason::HostNotAllowed);
        }
        assert_eq!(hosts(&mut stream, 2).await, ["3 dropped", "3"]);
        denials.close();
        let rest = hosts(&mut stream, limits::DENIAL_QUEUE).await;
        assert_eq!((rest[0].as_str(), rest.last().unwrap().as_str()), ("4", "end"));
        let recorded = limits::MAX_DENIALS.min(limits::DENIAL_QUEUE + 5);
        let later = hosts(&mut denials.follow().unwrap(), recorded + 2).await;
        assert_eq!(later[recorded..], ["ready", "end"]);
    }

    #[test]
    fn the_number_of_streams_is_limited() {
        let denials = Denials::default();
        let mut streams: Vec<_> =
            (0..limits::MAX_DENIAL_STREAMS).map(|_| denials.follow().unwrap()).collect();
        assert!(denials.follow().is_err());
        streams.pop();
        assert!(denials.follow().is_ok());
        drop(streams);
        record(&denials, "a", DenialReason::HostNotAllowed);
        assert!(denials.lock().streams.is_none(), "nothing is queued without a stream");
    }
}
