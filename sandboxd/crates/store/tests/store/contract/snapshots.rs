//! Snapshots.

use sandbox_api::SnapshotId;
use sandboxd_model::value::KeptValue;
use sandboxd_model::{Owner, RestoreRecord, SnapshotCursor, SnapshotRecord, SnapshotState};
use sandboxd_store::ErrorKind;

use super::records::{sandbox, sandbox_id};
use super::{TestDatabase, new_store};

pub(crate) async fn a_snapshot_is_added_read_back_and_deleted<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    store.begin(&sandbox(1)).await.unwrap();
    let (mut one, mut two) = (snapshot(1, 1), snapshot(2, 1));
    one.state = SnapshotState::PendingUpload;
    two.session_key = Some("chat:1".parse().unwrap());
    (two.name, two.expires_at_ms, two.parent) = (Some("named".into()), Some(i64::MAX), Some(one.id.clone()));
    (two.automatic, two.command) = (true, Some("cmd_0123456789abcdef".parse().unwrap()));
    store.add_snapshot(&one).await.unwrap();
    store.add_snapshot(&two).await.unwrap();
    store.add_snapshot(&one).await.unwrap_err();
    // A snapshot outlives its sandbox.
    store.remove(&sandbox_id(1)).await.unwrap();
    store.close().await;
    let store = database.open().await;
    assert_eq!(store.all_snapshots().await.unwrap(), [two.clone(), one.clone()]);
    assert_eq!(store.snapshot(&two.id).await.unwrap(), Some(two.clone()));

    store.set_snapshot_state(&one.id, SnapshotState::Complete).await.unwrap();
    one.state = SnapshotState::Complete;
    assert_eq!(store.snapshot(&one.id).await.unwrap(), Some(one.clone()));
    store.forget_snapshot(&one.id).await.unwrap();
    store.forget_snapshot(&one.id).await.unwrap();
    assert_eq!(store.snapshot(&one.id).await.unwrap(), None);
    let error = store.set_snapshot_state(&one.id, SnapshotState::Complete).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Absent);
    assert_eq!(store.all_snapshots().await.unwrap(), [two]);
}

pub(crate) async fn a_restore_is_remembered_until_it_ends<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    let of = |number: u32| RestoreRecord {
        sandbox: sandbox_id(1),
        snapshot: snapshot(number, 1).id,
        checkpoint: snapshot(9, 1).id,
    };
    store.begin_restore(&of(1)).await.unwrap();
    store.begin_restore(&of(2)).await.unwrap();
    store.close().await;
    let store = database.open().await;
    assert_eq!(store.restores().await.unwrap(), [of(2)]);
    store.end_restore(&sandbox_id(1)).await.unwrap();
    store.end_restore(&sandbox_id(1)).await.unwrap();
    assert_eq!(store.restores().await.unwrap(), []);
}

pub(crate) async fn a_restore_ends_together_with_the_change_of_the_values<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    let of = |number: u32| RestoreRecord {
        sandbox: sandbox_id(number),
        snapshot: snapshot(1, 1).id,
        checkpoint: snapshot(2, 1).id,
    };
    let value = |key: &str| KeptValue { key: key.parse().unwrap(), value: b"v".to_vec(), updated_at_ms: 7 };
    store.begin(&sandbox(1)).await.unwrap();
    store.put_value(&sandbox_id(1), &value("old")).await.unwrap();
    for number in [1, 2] {
        store.begin_restore(&of(number)).await.unwrap();
    }
    let new = [value("a"), value("b")];
    let lock = database.lock().await;
    store.end_restore_with(&sandbox_id(1), &new).await.unwrap_err();
    database.unlock(lock).await;
    assert_eq!(store.restores().await.unwrap(), [of(1), of(2)]);
    assert_eq!(store.values(&sandbox_id(1)).await.unwrap(), [value("old")]);

    store.end_restore_with(&sandbox_id(2), &new).await.expect_err("there is no such sandbox");
    store.end_restore_with(&sandbox_id(1), &new).await.unwrap();
    store.close().await;
    let store = database.open().await;
    assert_eq!(store.restores().await.unwrap(), [of(2)]);
    assert_eq!(store.values(&sandbox_id(1)).await.unwrap(), new);
}

pub(crate) async fn snapshots_of_a_sandbox_are_listed_newest_first_in_pages<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    assert_eq!(store.latest_snapshot(&sandbox_id(1)).await.unwrap(), None);
    for number in 0..7 {
        let mut record = snapshot(number, 1);
        // Some have the same time.
        record.created_at_ms = i64::from(number / 3);
        store.add_snapshot(&record).await.unwrap();
        store.add_snapshot(&snapshot(100 + number, 2)).await.unwrap();
    }
    let latest = store.latest_snapshot(&sandbox_id(1)).await.unwrap().unwrap();
    assert_eq!(latest.id, snapshot_id(6));
    let mut listed = Vec::new();
    let mut before = None;
    loop {
        let of = Some(sandbox_id(1));
        let page = store.snapshots_seen_by(&Owner::default(), of.as_ref(), before.as_ref(), 2).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.cursor());
        // A page does not depend on the snapshot where the previous one ended.
        store.forget_snapshot(&last.id).await.unwrap();
        listed.extend(page.into_iter().map(|record| record.id));
    }
    assert_eq!(listed, [6, 5, 4, 3, 2, 1, 0].map(snapshot_id));
}

pub(crate) async fn all_snapshots_are_listed_newest_first_in_pages<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    let seen = async |before: Option<&SnapshotCursor>| {
        store.snapshots_seen_by(&Owner::default(), None, before, 2).await.unwrap()
    };
    assert_eq!(seen(None).await, []);
    for number in 0..7 {
        // Those of different sandboxes have the same time.
        let created_at_ms = i64::from(number / 3);
        let record = SnapshotRecord { created_at_ms, ..snapshot(number, number % 2) };
        store.add_snapshot(&record).await.unwrap();
    }
    let mut listed = Vec::new();
    let mut before = None;
    loop {
        let page = seen(before.as_ref()).await;
        let Some(last) = page.last() else { break };
        before = Some(last.cursor());
        store.forget_snapshot(&last.id).await.unwrap();
        listed.extend(page.into_iter().map(|record| record.id));
    }
    assert_eq!(listed, [6, 5, 4, 3, 2, 1, 0].map(snapshot_id));
}

pub(crate) async fn snapshots_are_listed_for_those_who_own_them<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    let owner = |project: &str, subject: Option<&str>| Owner {
        project: project.parse().unwrap(),
        subject: subject.map(|subject| subject.parse().unwrap()),
    };
    let owners = [
        owner("default", None),
        owner("default", Some("ann")),
        owner("lab", None),
        owner("lab", Some("ann")),
        owner("lab", Some("bob")),
    ];
    for (number, owner) in (0..).zip(&owners) {
        let record = SnapshotRecord { owner: owner.clone(), ..snapshot(number, number / 4) };
        store.add_snapshot(&record).await.unwrap();
        assert_eq!(store.snapshot(&record.id).await.unwrap(), Some(record));
    }
    let seen = async |owner: &Owner, sandbox: Option<u32>| {
        let sandbox = sandbox.map(sandbox_id);
        let found = store.snapshots_seen_by(owner, sandbox.as_ref(), None, 10).await.unwrap();
        found.into_iter().map(|record| record.id).collect::<Vec<_>>()
    };
    let expected: [&[u32]; 5] = [&[1, 0], &[1], &[4, 3, 2], &[3], &[4]];
    for (owner, expected) in owners.iter().zip(expected) {
        let ids = |of: Option<u32>| {
            let of_sandbox = move |number: &&u32| of.is_none_or(|of| **number / 4 == of);
            expected.iter().filter(of_sandbox).map(|number| snapshot_id(*number)).collect::<Vec<_>>()
        };
        for sandbox in [None, Some(0), Some(1)] {
            assert_eq!(seen(owner, sandbox).await, ids(sandbox), "{owner:?} {sandbox:?}");
        }
    }
    assert_eq!(seen(&owner("other", None), None).await, []);
}

pub(crate) async fn expired_snapshots_are_found<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    for (number, expires_at_ms) in [(1, Some(30)), (2, None), (3, Some(10)), (4, Some(20)), (5, Some(31))] {
        store.add_snapshot(&SnapshotRecord { expires_at_ms, ..snapshot(number, 1) }).await.unwrap();
    }
    let found =
        |records: Vec<SnapshotRecord>| records.into_iter().map(|record| record.id).collect::<Vec<_>>();
    assert_eq!(found(store.expired_snapshots(30, 10).await.unwrap()), [3, 4, 1].map(snapshot_id));
    assert_eq!(found(store.expired_snapshots(30, 2).await.unwrap()), [3, 4].map(snapshot_id));
    assert_eq!(found(store.expired_snapshots(9, 2).await.unwrap()), []);
}

pub(crate) async fn only_surplus_checkpoints_are_found<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    for number in 0..6 {
        let automatic = number != 2;
        store.add_snapshot(&SnapshotRecord { automatic, ..snapshot(number, 1) }).await.unwrap();
        store.add_snapshot(&SnapshotRecord { automatic, ..snapshot(100 + number, 2) }).await.unwrap();
    }
    let surplus = async |keep, limit| {
        let found = store.surplus_checkpoints(&sandbox_id(1), keep, limit).await.unwrap();
        found.into_iter().map(|record| record.id).collect::<Vec<_>>()
    };
    assert_eq!(surplus(2, 10).await, [3, 1, 0].map(snapshot_id));
    assert_eq!(surplus(2, 1).await, [3].map(snapshot_id));
    assert_eq!(surplus(5, 10).await, []);
}

fn snapshot_id(number: u32) -> SnapshotId {
    format!("snap_{number:016}").parse().unwrap()
}

fn snapshot(number: u32, sandbox: u32) -> SnapshotRecord {
    SnapshotRecord {
        id: snapshot_id(number),
        sandbox: sandbox_id(sandbox),
        owner: Owner::default(),
        session_key: None,
        name: None,
        created_at_ms: 1_700_000_000_000 + i64::from(number),
        expires_at_ms: None,
        root: vec![0, 255, number as u8],
        // None at all, no values, and some.
        values: (number % 3).checked_sub(1).map(|length| vec![255; length as usize]),
        parent: None,
        size_bytes: 1 << 40,
        new_bytes: 12,
        files: 3,
        state: SnapshotState::Complete,
        automatic: false,
        command: None,
    }
}
