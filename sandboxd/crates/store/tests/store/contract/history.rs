//! The history of commands: order, ends, dropped entries, trimming.

use std::time::Duration;

use sandbox_api::ContextId;
use sandbox_api::context::RunStatus;
use sandbox_api::tool::ToolCallStatus;
use sandboxd_model::context::ContextEntry;
use sandboxd_model::{CommandRecord, limits};
use sandboxd_store::{EndedCommand, Store};

use super::records::{command, command_id, ended, sandbox, sandbox_id};
use super::{TestDatabase, new_store};

async fn store_with_sandboxes<D: TestDatabase>() -> (D, Store) {
    let (database, store) = new_store::<D>().await;
    store.begin(&sandbox(1)).await.unwrap();
    store.begin(&sandbox(2)).await.unwrap();
    (database, store)
}

fn whole(record: &CommandRecord, exit_code: i32) -> CommandRecord {
    CommandRecord { ended: Some(ended(exit_code)), ..record.clone() }
}

pub(crate) async fn the_newest_come_first_and_an_end_is_visible_at_once<D: TestDatabase>() {
    let (_database, store) = store_with_sandboxes::<D>().await;
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

pub(crate) async fn a_repeated_start_changes_nothing_and_a_reused_id_starts_again<D: TestDatabase>() {
    let (_database, store) = store_with_sandboxes::<D>().await;
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

pub(crate) async fn entries_above_the_limit_are_dropped_and_counted<D: TestDatabase>() {
    let (_database, store) = store_with_sandboxes::<D>().await;
    let one = sandbox_id(1);
    let room = limits::MAX_UNWRITTEN_COMMANDS as u32;
    // The writer is a task of this thread, so it cannot run before the first await.
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

pub(crate) async fn trimming_depends_on_number_and_age<D: TestDatabase>() {
    let (_database, store) = store_with_sandboxes::<D>().await;
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
    // The first one still runs.
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

pub(crate) async fn trimming_keeps_twice_the_number_of_commands_without_an_end<D: TestDatabase>() {
    let (_database, store) = store_with_sandboxes::<D>().await;
    let one = sandbox_id(1);
    let kept = 2 * limits::MAX_RECORDED_COMMANDS as u32;
    for number in 0..kept + 3 {
        store.history().started(command(&one, number));
    }
    assert_eq!(store.trim().await.unwrap(), 3);
    let found = store.unended(&one).await.unwrap();
    assert_eq!((found.len(), &found[0]), (kept as usize, &command(&one, 3)));
}

pub(crate) async fn closing_writes_pending_entries<D: TestDatabase>() {
    let (database, store) = store_with_sandboxes::<D>().await;
    let one = sandbox_id(1);
    for number in 0..1000 {
        store.history().started(whole(&command(&one, number), 0));
    }
    store.close().await;
    let store = database.open().await;
    assert_eq!(store.commands(&one, u32::MAX).await.unwrap().len(), 1000);
}

pub(crate) async fn commands_are_looked_up_by_their_ids<D: TestDatabase>() {
    let (_database, store) = store_with_sandboxes::<D>().await;
    let (one, two) = (sandbox_id(1), sandbox_id(2));
    store.history().started(command(&one, 1));
    store.history().started(whole(&command(&one, 2), 0));
    store.history().started(command(&two, 3));
    assert!(store.history().flush().await);
    let found = store.written(&one, &[1, 2, 3, 4].map(command_id)).await.unwrap();
    let mut found: Vec<_> = found.iter().map(|(id, row)| (id, row.started_at_ms, row.has_ended)).collect();
    found.sort();
    let started_at = |number| command(&one, number).started_at_ms;
    assert_eq!(found, [(&command_id(1), started_at(1), false), (&command_id(2), started_at(2), true)]);
    assert_eq!(store.written_command(&one, &command_id(1)).await.unwrap(), Some(command(&one, 1)));
    assert_eq!(store.written_command(&two, &command_id(1)).await.unwrap(), None);
}

pub(crate) async fn ended_commands_stay_in_pages_when_commands_are_trimmed<D: TestDatabase>() {
    let (_database, store) = store_with_sandboxes::<D>().await;
    let (one, two) = (sandbox_id(1), sandbox_id(2));
    let count = limits::MAX_RECORDED_COMMANDS + 10;
    for number in 0..count as u32 {
        store.history().started(whole(&command(&one, number), 0));
        if number % 500 == 0 {
            assert!(store.history().flush().await);
        }
    }
    store.history().started(command(&two, 0));
    store.history().ended(&two, &command_id(0), ended(7));
    // A later end of the same command does not change what was recorded.
    assert!(store.history().flush().await);
    store.history().ended(&two, &command_id(0), ended(8));
    assert_eq!(store.trim().await.unwrap(), 10);

    let (mut numbers, mut before) = (Vec::new(), None);
    loop {
        let page = store.ended_commands(&one, before, 400).await.unwrap();
        before = page.last().map(|last| last.number);
        numbers.extend(page.iter().map(|ended| ended.number));
        if before.is_none() {
            break;
        }
    }
    assert_eq!(numbers, (1..=count as u64).rev().collect::<Vec<_>>());
    let of_two = store.ended_commands(&two, None, 10).await.unwrap();
    assert_eq!(of_two, [EndedCommand { number: 1, command: whole(&command(&two, 0), 7), in_context: None }]);
    store.remove(&one).await.unwrap();
    assert_eq!(store.ended_commands(&one, None, 10).await.unwrap(), []);
}

pub(crate) async fn runs_and_calls_of_contexts_are_between_the_commands<D: TestDatabase>() {
    let (_database, store) = store_with_sandboxes::<D>().await;
    let one = sandbox_id(1);
    let context: ContextId = "ctx_0123456789abcdefghijkl".parse().unwrap();
    let of_run = ContextEntry::Run { context: context.clone(), status: RunStatus::OutOfMemory };
    let of_call = ContextEntry::ToolCall { context, call: 7, status: ToolCallStatus::RunOver };
    store.history().started(whole(&command(&one, 1), 0));
    store.history().in_context(whole(&command(&one, 2), 1), of_run.clone());
    store.history().in_context(whole(&command(&one, 2), 1), of_call.clone());
    store.history().started(whole(&command(&one, 3), 0));
    // Of a sandbox that does not exist.
    store.history().in_context(whole(&command(&sandbox_id(9), 1), 0), of_run.clone());

    let found = store.ended_commands(&one, None, 10).await.unwrap();
    let entry = |number, of: u32, in_context: Option<ContextEntry>| EndedCommand {
        number,
        command: whole(&command(&one, of), i32::from(in_context.is_some())),
        in_context,
    };
    assert_eq!(
        found,
        [entry(4, 3, None), entry(3, 2, Some(of_call)), entry(2, 2, Some(of_run)), entry(1, 1, None)]
    );
    assert_eq!(store.ended_commands(&sandbox_id(9), None, 10).await.unwrap(), []);
    // None of them is a command.
    assert_eq!(store.command(&one, &command_id(2)).await.unwrap(), None);
}

pub(crate) async fn ended_commands_have_a_bound<D: TestDatabase>() {
    let (_database, store) = store_with_sandboxes::<D>().await;
    let one = sandbox_id(1);
    let count = limits::MAX_ENDED_COMMANDS + 3;
    for number in 0..count as u32 {
        store.history().started(whole(&command(&one, number), 0));
        if number % 500 == 0 {
            assert!(store.history().flush().await);
        }
    }
    store.trim().await.unwrap();
    let oldest = store.ended_commands(&one, Some(6), 10).await.unwrap();
    assert_eq!(oldest.iter().map(|ended| ended.number).collect::<Vec<_>>(), [5, 4]);
}
