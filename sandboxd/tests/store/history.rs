//! The history of commands: order, ends, dropped entries, trimming.

use std::time::Duration;

use sandboxd::model::{CommandRecord, limits};
use sandboxd::store::Store;
use tempfile::TempDir;

use crate::world::{command, command_id, ended, sandbox, sandbox_id, store};

async fn store_with_a_sandbox() -> (TempDir, Store) {
    let (dir, store) = store().await;
    store.begin(&sandbox(1)).await.unwrap();
    store.begin(&sandbox(2)).await.unwrap();
    (dir, store)
}

fn whole(record: &CommandRecord, exit_code: i32) -> CommandRecord {
    CommandRecord { ended: Some(ended(exit_code)), ..record.clone() }
}

#[tokio::test]
async fn the_newest_come_first_and_an_end_is_visible_at_once() {
    let (_dir, store) = store_with_a_sandbox().await;
    let (one, two) = (sandbox_id(1), sandbox_id(2));
    for number in 0..5 {
        store.history().started(command(&one, number));
    }
    store.history().started(command(&two, 0));
    store.history().ended(&one, &command_id(3), ended(7));
    store.history().ended(&two, &command_id(3), ended(8));

    let newest = store.commands(&one, 2).await.unwrap();
    assert_eq!(newest, [command(&one, 4), whole(&command(&one, 3), 7)]);
    let open = store.unended(&one).await.unwrap();
    assert_eq!(open, [0, 1, 2, 4].map(|number| command(&one, number)));
    assert_eq!(store.commands(&two, 10).await.unwrap(), [command(&two, 0)]);

    store.history().ended(&one, &command_id(0), ended(1));
    assert_eq!(store.command(&one, &command_id(0)).await.unwrap(), Some(whole(&command(&one, 0), 1)));
    assert_eq!(store.command(&one, &command_id(9)).await.unwrap(), None);
    assert_eq!(store.history().dropped(), 0);
}

#[tokio::test]
async fn a_repeated_start_changes_nothing_and_a_reused_id_starts_again() {
    let (_dir, store) = store_with_a_sandbox().await;
    let one = sandbox_id(1);
    let first = command(&one, 1);
    store.history().started(first.clone());
    store.history().ended(&one, &first.id, ended(3));
    store.history().started(command(&one, 2));
    assert!(store.history().flush().await);
    store.history().started(first.clone());
    assert_eq!(store.command(&one, &first.id).await.unwrap(), Some(whole(&first, 3)));

    let again = CommandRecord { started_at_ms: first.started_at_ms + 60_000, ..first.clone() };
    store.history().started(again.clone());
    assert_eq!(store.commands(&one, 10).await.unwrap(), [again.clone(), command(&one, 2)]);
    let third = CommandRecord { started_at_ms: again.started_at_ms + 1, ..again };
    store.history().started(third.clone());
    store.history().ended(&one, &third.id, ended(4));
    assert_eq!(store.command(&one, &third.id).await.unwrap(), Some(whole(&third, 4)));
}

#[tokio::test]
async fn entries_above_the_limit_are_dropped_and_counted() {
    let (_dir, store) = store_with_a_sandbox().await;
    let one = sandbox_id(1);
    let room = limits::MAX_UNWRITTEN_COMMANDS as u32;
    // The writer is a task on this thread, so it cannot run before the first await.
    for number in 0..room + 10 {
        store.history().started(command(&one, number));
    }
    assert_eq!(store.history().dropped(), 10);
    let kept = store.commands(&one, u32::MAX).await.unwrap();
    assert_eq!(kept.len(), room as usize);
    assert_eq!(kept[0], command(&one, room - 1));
    store.history().ended(&one, &command_id(room + 3), ended(0));
    assert_eq!(store.command(&one, &command_id(room + 3)).await.unwrap(), None);
}

#[tokio::test]
async fn trimming_depends_on_number_and_age() {
    let (_dir, store) = store_with_a_sandbox().await;
    let (one, two) = (sandbox_id(1), sandbox_id(2));
    let kept = limits::MAX_RECORDED_COMMANDS as u32;
    for number in 0..kept + 20 {
        store.history().started(command(&one, number));
        if number > 0 {
            store.history().ended(&one, &command_id(number), ended(0));
        }
    }
    store.history().started(whole(&command(&two, 1), 0));
    store.history().started(command(&two, 2));
    // The first one is still running.
    assert_eq!(store.trim().await.unwrap(), 19);
    assert_eq!(store.commands(&one, u32::MAX).await.unwrap().len(), kept as usize + 1);
    assert_eq!(store.commands(&two, 10).await.unwrap().len(), 2);
    assert_eq!(store.trim().await.unwrap(), 0);

    let age = limits::RECORDED_COMMAND_AGE + Duration::from_millis(1);
    store.set_age_ms(age.as_millis() as u64).await.unwrap();
    assert_eq!(store.trim().await.unwrap(), u64::from(kept) + 1);
    assert_eq!(store.unended(&one).await.unwrap(), [command(&one, 0)]);
    assert_eq!(store.commands(&two, 10).await.unwrap(), [command(&two, 2)]);
}

#[tokio::test]
async fn closing_writes_pending_entries() {
    let (dir, store) = store_with_a_sandbox().await;
    let one = sandbox_id(1);
    for number in 0..1000 {
        store.history().started(whole(&command(&one, number), 0));
    }
    store.close().await;
    assert!(!dir.path().join("sandboxd.db-wal").exists());
    let store = Store::open(dir.path()).await.unwrap();
    assert_eq!(store.commands(&one, u32::MAX).await.unwrap().len(), 1000);
}
