//! Sandboxes.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::option;
use proptest::prelude::*;
use sandbox_api::sandbox as wire;
use sandboxd_model::{
    Checkpoints, Disk, Lower, NetworkMode, NetworkPolicy, Owner, Resources, Runtime, SandboxRecord,
    SandboxSpec, SessionKey, Stage, Transport, UidSlot,
};
use sandboxd_store::ErrorKind;

use super::records::{command, ended, sandbox, sandbox_id};
use super::{TestDatabase, new_store};

pub(crate) async fn a_sandbox_is_inserted_changed_and_removed<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
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
    one.checkpoint_pending = true;
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
    let gone = store.set_stage(&one.id, Stage::Running).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Absent, "{gone:?}");
}

pub(crate) async fn tentative_sandboxes_are_confirmed_together_and_by_nothing_else<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    let mut records = [sandbox(1), sandbox(2), sandbox(3)];
    for record in &mut records {
        record.is_tentative = true;
        store.begin(record).await.unwrap();
    }
    let tentative = async || {
        let found = store.sandboxes().await.unwrap();
        found.into_iter().map(|record| record.is_tentative).collect::<Vec<_>>()
    };
    let changed = SandboxRecord { is_tentative: false, stage: Stage::Parked, ..records[0].clone() };
    store.put(&changed).await.unwrap();
    assert_eq!(store.sandboxes().await.unwrap()[0].stage, Stage::Parked);
    assert_eq!(tentative().await, [true, true, true]);
    store.confirm(&[records[0].id.clone(), records[2].id.clone(), sandbox_id(9)]).await.unwrap();
    store.put(&records[0]).await.unwrap();
    assert_eq!(tentative().await, [false, true, false]);
}

pub(crate) async fn ids_session_keys_and_slots_are_unique<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    store.begin(&sandbox(1)).await.unwrap();
    let (mut same_key, mut same_slot, mut same_id) = (sandbox(2), sandbox(3), sandbox(5));
    same_id.id = sandbox(1).id;
    same_key.spec.session_key = sandbox(1).spec.session_key;
    same_slot.slot = sandbox(1).slot;
    for (record, column) in [(same_id, "id"), (same_key, "session_key"), (same_slot, "uid")] {
        let taken = store.begin(&record).await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::Taken { column }, "{taken:?}");
        assert!(!taken.is_unavailable());
    }
    store.begin(&sandbox(4)).await.unwrap();
    assert_eq!(store.sandboxes().await.unwrap().len(), 2);
}

pub(crate) async fn owners_have_the_same_session_keys<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    let owners = [("default", None), ("default", Some("ann")), ("lab", None), ("lab", Some("ann"))];
    for (number, (project, subject)) in (1..).zip(owners) {
        let mut record = sandbox(number);
        record.spec.session_key = sandbox(1).spec.session_key;
        record.spec.owner.project = project.parse().unwrap();
        record.spec.owner.subject = subject.map(|subject| subject.parse().unwrap());
        store.begin(&record).await.unwrap();
        let again = SandboxRecord { id: sandbox_id(9), slot: sandbox(9).slot, ..record };
        let taken = store.begin(&again).await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::Taken { column: "session_key" });
    }
    assert_eq!(store.sandboxes().await.unwrap().len(), owners.len());
}

pub(crate) async fn putting_a_sandbox_keeps_its_history_and_removing_it_does_not<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
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

pub(crate) async fn a_put_replaces_only_the_sandbox_itself<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    for number in [1, 2] {
        store.begin(&sandbox(number)).await.unwrap();
    }
    let (mut same_key, mut same_slot) = (sandbox(2), sandbox(2));
    same_key.spec.session_key = sandbox(1).spec.session_key;
    same_slot.slot = sandbox(1).slot;
    for (record, column) in [(same_key, "session_key"), (same_slot, "uid")] {
        let taken = store.put(&record).await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::Taken { column }, "{taken:?}");
    }
    assert_eq!(store.sandboxes().await.unwrap(), [sandbox(1), sandbox(2)]);
}

pub(crate) async fn every_field_is_read_back<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    let runtime = tokio::runtime::Handle::current();
    let check = move || {
        proptest!(ProptestConfig::with_cases(128), |(record in record())| {
            runtime.block_on(async {
                store.put(&record).await.unwrap();
                let found = store.sandboxes().await.unwrap();
                store.remove(&record.id).await.unwrap();
                prop_assert_eq!(found, [record]);
                Ok(())
            })?;
        });
    };
    tokio::task::spawn_blocking(check).await.unwrap();
}

fn record() -> impl Strategy<Value = SandboxRecord> {
    let slot = 0..u32::from(UidSlot::COUNT);
    let states = (stage(), option::of(disk()), any::<bool>(), slot, any::<bool>(), any::<bool>());
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
        checkpoint_pending: states.4,
        is_tentative: states.5,
    })
}

fn owner() -> impl Strategy<Value = Owner> {
    ("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", option::of("[!-~]{1,256}")).prop_map(|(project, subject)| Owner {
        project: project.parse().unwrap(),
        subject: subject.map(|subject| subject.parse().unwrap()),
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
        (owner(), key),
        runtime,
        option::of("\\PC{0,80}"),
        0..=u64::from(u32::MAX),
        resources(),
        network,
        ports,
        (map(), map()),
        checkpoints(),
    )
        .prop_map(
            |((owner, session_key), runtime, image, ttl, resources, network, ports, maps, checkpoints)| {
                let (env, metadata) = maps;
                SandboxSpec {
                    owner,
                    session_key,
                    runtime,
                    image,
                    idle_ttl: Duration::from_millis(ttl),
                    resources,
                    network,
                    ports,
                    secret_env: env.keys().cloned().collect(),
                    env,
                    metadata,
                    checkpoints,
                }
            },
        )
}

fn checkpoints() -> impl Strategy<Value = Option<Checkpoints>> {
    let every_ms = option::of(10_000_u64..=86_400_000);
    (any::<bool>(), every_ms, option::of(1_u32..=1000)).prop_map(|(after_command, every_ms, keep)| {
        Checkpoints::new(&wire::Checkpoints { after_command: Some(after_command), every_ms, keep }).unwrap()
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
    let uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    let lower = prop::option::of(("[0-9a-f]{64}", "[a-z][a-z:.-]{0,40}"));
    ("[0-9A-Za-z_]{1,64}", uuid, lower).prop_map(|(name, uuid, lower)| {
        let disk = Disk::new(&name, &uuid).unwrap();
        match lower {
            Some((base, driver)) => disk.over(Lower::new(&base, &driver).unwrap()),
            None => disk,
        }
    })
}

fn stage() -> impl Strategy<Value = Stage> {
    let names = ["creating", "running", "parking", "parked", "waking", "deleting", "lost"];
    prop::sample::select(names.map(|name| Stage::parse(name).unwrap()).to_vec())
}

/// Counts that a database can hold: its numbers are signed.
fn count() -> impl Strategy<Value = u64> {
    0..=i64::MAX as u64
}
