//! Fetched repositories.

use sandbox_api::SnapshotId;
use sandboxd_model::repository::{RepositoryKey, RepositoryOrigin, RepositoryRecord, RepositoryWarning};

use super::{TestDatabase, new_store};

pub(crate) async fn a_repository_is_written_replaced_and_deleted<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    let address = "https://git.example/owner/name.git";
    let (mut public, private) = (repository(address, false), repository(address, true));
    let directory = repository("dir:app", false);
    store.put_repository(&public).await.unwrap();
    store.put_repository(&private).await.unwrap();
    store.put_repository(&directory).await.unwrap();
    (public.used_at_ms, public.snapshot) = (9, SnapshotId::random().unwrap());
    store.put_repository(&public).await.unwrap();
    store.close().await;
    let store = database.open().await;
    let mut found = store.repositories().await.unwrap();
    found.sort_by_key(|repository| (repository.key.origin.to_string(), repository.key.with_token));
    assert_eq!(found, [directory.clone(), public.clone(), private.clone()]);

    store.forget_repository(&public.key).await.unwrap();
    store.forget_repository(&public.key).await.unwrap();
    store.forget_repository(&directory.key).await.unwrap();
    assert_eq!(store.repositories().await.unwrap(), [private]);
}

fn repository(origin: &str, with_token: bool) -> RepositoryRecord {
    RepositoryRecord {
        key: RepositoryKey {
            origin: RepositoryOrigin::parse(origin).unwrap(),
            commit: "0123456789abcdef0123456789abcdef01234567".parse().unwrap(),
            with_token,
        },
        snapshot: SnapshotId::random().unwrap(),
        size_bytes: 7,
        warnings: RepositoryWarning::ALL.to_vec(),
        fetched_at_ms: 1,
        used_at_ms: 2,
    }
}
