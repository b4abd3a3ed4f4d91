//! The quotas of projects, and what projects have used.

use sandbox_api::quota::Quotas;
use sandboxd_model::{DayUsage, ProjectName, ProjectQuotas, ProjectRecord, UsageRecord};

use super::{TestDatabase, new_store};

pub(crate) async fn quotas_are_replaced<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    store.put_quotas(&name("lab"), &quotas(1)).await.expect_err("its project is missing");
    store.add_project(&project("lab")).await.unwrap();
    store.put_quotas(&name("lab"), &quotas(1)).await.unwrap();
    store.put_quotas(&name("lab"), &quotas(2)).await.unwrap();
    store.close().await;
    let store = database.open().await;
    assert_eq!(store.quotas().await.unwrap(), [(name("lab"), quotas(2))]);
}

pub(crate) async fn usage_never_becomes_smaller<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    store.add_project(&project("lab")).await.unwrap();
    let first = [usage("lab", 7, 5), usage("lab", 8, 1), usage("gone", 7, 5)];
    store.put_usage(&first).await.unwrap();
    store.put_usage(&[usage("lab", 7, 3), usage("lab", 8, 2)]).await.unwrap();
    store.close().await;
    let store = database.open().await;
    assert_eq!(store.usage_since(7).await.unwrap(), [usage("lab", 7, 5), usage("lab", 8, 2)]);
    assert_eq!(store.usage_since(8).await.unwrap(), [usage("lab", 8, 2)]);
    assert_eq!(store.usage_of(&name("lab"), 9).await.unwrap(), [usage("lab", 8, 2), usage("lab", 7, 5)]);
    assert_eq!(store.usage_of(&name("lab"), 1).await.unwrap(), [usage("lab", 8, 2)]);
    store.trim_usage(8).await.unwrap();
    assert_eq!(store.usage_since(0).await.unwrap(), [usage("lab", 8, 2)]);
}

fn name(text: &str) -> ProjectName {
    text.parse().unwrap()
}

fn project(text: &str) -> ProjectRecord {
    ProjectRecord { name: name(text), created_at_ms: 1 }
}

fn quotas(commands: u64) -> ProjectQuotas {
    let wire = Quotas { commands: Some(commands), images: Some(vec!["a".into()]), ..Quotas::default() };
    ProjectQuotas::from_wire(&wire, "").unwrap()
}

fn usage(project: &str, day: i32, count: u64) -> UsageRecord {
    let usage = DayUsage {
        running_ms: count,
        peak_running: count + 1,
        commands: count + 2,
        egress_bytes: count + 3,
        snapshot_bytes: count + 4,
    };
    UsageRecord { project: name(project), day, usage }
}
