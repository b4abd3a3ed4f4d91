//! Master keys: rotated, wrong and lost.

use object_store::ObjectStoreExt;
use object_store::path::Path;
use sandboxd_sealed::{Error, Recorded, Remote};
use test_s3::{S3, key, settings};

use crate::{open, open_with};

fn needed(key: &str) -> Recorded {
    Recorded { key: Some(key.to_owned()), is_needed: true }
}

#[tokio::test]
async fn a_new_master_key_opens_what_was_stored_before() {
    let Some(server) = S3::start().await else { return };
    let path = Path::from("packs/00/a");
    let first = open(&server.endpoint).await;
    first.store.put(&path, "content".into()).await.unwrap();
    let recorded = needed(&first.key);

    let both = open_with(&server.endpoint, &(key(2) + &key(1)), &recorded).await.unwrap();
    assert_eq!(both.key, first.key);
    let wraps = server.keys().await.into_iter().filter(|key| key.contains("/keys/")).count();
    assert_eq!(wraps, 2);
    // Now the former key is no longer needed.
    let second = open_with(&server.endpoint, &key(2), &recorded).await.unwrap();
    assert_eq!(second.store.get(&path).await.unwrap().bytes().await.unwrap(), "content");
}

#[tokio::test]
async fn a_wrong_master_key_is_named_and_changes_nothing() {
    let Some(server) = S3::start().await else { return };
    let first = open(&server.endpoint).await;
    let before = server.keys().await;
    for recorded in [needed(&first.key), Recorded::default()] {
        let error = open_with(&server.endpoint, &key(2), &recorded).await.unwrap_err();
        let Error::WrongKey { data_key, needed, given } = &error else { panic!("{error:?}") };
        assert!(*data_key == first.key && needed != given && !needed.is_empty(), "{error}");
    }
    assert_eq!(server.keys().await, before);
}

#[tokio::test]
async fn a_lost_data_key_is_named_and_no_other_takes_its_place() {
    let Some(server) = S3::start().await else { return };
    let first = open(&server.endpoint).await;
    for key in server.keys().await {
        server.delete(&key).await;
    }
    let error = open_with(&server.endpoint, &key(1), &needed(&first.key)).await.unwrap_err();
    assert!(matches!(&error, Error::LostKey { data_key } if *data_key == first.key), "{error:?}");
    assert_eq!(server.keys().await, [""; 0]);
    // Without snapshots, the store may be used as a new one.
    let recorded = Recorded { is_needed: false, ..needed(&first.key) };
    let second = open_with(&server.endpoint, &key(1), &recorded).await.unwrap();
    assert_ne!(second.key, first.key);
}

#[tokio::test]
async fn a_damaged_data_key_is_named() {
    let Some(server) = S3::start().await else { return };
    let first = open(&server.endpoint).await;
    let wrap = server.keys().await.into_iter().find(|key| key.contains("/keys/")).unwrap();
    let mut bytes = server.get(&wrap).await.to_vec();
    bytes[70] ^= 1;
    server.put(&wrap, bytes.into()).await;
    let error = open_with(&server.endpoint, &key(1), &needed(&first.key)).await.unwrap_err();
    assert!(matches!(&error, Error::Damaged { object, .. } if *object == wrap), "{error:?}");
}

#[tokio::test]
async fn a_data_key_that_was_never_used_is_not_taken_for_the_right_one() {
    let Some(server) = S3::start().await else { return };
    let first = open(&server.endpoint).await;
    let wrap = server.keys().await.into_iter().find(|key| key.contains("/keys/")).unwrap();
    for digit in ["0", "f"] {
        let other = wrap.replace(&first.key, &digit.repeat(32));
        server.put(&other, server.get(&wrap).await).await;
    }
    for recorded in [needed(&first.key), Recorded::default()] {
        assert_eq!(open_with(&server.endpoint, &key(1), &recorded).await.unwrap().key, first.key);
    }
}

#[tokio::test]
async fn another_installation_is_rejected_until_the_owner_is_deleted() {
    let Some(server) = S3::start().await else { return };
    let first = open(&server.endpoint).await;
    let remote = Remote::new(&settings(&server.endpoint, "folder", &key(1))).unwrap();
    let error = remote.open("two", &Recorded::default()).await.unwrap_err();
    let Error::Owned { owner, object } = &error else { panic!("{error:?}") };
    assert_eq!((owner.as_str(), object.as_str()), ("one", "folder/default/owner"));

    server.delete(object).await;
    let second = remote.open("two", &Recorded::default()).await.unwrap();
    assert_eq!(second.key, first.key);
    assert!(matches!(first.check_owner("one").await, Err(Error::Owned { .. })));
    second.check_owner("two").await.unwrap();
}
