//! A database that is locked, and a store that is closed.

use std::time::{Duration, Instant};

use sandboxd_model::limits;
use sandboxd_store::ErrorKind;

use super::records::{command, sandbox, sandbox_id};
use super::{TestDatabase, new_store};

/// Time that a call may take beyond the limits of the store.
pub(crate) const TOLERANCE: Duration = Duration::from_secs(2);

pub(crate) async fn a_locked_database_fails_in_time_and_works_again<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    let lock = database.lock().await;
    let begun = Instant::now();
    let (one, two) = (sandbox(1), sandbox(2));
    let all = tokio::join!(store.begin(&one), store.begin(&two), store.check());
    for error in [all.0.unwrap_err(), all.1.unwrap_err(), all.2.unwrap_err()] {
        assert!(error.kind() == ErrorKind::Busy && error.is_unavailable(), "{error:?}");
    }
    assert!(begun.elapsed() < limits::STORE_BUSY + TOLERANCE, "{:?}", begun.elapsed());
    assert_eq!(store.sandboxes().await.unwrap(), []);
    database.unlock(lock).await;
    store.check().await.unwrap();
    store.begin(&one).await.unwrap();
    assert_eq!(store.sandboxes().await.unwrap(), [one]);
}

pub(crate) async fn history_waits_for_a_locked_database_and_readers_do_not<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    let one = sandbox_id(1);
    store.begin(&sandbox(1)).await.unwrap();
    let lock = database.lock().await;
    store.history().started(command(&one, 1));
    let begun = Instant::now();
    assert_eq!(store.commands(&one, 10).await.unwrap(), []);
    assert!(begun.elapsed() < limits::HISTORY_FLUSH + TOLERANCE);
    database.unlock(lock).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while store.commands(&one, 10).await.unwrap().is_empty() {
        assert!(Instant::now() < deadline, "history was not written");
        tokio::task::yield_now().await;
    }
    assert_eq!(store.history().dropped(), 0);
}

/// If it were reported as unavailable, the history would retry forever.
pub(crate) async fn a_closed_store_is_not_unavailable<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    store.maintain().await;
    store.close().await;
    for error in [
        store.begin(&sandbox(1)).await.unwrap_err(),
        store.remove(&sandbox_id(1)).await.unwrap_err(),
        store.sandboxes().await.unwrap_err(),
    ] {
        assert!(error.kind() == ErrorKind::Refused && !error.is_unavailable(), "{error:?}");
    }
    store.history().started(command(&sandbox_id(1), 1));
    assert!(!store.history().flush().await);
    assert_eq!(store.history().dropped(), 1);
}
