//! The headers of objects that were recently read, so that a range is read with one request.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use object_store::path::Path;

use crate::format::Header;

/// Maximum number of headers. Each takes about 300 bytes.
const MAX_HEADERS: usize = 1024;

/// Metadata of an encrypted object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) header: Header,
    /// Its size in bytes, encrypted.
    pub(crate) sealed_bytes: u64,
}

/// The cache. The oldest entries are removed first.
#[derive(Debug, Default)]
pub(crate) struct Headers(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_path: HashMap<Path, Known>,
    oldest_first: VecDeque<Path>,
}

impl Headers {
    pub(crate) fn get(&self, path: &Path) -> Option<Known> {
        self.entries().by_path.get(path).cloned()
    }

    pub(crate) fn insert(&self, path: &Path, known: Known) {
        let mut entries = self.entries();
        if entries.by_path.insert(path.clone(), known).is_none() {
            entries.oldest_first.push_back(path.clone());
        }
        // Removed paths are still in the queue, so the queue is what is bounded.
        while entries.oldest_first.len() > MAX_HEADERS {
            let oldest = entries.oldest_first.pop_front();
            oldest.and_then(|oldest| entries.by_path.remove(&oldest));
        }
    }

    /// Removes an object that is replaced or deleted.
    pub(crate) fn remove(&self, path: &Path) {
        self.entries().by_path.remove(path);
    }

    /// Every change leaves the entries valid, so a panic elsewhere does too.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Sealer;
    use crate::key::Key;

    #[test]
    fn the_oldest_headers_make_room_for_the_newest() {
        let sealer = Sealer::new(&Key::new([1; 32]));
        let sealed = sealer.seal("a", [0; 32], b"").unwrap();
        let known = Known { header: Header::read(&sealed, sealer.key_id()).unwrap(), sealed_bytes: 80 };
        let headers = Headers::default();
        let path = |number: usize| Path::from(number.to_string());
        (0..3 * MAX_HEADERS).for_each(|number| {
            headers.insert(&path(number), known.clone());
            headers.remove(&path(number));
            headers.insert(&path(number), known.clone());
        });
        let last = 3 * MAX_HEADERS - 1;
        assert_eq!(headers.get(&path(last)), Some(known));
        assert_eq!(headers.get(&path(0)), None);
        let entries = headers.entries();
        assert!(entries.by_path.len() <= MAX_HEADERS && entries.oldest_first.len() <= MAX_HEADERS);
    }
}
