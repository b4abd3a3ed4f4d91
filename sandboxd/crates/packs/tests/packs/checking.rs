//! Checks of packs, and the index that is rebuilt from them.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use object_store::path::Path as ObjectPath;
use sandboxd_packs::{CheckOptions, Checked, Error, Finding, PackDamage, Packs};
use snapshot_format::Hash;

use crate::chunks::{Fixture, check_stored, contents, put_into, store};

const REPORT: CheckOptions = CheckOptions { rebuild_index: false, quarantine: false };
const REBUILD: CheckOptions = CheckOptions { rebuild_index: true, quarantine: false };
const REPAIR: CheckOptions = CheckOptions { rebuild_index: true, quarantine: true };

async fn check(packs: &Packs, options: CheckOptions) -> (Checked, Vec<Finding>) {
    let mut findings = Vec::new();
    let checked = packs.check(options, |finding| findings.push(finding)).await.unwrap();
    (checked, findings)
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[tokio::test]
async fn the_index_is_rebuilt_from_the_packs() {
    let fixture = Fixture::new().await;
    let all = contents(1, 300, 40_000);
    store(&fixture.packs, &all).await.unwrap();
    assert_eq!(check(&fixture.packs, REPORT).await.1, []);

    let (packs, index) = fixture.with_new_index().await;
    assert!(!packs.is_complete().await.unwrap());
    assert!(matches!(packs.remove_strays().await, Err(Error::IndexIncomplete)));
    let (_, findings) = check(&packs, REPORT).await;
    assert!(
        matches!(findings[..], [Finding::UnknownPack { .. }, Finding::UnknownPack { .. }]),
        "{findings:?}"
    );
    let (checked, findings) = check(&packs, REBUILD).await;
    assert_eq!((checked.packs, checked.chunks, findings), (2, 300, vec![]));
    assert!(packs.is_complete().await.unwrap());
    assert_eq!(index.content(), fixture.index.content());
    check_stored(&packs, &all).await;
}

#[tokio::test]
async fn a_damaged_chunk_is_named_and_set_aside_only_on_request() {
    let fixture = Fixture::new().await;
    let all = contents(1, 10, 20_000);
    store(&fixture.packs, &all).await.unwrap();
    let file = fixture.pack_files().remove(0);
    flip(&file, 32 + 10_000);
    let damaged = Hash::of(&all[0]);
    let (checked, findings) = check(&fixture.packs, REBUILD).await;
    assert_eq!((checked.damaged_packs, checked.unreadable_packs), (1, 0));
    assert!(
        matches!(findings[0], Finding::CorruptPack { damage: PackDamage::OtherBytes, .. }),
        "{findings:?}"
    );
    assert!(matches!(findings[1], Finding::CorruptChunk { chunk, .. } if chunk == damaged), "{findings:?}");
    assert!(file.exists() && findings.len() == 2);

    let (_, findings) = check(&fixture.packs, REPAIR).await;
    assert!(matches!(findings[2], Finding::Quarantined { intact_chunks: 9, .. }), "{findings:?}");
    let name = file.file_name().unwrap();
    assert!(!file.exists() && fixture.dir.path().join("store/quarantine").join(name).exists());
    let reopened = fixture.reopened().await;
    check_stored(&reopened, &all[1..]).await;
    assert!(matches!(reopened.get(damaged).await, Err(Error::Missing { .. })));
    // The next snapshot repairs it.
    assert_eq!(store(&reopened, &all).await.unwrap().new_chunks, 1);
    check_stored(&fixture.reopened().await, &all).await;
    assert_eq!(check(&reopened, REPORT).await.1, []);
}

/// Otherwise a snapshot would be recorded that needs the lost chunk.
#[tokio::test]
async fn a_writer_that_has_found_a_damaged_chunk_cannot_finish_after_its_loss() {
    let fixture = Fixture::new().await;
    let all = contents(1, 10, 20_000);
    store(&fixture.packs, &all).await.unwrap();
    flip(&fixture.pack_files()[0], 32 + 10_000);
    let mut writer = fixture.packs.writer();
    assert_eq!(put_into(&mut writer, &all).await.unwrap(), [false; 10]);
    check(&fixture.packs, REPAIR).await;
    let error = writer.finish().await.unwrap_err();
    assert!(matches!(error, Error::ChunksLost) && error.is_unavailable(), "{error:?}");
    store(&fixture.packs, &all).await.unwrap();
    check_stored(&fixture.reopened().await, &all).await;
}

#[tokio::test]
async fn a_pack_without_its_table_is_set_aside() {
    let fixture = Fixture::new().await;
    store(&fixture.packs, &contents(1, 10, 20_000)).await.unwrap();
    let kept = contents(2, 10, 20_000);
    store(&fixture.packs, &kept).await.unwrap();
    let file = fixture.pack_files().remove(0);
    let length = fs::metadata(&file).unwrap().len();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length - 1).unwrap();
    // An index without the pack must not make it a stray.
    let (packs, _) = fixture.with_new_index().await;
    let (checked, findings) = check(&packs, REBUILD).await;
    assert_eq!(checked.unreadable_packs, 1);
    assert!(matches!(findings[0], Finding::CorruptPack { .. }), "{findings:?}");
    assert!(!packs.is_complete().await.unwrap() && file.exists());
    let (checked, _) = check(&packs, REPAIR).await;
    assert!(checked.unreadable_packs == 0 && packs.is_complete().await.unwrap() && !file.exists());
}

/// Reads do not need the table.
#[tokio::test]
async fn a_pack_without_its_table_stays_while_the_index_has_its_chunks() {
    let fixture = Fixture::new().await;
    let all = contents(1, 10, 20_000);
    store(&fixture.packs, &all).await.unwrap();
    let file = fixture.pack_files().remove(0);
    let length = fs::metadata(&file).unwrap().len();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length - 1).unwrap();
    let packs = fixture.reopened().await;
    let (checked, findings) = check(&packs, REPAIR).await;
    assert!(matches!(findings[..], [Finding::CorruptPack { .. }]), "{findings:?}");
    assert!(checked.unreadable_packs == 1 && file.exists());
    check_stored(&packs, &all).await;
}

#[tokio::test]
async fn a_pack_that_the_store_cannot_read_is_reported_and_the_others_are_checked() {
    let fixture = Fixture::new().await;
    store(&fixture.packs, &contents(1, 10, 20_000)).await.unwrap();
    let first = fixture.pack_files().remove(0);
    store(&fixture.packs, &contents(2, 10, 20_000)).await.unwrap();
    let second = fixture.pack_files().into_iter().find(|file| *file != first).unwrap();
    flip(&second, 32 + 10_000);
    let folder = fixture.dir.path().join("store");
    let path = ObjectPath::from(first.strip_prefix(&folder).unwrap().to_str().unwrap());
    *fixture.faults.unreadable.lock().unwrap() = Some(path);

    let (packs, _) = fixture.with_new_index().await;
    let (checked, findings) = check(&packs, REBUILD).await;
    assert_eq!((checked.packs, checked.failed_packs, checked.damaged_packs), (1, 1, 1));
    let failed =
        |finding: &Finding| matches!(finding, Finding::Failed { error, .. } if error.contains("injected"));
    assert!(findings.len() == 3 && findings.iter().any(failed), "{findings:?}");
    assert!(!packs.is_complete().await.unwrap(), "the index lacks the chunks of a pack");

    *fixture.faults.unreadable.lock().unwrap() = None;
    assert_eq!(check(&packs, REPAIR).await.0.failed_packs, 0);
    assert!(packs.is_complete().await.unwrap());
}

#[tokio::test]
async fn a_check_stops_if_the_store_is_unavailable_and_keeps_its_findings() {
    let fixture = Fixture::new().await;
    for seed in 1..=13 {
        store(&fixture.packs, &contents(seed, 1, 100)).await.unwrap();
    }
    fixture.faults.cannot_get.store(true, Ordering::SeqCst);
    let mut findings = 0;
    let stopped = fixture.packs.check(REPORT, |_| findings += 1).await.unwrap_err();
    assert!(matches!(stopped.source, Error::Unavailable { .. }), "{stopped:?}");
    assert_eq!((stopped.checked.failed_packs, findings), (10, 10));
}

#[tokio::test]
async fn a_pack_of_a_later_version_stays() {
    let fixture = Fixture::new().await;
    store(&fixture.packs, &contents(1, 1, 100)).await.unwrap();
    let file = fixture.pack_files().remove(0);
    flip(&file, 9);
    let (packs, _) = fixture.with_new_index().await;
    let (_, findings) = check(&packs, REPAIR).await;
    let version = PackDamage::Version { version: 0x101 };
    assert!(matches!(findings[0], Finding::CorruptPack { damage, .. } if damage == version), "{findings:?}");
    assert!(file.exists() && !packs.is_complete().await.unwrap());
}

#[tokio::test]
async fn a_pack_that_is_gone_is_reported_and_forgotten() {
    let fixture = Fixture::new().await;
    let all = contents(1, 10, 20_000);
    store(&fixture.packs, &all).await.unwrap();
    fs::remove_file(fixture.pack_files().remove(0)).unwrap();
    for _ in 0..2 {
        let (_, findings) = check(&fixture.packs, REPORT).await;
        assert!(matches!(findings[..], [Finding::MissingPack { .. }]), "{findings:?}");
    }
    check(&fixture.packs, REBUILD).await;
    assert_eq!(check(&fixture.packs, REPORT).await.1, []);
    assert_eq!(store(&fixture.packs, &all).await.unwrap().new_chunks, 10);
    check_stored(&fixture.reopened().await, &all).await;
}
