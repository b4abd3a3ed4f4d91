//! The values that clients keep with a sandbox.

use sandbox_api::SandboxId;
use sandboxd_model::value::{KeptValue, ValueInfo, ValueTotals};
use sandboxd_store::Store;

use super::records::sandbox;
use super::{TestDatabase, new_store};

pub(crate) async fn values_are_replaced_listed_and_deleted<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    let (one, two) = two_sandboxes(&store).await;
    for value in [value("b/2", b"two"), value("a", b""), value("b/1", b"old"), value("b/1", b"\0\xff")] {
        store.put_value(&one, &value).await.unwrap();
    }
    store.put_value(&two, &value("b/1", b"of two")).await.unwrap();
    store.close().await;
    let store = database.open().await;
    assert_eq!(store.value(&one, &key("b/1")).await.unwrap(), Some(value("b/1", b"\0\xff")));
    assert_eq!(store.value(&one, &key("b")).await.unwrap(), None);
    let all = [value("a", b""), value("b/1", b"\0\xff"), value("b/2", b"two")];
    assert_eq!(store.values(&one).await.unwrap(), all);
    let of_b = store.value_infos(&one, "b/", None, 9).await.unwrap();
    assert_eq!(of_b, [info("b/1", 2), info("b/2", 3)]);
    assert_eq!(store.value_infos(&one, "", None, 1).await.unwrap(), [info("a", 0)]);
    assert_eq!(store.value_infos(&one, "b/", Some(&key("b/1")), 9).await.unwrap(), [info("b/2", 3)]);
    assert_eq!(store.value_infos(&one, "%", None, 9).await.unwrap(), []);
    for _ in 0..2 {
        store.forget_value(&one, &key("b/1")).await.unwrap();
    }
    assert_eq!(store.values(&one).await.unwrap().len(), 2);
    assert_eq!(store.values(&two).await.unwrap().len(), 1);
}

pub(crate) async fn values_are_counted_and_removed_with_their_sandbox<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    let (one, two) = two_sandboxes(&store).await;
    store.put_value(&one, &value("ключ", b"12345")).await.unwrap();
    store.put_value(&one, &value("k", b"")).await.unwrap();
    store.put_value(&two, &value("k", b"1")).await.unwrap();
    let mut totals = [(one.clone(), totals(2, 14)), (two.clone(), totals(1, 2))];
    totals.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert_eq!(store.value_totals().await.unwrap(), totals);
    assert_eq!(store.value_totals_of(&one).await.unwrap(), self::totals(2, 14));
    // A change of the sandbox keeps them.
    store.put(&store.sandboxes().await.unwrap()[0]).await.unwrap();
    assert_eq!(store.value_totals().await.unwrap().len(), 2);
    store.remove(&one).await.unwrap();
    assert_eq!(store.values(&one).await.unwrap(), []);
    assert_eq!(store.value_totals_of(&one).await.unwrap(), self::totals(0, 0));
    store.put_value(&one, &value("k", b"")).await.expect_err("its sandbox is gone");
}

pub(crate) async fn all_values_are_replaced_at_once<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    let (one, two) = two_sandboxes(&store).await;
    for key in ["a", "b", "c"] {
        store.put_value(&one, &value(key, b"old")).await.unwrap();
        store.put_value(&two, &value(key, b"of two")).await.unwrap();
    }
    let new = [value("b", b"new"), value("d", b"")];
    store.replace_values(&one, &new).await.unwrap();
    assert_eq!(store.values(&one).await.unwrap(), new);
    assert_eq!(store.values(&two).await.unwrap().len(), 3);
    store.replace_values(&one, &[]).await.unwrap();
    assert_eq!(store.values(&one).await.unwrap(), []);
    store.remove(&one).await.unwrap();
    store.replace_values(&one, &new).await.expect_err("its sandbox is gone");
}

async fn two_sandboxes(store: &Store) -> (SandboxId, SandboxId) {
    let (one, two) = (sandbox(1), sandbox(2));
    store.begin(&one).await.unwrap();
    store.begin(&two).await.unwrap();
    (one.id, two.id)
}

fn key(text: &str) -> sandboxd_model::value::ValueKey {
    text.parse().unwrap()
}

fn value(name: &str, value: &[u8]) -> KeptValue {
    KeptValue { key: key(name), value: value.to_vec(), updated_at_ms: 7 }
}

fn info(name: &str, bytes: u64) -> ValueInfo {
    ValueInfo { key: key(name), bytes, updated_at_ms: 7 }
}

fn totals(values: u64, bytes: u64) -> ValueTotals {
    ValueTotals { values, bytes }
}
