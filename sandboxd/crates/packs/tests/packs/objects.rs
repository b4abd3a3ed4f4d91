//! Objects beside the packs.

use futures::TryStreamExt;
use sandboxd_packs::{Error, ObjectInfo};

use crate::chunks::Fixture;

#[tokio::test]
async fn an_object_is_stored_replaced_listed_and_deleted() {
    let fixture = Fixture::new().await;
    let packs = &fixture.packs;
    packs.put_object("snapshots/snap_1", "first".into()).await.unwrap();
    packs.put_object("snapshots/snap_1", "second".into()).await.unwrap();
    packs.put_object("other/x", "y".into()).await.unwrap();
    assert_eq!(packs.get_object("snapshots/snap_1", 6).await.unwrap(), "second");
    let listed: Vec<_> = packs.list_objects("snapshots").unwrap().try_collect().await.unwrap();
    assert_eq!(listed, [ObjectInfo { path: "snapshots/snap_1".into(), size_bytes: 6 }]);
    let listed: Vec<_> = packs.list_objects("nothing").unwrap().try_collect().await.unwrap();
    assert_eq!(listed, []);
    packs.delete_object("snapshots/snap_1").await.unwrap();
    packs.delete_object("snapshots/snap_1").await.unwrap();
    let error = packs.get_object("snapshots/snap_1", 6).await.unwrap_err();
    assert!(matches!(error, Error::NoObject { .. }), "{error:?}");
}

#[tokio::test]
async fn an_object_that_is_too_large_is_not_read() {
    let fixture = Fixture::new().await;
    fixture.packs.put_object("snapshots/a", "12345".into()).await.unwrap();
    let error = fixture.packs.get_object("snapshots/a", 4).await.unwrap_err();
    assert!(matches!(error, Error::ObjectTooLarge { size_bytes: 5, max_bytes: 4, .. }), "{error:?}");
}

#[tokio::test]
async fn packs_are_not_reached_as_objects() {
    let fixture = Fixture::new().await;
    let error = fixture.packs.put_object("packs/00/x", "a".into()).await.unwrap_err();
    assert!(matches!(error, Error::InvalidPath { .. }), "{error:?}");
}
