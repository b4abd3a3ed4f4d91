//! The quota of a sandbox's disk.

use crate::fixture::{Fixture, has_device, until};

const MIB: u64 = 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_limited_to_its_size_and_deleted_open_files_count() {
    let fixture = Fixture::new().await;
    let disks = fixture.disks().await;
    let disk = disks.make(64).await.unwrap();
    let sandbox = fixture.sandbox(&disks, &disk, 64).await;

    let fill = "dd if=/dev/zero of=big bs=1M 2>&1; stat -c %s big";
    let said = fixture.output(&sandbox, fill).await;
    assert!(said.contains("No space left"), "{said}");
    let written: u64 = said.lines().last().unwrap().parse().unwrap();
    assert!((50 * MIB..64 * MIB).contains(&written), "{written}");

    let (code, said) = fixture.run(&sandbox, "rm big; fallocate -l 60M big").await;
    assert!(code != 0 && said.contains("No space left"), "{said}");
    let open = "exec 3>hidden; dd if=/dev/zero of=/proc/self/fd/3 bs=1M 2>/dev/null; rm hidden; \
                dd if=/dev/zero of=more bs=1M count=8 2>&1";
    let (code, said) = fixture.run(&sandbox, open).await;
    assert!(code != 0 && said.contains("No space left"), "{said}");

    let flood = "rm -rf big hidden more; for d in $(seq 1 2000); do mkdir d$d; (cd d$d && touch {1..64}) || break; done 2>&1 \
                 | tail -n 1; find . | wc -l";
    let said = fixture.output(&sandbox, flood).await;
    let files: u64 = said.lines().last().unwrap().parse().unwrap();
    assert!(said.contains("No space left") && (7000..10_000).contains(&files), "{said}");

    // Space of deleted files is returned to the machine.
    fixture.output(&sandbox, "rm -rf d* && sync").await;
    until("the space is freed", || async {
        disks.list().await.unwrap().iter().all(|found| found.allocated_bytes < 20 * MIB)
    })
    .await;

    fixture.engine.remove(&sandbox).await.unwrap();
    disks.remove(disk.name()).await.unwrap();
    until("the device is released", || async { !has_device(disk.name()) }).await;
    disks.close().await;
    assert!(!fixture.helper_exists().await);
}
