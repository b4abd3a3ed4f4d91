//! The cost of a disk, beside a plain volume. Prints times, and asserts only a generous bound.

use std::time::{Duration, Instant};

use sandboxd::model::UidSlot;

use crate::fixture::{Fixture, UID};

const ROUNDS: usize = 9;

/// Maximum additional time for a create with a disk.
const BLUNDER: Duration = Duration::from_millis(500);

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_costs_little() {
    let fixture = Fixture::new().await;
    let before = Instant::now();
    let disks = fixture.disks().await;
    println!("open_disks with its proof: {:?}", before.elapsed());
    let slot = UidSlot::of_uid(UID).unwrap();
    let (mut make, mut first, mut attach, mut plain, mut with) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut unplain, mut unwith) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let before = Instant::now();
        let disk = disks.make(2048).await.unwrap();
        make.push(before.elapsed());

        let before = Instant::now();
        disks.attach(&disk, slot).await.unwrap().release().await.unwrap();
        first.push(before.elapsed());

        let plan = fixture.plan(Some((&disks, &disk)), 2048);
        let before = Instant::now();
        let attached = disks.attach(&disk, slot).await.unwrap();
        fixture.engine.create_and_start(&plan).await.unwrap();
        attached.release().await.unwrap();
        with.push(before.elapsed());

        let before = Instant::now();
        disks.attach(&disk, slot).await.unwrap().release().await.unwrap();
        attach.push(before.elapsed());

        let before = Instant::now();
        fixture.engine.remove(&plan.labels.id).await.unwrap();
        disks.remove(disk.name()).await.unwrap();
        unwith.push(before.elapsed());

        let plan = fixture.plan(None, 2048);
        let before = Instant::now();
        fixture.engine.create_and_start(&plan).await.unwrap();
        plain.push(before.elapsed());
        let before = Instant::now();
        fixture.engine.remove(&plan.labels.id).await.unwrap();
        unplain.push(before.elapsed());
    }
    let [make, first, attach, plain, with, unplain, unwith] =
        [make, first, attach, plain, with, unplain, unwith].map(median);
    println!("make {make:?}, first attach and release {first:?}, while mounted {attach:?}");
    println!("create and start: plain {plain:?}, with a disk {with:?}");
    println!("remove: plain {unplain:?}, with a disk {unwith:?}");
    assert!(with < plain + BLUNDER);
    disks.close().await;
}
