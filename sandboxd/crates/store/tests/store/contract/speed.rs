//! Many writers, and how long writing takes. The durations are printed; the limits are exceeded only if something
//! is badly wrong.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandboxd_model::Stage;

use super::records::{command, command_id, ended, sandbox, sandbox_id};
use super::{TestDatabase, new_store};

pub(crate) async fn many_callers_can_write_concurrently<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
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

#[expect(clippy::print_stdout, reason = "the durations are for the reader of the test run")]
pub(crate) async fn a_create_writes_twice_and_quickly<D: TestDatabase>() {
    let (_database, store) = new_store::<D>().await;
    let mut took: [Vec<Duration>; 3] = Default::default();
    for number in 0..200 {
        let mut record = sandbox(number);
        let begun = Instant::now();
        store.begin(&record).await.unwrap();
        took[0].push(begun.elapsed());
        record.stage = Stage::Running;
        let put = Instant::now();
        store.put(&record).await.unwrap();
        took[1].push(put.elapsed());
        let staged = Instant::now();
        store.set_stage(&record.id, Stage::Parking).await.unwrap();
        took[2].push(staged.elapsed());
    }
    for (name, mut took) in ["begin", "put", "set_stage"].into_iter().zip(took) {
        took.sort();
        println!("{name}: median {:?}, 95% {:?}, longest {:?}", took[100], took[190], took[199]);
        assert!(took[100] < Duration::from_secs(1));
    }
}

#[expect(clippy::print_stdout, reason = "the durations are for the reader of the test run")]
pub(crate) async fn ten_thousand_commands_are_written_quickly<D: TestDatabase>() {
    const COMMANDS: u32 = 10_000;
    let (_database, store) = new_store::<D>().await;
    let one = sandbox_id(1);
    store.begin(&sandbox(1)).await.unwrap();
    let begun = Instant::now();
    for number in 0..COMMANDS {
        store.history().started(command(&one, number));
        store.history().ended(&one, &command_id(number), ended(0));
        if number % 1000 == 999 {
            assert!(store.history().flush().await);
        }
    }
    let took = begun.elapsed();
    assert_eq!(store.history().dropped(), 0);
    assert_eq!(store.commands(&one, u32::MAX).await.unwrap().len(), COMMANDS as usize);
    println!("{COMMANDS} commands in {took:?}, {:.0} a second", f64::from(COMMANDS) / took.as_secs_f64());
    assert!(took < Duration::from_secs(30));
}
