//! Connections that have not sent a token yet.
//!
//! Anyone can open them. A client with a token sends it at once, so none is refused: if all slots are taken, the oldest
//! connection of the address with the most is evicted.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Maximum number of WebSockets that have not sent a token yet.
const MAX_UNAUTHENTICATED: usize = 32;

/// The slots that are taken. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unauthenticated(Arc<Mutex<Slots>>);

#[derive(Debug, Default)]
struct Slots {
    /// From the oldest to the newest.
    taken: VecDeque<Taken>,
    next: u64,
}

#[derive(Debug)]
struct Taken {
    number: u64,
    source: IpAddr,
    evicted: CancellationToken,
}

/// A connection's slot. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Unauthenticated,
    number: u64,
    evicted: CancellationToken,
}

impl Unauthenticated {
    /// Takes a slot for a client's connection.
    pub(crate) fn slot(&self, source: IpAddr) -> Slot {
        let mut slots = self.lock();
        let (number, evicted) = (slots.next, CancellationToken::new());
        slots.next += 1;
        slots.taken.push_back(Taken { number, source, evicted: evicted.clone() });
        if slots.taken.len() > MAX_UNAUTHENTICATED {
            slots.evict_oldest();
        }
        Slot { slots: self.clone(), number, evicted }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    /// Evicts the oldest connection of the address that has the most.
    fn evict_oldest(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for taken in &self.taken {
            *counts.entry(taken.source).or_default() += 1;
        }
        let most = counts.values().max();
        let oldest = self.taken.iter().position(|taken| counts.get(&taken.source) == most);
        if let Some(taken) = oldest.and_then(|index| self.taken.remove(index)) {
            taken.evicted.cancel();
        }
    }
}

impl Slot {
    /// Returns when the connection has lost its slot to a newer one.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.lock().taken.retain(|taken| taken.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    fn evicted(slots: &[Slot]) -> Vec<usize> {
        (0..slots.len()).filter(|index| slots[*index].evicted.is_cancelled()).collect()
    }

    #[test]
    fn one_address_cannot_take_the_slots_of_others() {
        let unauthenticated = Unauthenticated::default();
        let user = unauthenticated.slot(source(1));
        let crowd: Vec<Slot> =
            (0..2 * MAX_UNAUTHENTICATED).map(|_| unauthenticated.slot(source(2))).collect();
        assert_eq!(evicted(&crowd), Vec::from_iter(0..=MAX_UNAUTHENTICATED));
        let others = [unauthenticated.slot(source(1)), unauthenticated.slot(source(3))];
        assert!(evicted(&others).is_empty() && !user.evicted.is_cancelled());
        assert_eq!(unauthenticated.lock().taken.len(), MAX_UNAUTHENTICATED);
    }

    #[test]
    fn a_slot_is_free_again() {
        let unauthenticated = Unauthenticated::default();
        let mut slots: Vec<Slot> =
            (0..MAX_UNAUTHENTICATED).map(|number| unauthenticated.slot(source(number as u8))).collect();
        drop(slots.pop());
        slots.push(unauthenticated.slot(source(100)));
        assert!(evicted(&slots).is_empty());
        // Of addresses with as many connections, the oldest connection.
        slots.push(unauthenticated.slot(source(101)));
        assert_eq!(evicted(&slots), [0]);
        drop(slots);
        assert!(unauthenticated.lock().taken.is_empty());
    }
}
