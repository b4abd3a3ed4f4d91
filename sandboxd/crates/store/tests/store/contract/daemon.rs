//! The daemon's age and identity, and whether sandboxes were ever loaded.

use sandboxd_model::{Orphan, OrphanKind};
use sandboxd_store::{AuditHead, Identity};

use super::records::sandbox;
use super::{TestDatabase, new_store};

pub(crate) async fn identity_and_orphans_are_read_back<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    assert_eq!(store.identity().await.unwrap(), Identity::default());
    let identity = Identity {
        instance: Some("0123456789abcdef".into()),
        engine: Some("AAAA:BBBB".into()),
        marker: Some("word".into()),
        epoch: Some("one two".into()),
        epoch_number: 7,
    };
    store.set_identity(&identity).await.unwrap();
    store.set_age_ms(1).await.unwrap();
    assert_eq!(store.identity().await.unwrap(), identity);
    assert_eq!(store.snapshot_store().await.unwrap(), None);
    for id in [Some("0a1b"), None] {
        store.set_snapshot_store(id).await.unwrap();
        assert_eq!(store.snapshot_store().await.unwrap().as_deref(), id);
    }
    assert_eq!(store.audit_head().await.unwrap(), None);
    for seq in [1, 5_000_000_000] {
        let head = AuditHead { seq, mac: "ab".repeat(32) };
        store.set_audit_head(&head).await.unwrap();
        assert_eq!(store.audit_head().await.unwrap(), Some(head));
    }
    assert_eq!(store.identity().await.unwrap(), identity);

    let orphan = |kind, name: &str| Orphan { kind, name: name.into(), seen_at_age_ms: 5, seen_at_ms: -5 };
    let orphans = [orphan(OrphanKind::Disk, "a"), orphan(OrphanKind::Workspace, "a")];
    store.set_orphans(&orphans).await.unwrap();
    assert_eq!(store.orphans().await.unwrap(), orphans);
    store.set_orphans(&[]).await.unwrap();
    assert_eq!(store.orphans().await.unwrap(), []);
}

pub(crate) async fn a_store_is_new_until_sandboxes_are_adopted<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    assert!(store.is_new());
    store.set_age_ms(5_000).await.unwrap();
    store.close().await;

    let store = database.open().await;
    assert!(store.is_new());
    assert_eq!(store.age_ms().await.unwrap(), 5_000);
    let mut twice = sandbox(3);
    twice.slot = sandbox(2).slot;
    store.rehydrate(&[sandbox(1), sandbox(2), twice]).await.unwrap_err();
    assert!(store.is_new());
    assert_eq!(store.sandboxes().await.unwrap(), []);
    store.rehydrate(&[sandbox(1), sandbox(2)]).await.unwrap();
    assert!(!store.is_new());
    store.close().await;

    let store = database.open().await;
    assert!(!store.is_new());
    assert_eq!(store.sandboxes().await.unwrap(), [sandbox(1), sandbox(2)]);
}
