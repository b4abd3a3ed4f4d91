//! Rows are read back as written, and only once.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use proptest::option;
use proptest::prelude::*;
use sandboxd::model::{
    Disk, NetworkMode, NetworkPolicy, Orphan, OrphanKind, Resources, Runtime, SandboxRecord, SandboxSpec,
    SessionKey, Stage, Transport, UidSlot,
};
use sandboxd::store::{Error, Identity, Store};

use crate::world::{command, dir, ended, sandbox, sandbox_id, store};

#[tokio::test]
async fn a_sandbox_is_inserted_changed_and_removed() {
    let (_dir, store) = store().await;
    let mut one = sandbox(1);
    store.begin(&one).await.unwrap();
    assert_eq!(store.sandboxes().await.unwrap(), [one.clone()]);

    store.set_stage(&one.id, Stage::Running).await.unwrap();
    store.touch(&[(one.id.clone(), 42), (sandbox_id(9), 43)]).await.unwrap();
    one.stage = Stage::Running;
    one.last_active_ms = 42;
    assert_eq!(store.sandboxes().await.unwrap(), [one.clone()]);

    one.stage = Stage::Parked;
    one.parked_at_age_ms = Some(77);
    one.disk_bytes = Some(1 << 40);
    store.put(&one).await.unwrap();
    assert_eq!(store.sandboxes().await.unwrap(), [one.clone()]);

    assert!(store.set_stage_unless_deleting(&one.id, Stage::Parking).await.unwrap());
    store.set_stage(&one.id, Stage::Deleting).await.unwrap();
    assert!(!store.set_stage_unless_deleting(&one.id, Stage::Parking).await.unwrap());
    assert_eq!(store.sandboxes().await.unwrap()[0].stage, Stage::Deleting);

    store.remove(&one.id).await.unwrap();
    store.remove(&one.id).await.unwrap();
    assert!(!store.set_stage_unless_deleting(&one.id, Stage::Parking).await.unwrap());
    assert_eq!(store.sandboxes().await.unwrap(), []);
    let gone = store.set_stage(&one.id, Stage::Running).await;
    assert!(matches!(gone, Err(Error::Absent { .. })), "{gone:?}");
}

#[tokio::test]
async fn engine_ownership_and_orphans_are_read_back() {
    let (_dir, store) = store().await;
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

    let orphan = |kind, name: &str| Orphan { kind, name: name.into(), seen_at_age_ms: 5, seen_at_ms: -5 };
    let orphans = [orphan(OrphanKind::Disk, "a"), orphan(OrphanKind::Workspace, "a")];
    store.set_orphans(&orphans).await.unwrap();
    assert_eq!(store.orphans().await.unwrap(), orphans);
    store.set_orphans(&[]).await.unwrap();
    assert_eq!(store.orphans().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_can_write_concurrently() {
    let (_dir, store) = store().await;
    let store = Arc::new(store);
    let callers = (0..64).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            store.begin(&sandbox(number)).await.unwrap();
            store.set_stage(&sandbox_id(number), Stage::Running).await.unwrap();
            store.commands(&sandbox_id(number), 10).await.unwrap();
            store.put(&sandbox(number)).await.unwrap();
            store.check().await.unwrap();
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    assert_eq!(store.sandboxes().await.unwrap().len(), 64);
}

#[tokio::test]
async fn ids_session_keys_and_slots_are_unique() {
    let (_dir, store) = store().await;
    store.begin(&sandbox(1)).await.unwrap();
    let (mut same_key, mut same_slot, mut same_id) = (sandbox(2), sandbox(3), sandbox(5));
    same_id.id = sandbox(1).id;
    same_key.spec.session_key = sandbox(1).spec.session_key;
    same_slot.slot = sandbox(1).slot;
    for (record, wanted) in [(same_id, "id"), (same_key, "session_key"), (same_slot, "uid")] {
        let taken = store.begin(&record).await;
        assert!(matches!(taken, Err(Error::Taken { column }) if column == wanted), "{taken:?}");
        assert!(!taken.unwrap_err().is_away());
    }
    store.begin(&sandbox(4)).await.unwrap();
    assert_eq!(store.sandboxes().await.unwrap().len(), 2);
}

#[tokio::test]
async fn putting_a_sandbox_keeps_its_history_and_removing_it_does_not() {
    let (_dir, store) = store().await;
    let one = sandbox(1);
    store.begin(&one).await.unwrap();
    store.history().started(command(&one.id, 1));
    assert_eq!(store.commands(&one.id, 10).await.unwrap().len(), 1);
    store.put(&one).await.unwrap();
    assert_eq!(store.commands(&one.id, 10).await.unwrap().len(), 1);
    store.remove(&one.id).await.unwrap();
    assert_eq!(store.commands(&one.id, 10).await.unwrap(), []);
    store.history().started(command(&one.id, 2));
    store.history().ended(&one.id, &command(&one.id, 2).id, ended(0));
    assert_eq!(store.commands(&one.id, 10).await.unwrap(), []);
    assert_eq!(store.history().dropped(), 0);
}

#[tokio::test]
async fn a_store_is_new_until_sandboxes_are_adopted() {
    let dir = dir();
    let open = async || Store::open(dir.path()).await.unwrap();
    let store = open().await;
    assert!(store.is_new());
    store.set_age_ms(5_000).await.unwrap();
    store.close().await;

    let store = open().await;
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

    let store = open().await;
    assert!(!store.is_new());
    assert_eq!(store.sandboxes().await.unwrap(), [sandbox(1), sandbox(2)]);
}

#[tokio::test]
async fn its_files_are_private() {
    let (dir, store) = store().await;
    store.begin(&sandbox(1)).await.unwrap();
    for name in ["sandboxd.db", "sandboxd.db-wal", "sandboxd.db-shm", "sandboxd.ballast"] {
        let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn every_field_is_read_back() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_dir, store) = runtime.block_on(store());
    proptest!(ProptestConfig::with_cases(128), |(record in record())| {
        runtime.block_on(async {
            store.put(&record).await.unwrap();
            let found = store.sandboxes().await.unwrap();
            store.remove(&record.id).await.unwrap();
            prop_assert_eq!(found, [record]);
            Ok(())
        })?;
    });
}

fn record() -> impl Strategy<Value = SandboxRecord> {
    let states = (stage(), option::of(disk()), any::<bool>(), 0..u32::from(UidSlot::COUNT));
    let times = (any::<i64>(), any::<i64>(), option::of(count()), option::of(count()));
    ("sbx_[0-9A-Za-z]{16,64}", spec(), states, times).prop_map(|(id, spec, states, times)| SandboxRecord {
        id: id.parse().unwrap(),
        slot: UidSlot::of_uid(UidSlot::FIRST_UID + states.3).unwrap(),
        transport: if states.2 { Transport::Socket } else { Transport::Engine },
        spec,
        disk: states.1,
        stage: states.0,
        created_at_ms: times.0,
        last_active_ms: times.1,
        parked_at_age_ms: times.2,
        disk_bytes: times.3,
    })
}

fn spec() -> impl Strategy<Value = SandboxSpec> {
    let key = "\\PC{1,60}".prop_filter_map("blank", |text| text.parse::<SessionKey>().ok());
    let mode = prop::sample::select(NetworkMode::ALL.to_vec());
    let rule = "(\\*\\.)?[a-z]{1,9}\\.[a-z]{2,5}(:[1-9][0-9]{0,3})?";
    let network = (mode, prop::collection::vec(rule, 0..4))
        .prop_filter_map("a rule", |(mode, allow)| NetworkPolicy::from_texts(mode, &allow));
    let runtime = prop::sample::select(vec![Runtime::Node24, Runtime::Python313]);
    let ports = prop::collection::vec(1_u16.., 0..4);
    (
        key,
        runtime,
        option::of("\\PC{0,80}"),
        0..=u64::from(u32::MAX),
        resources(),
        network,
        ports,
        map(),
        map(),
    )
        .prop_map(|(session_key, runtime, image, ttl, resources, network, ports, env, metadata)| {
            SandboxSpec {
                session_key,
                runtime,
                image,
                idle_ttl: Duration::from_millis(ttl),
                resources,
                network,
                ports,
                env,
                metadata,
            }
        })
}

fn resources() -> impl Strategy<Value = Resources> {
    (1_u64..=8, 256_u64..=16_384, 64_u64..=65_536, 16_u64..=4096).prop_map(|(vcpus, memory, disk, pids)| {
        let text = format!("vcpus={vcpus},memoryMb={memory},diskMb={disk},pids={pids}");
        text.parse().unwrap()
    })
}

fn map() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map("[^\\x00]{1,20}", "[^\\x00]{0,200}", 0..8)
}

fn disk() -> impl Strategy<Value = Disk> {
    ("[0-9A-Za-z_]{1,64}", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
        .prop_map(|(name, uuid)| Disk::new(&name, &uuid).unwrap())
}

fn stage() -> impl Strategy<Value = Stage> {
    let names = ["creating", "running", "parking", "parked", "waking", "deleting", "lost"];
    prop::sample::select(names.map(|name| Stage::parse(name).unwrap()).to_vec())
}

/// The largest integer of SQLite.
fn count() -> impl Strategy<Value = u64> {
    0..=i64::MAX as u64
}
