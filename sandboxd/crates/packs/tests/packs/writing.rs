//! Writing chunks and reading them back, with and without faults.

use std::sync::atomic::Ordering;

use proptest::prelude::*;
use sandboxd_packs::{Error, NewChunk};
use snapshot_format::Hash;

use crate::chunks::{Fixture, bytes, check_stored, chunk, contents, get_all, hashes, put_into, store};

#[tokio::test]
async fn chunks_come_back_after_a_restart() {
    let fixture = Fixture::new().await;
    let mut all = contents(1, 300, 50_000);
    all.extend([Vec::new(), vec![0; 256 * 1024], bytes(9, 256 * 1024), b"a".to_vec()]);
    let finished = store(&fixture.packs, &all).await.unwrap();
    assert_eq!(finished.new_chunks, 304);
    assert_eq!(fixture.pack_files().len(), 2);
    check_stored(&fixture.packs, &all).await;
    check_stored(&fixture.reopened().await, &all).await;
}

#[tokio::test]
async fn a_known_chunk_is_not_stored_again() {
    let fixture = Fixture::new().await;
    let old = contents(1, 3, 1000);
    store(&fixture.packs, &old).await.unwrap();
    let new = contents(2, 1, 1000);
    let mut writer = fixture.packs.writer();
    assert!(writer.put(chunk(&new[0]).hash, 1000, chunk(&new[0]).compressed).await.unwrap());
    let again = [old[0].clone(), new[0].clone(), old[2].clone()];
    assert_eq!(put_into(&mut writer, &again).await.unwrap(), [false, false, false]);
    let unknown = [Hash::of(b"unknown"), Hash::of(&old[1]), Hash::of(&new[0])];
    assert_eq!(writer.claim(&unknown).await.unwrap(), [false, true, true]);
    assert_eq!(writer.finish().await.unwrap().new_chunks, 1);
}

#[tokio::test]
async fn a_writer_returns_its_own_chunks_before_they_are_stored() {
    let fixture = Fixture::new().await;
    let all = contents(1, 2, 100_000);
    let mut writer = fixture.packs.writer();
    put_into(&mut writer, &all).await.unwrap();
    assert_eq!(writer.get(Hash::of(&all[1])).await.unwrap(), all[1]);
    let missing = fixture.packs.get(Hash::of(&all[1])).await.unwrap_err();
    assert!(matches!(missing, Error::Missing { .. }), "{missing:?}");
    writer.finish().await.unwrap();
    check_stored(&fixture.packs, &all).await;
}

#[tokio::test]
async fn a_missing_chunk_is_named() {
    let fixture = Fixture::new().await;
    let wanted = Hash::of(b"missing");
    let error = fixture.packs.get(wanted).await.unwrap_err();
    assert!(matches!(error, Error::Missing { chunk } if chunk == wanted), "{error:?}");
    let stored = contents(1, 1, 30_000);
    store(&fixture.packs, &stored).await.unwrap();
    let error = get_all(&fixture.packs, vec![Hash::of(&stored[0]), wanted]).await.unwrap_err();
    assert!(matches!(error, Error::Missing { chunk } if chunk == wanted), "{error:?}");
}

#[tokio::test]
async fn a_chunk_that_is_too_large_is_rejected() {
    let fixture = Fixture::new().await;
    let mut writer = fixture.packs.writer();
    let large = NewChunk { raw_len: 256 * 1024 + 1, ..chunk(b"a") };
    let error = writer.put_all(vec![large]).await.unwrap_err();
    assert!(matches!(error, Error::ChunkTooLarge { .. }), "{error:?}");
    writer.put_all(vec![chunk(b"a")]).await.unwrap();
}

#[tokio::test]
async fn a_failed_write_fails_the_writer_and_the_next_one_succeeds() {
    for lost_answer in [false, true] {
        let fixture = Fixture::new().await;
        let fault = match lost_answer {
            true => &fixture.faults.loses_answers,
            false => &fixture.faults.cannot_put,
        };
        fault.store(true, Ordering::SeqCst);
        let all = contents(1, 200, 60_000);
        let mut writer = fixture.packs.writer();
        let error = put_into(&mut writer, &all).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }) && error.is_unavailable(), "{error:?}");
        fault.store(false, Ordering::SeqCst);
        let error = put_into(&mut writer, &all).await.unwrap_err();
        assert!(matches!(error, Error::WriterFailed), "{error:?}");
        assert!(matches!(writer.finish().await.unwrap_err(), Error::WriterFailed));
        assert_eq!(fixture.index.packs(), 0);

        assert_eq!(store(&fixture.packs, &all).await.unwrap().new_chunks, 200);
        check_stored(&fixture.reopened().await, &all).await;
        assert_eq!(fixture.packs.remove_strays().await.unwrap(), u64::from(lost_answer));
        check_stored(&fixture.reopened().await, &all).await;
    }
}

#[tokio::test]
async fn a_crash_between_the_pack_and_the_index_leaves_a_stray() {
    let fixture = Fixture::new().await;
    let all = contents(1, 5, 10_000);
    fixture.index.cannot_record.store(true, Ordering::SeqCst);
    let error = store(&fixture.packs, &all).await.unwrap_err();
    assert!(matches!(error, Error::Index(_)), "{error:?}");
    fixture.index.cannot_record.store(false, Ordering::SeqCst);
    assert_eq!(fixture.pack_files().len(), 1);
    // The index may still commit what it reported as failed.
    assert_eq!(fixture.packs.remove_strays().await.unwrap(), 0);

    let reopened = fixture.reopened().await;
    store(&reopened, &all).await.unwrap();
    assert_eq!(reopened.remove_strays().await.unwrap(), 1);
    check_stored(&fixture.reopened().await, &all).await;
}

#[tokio::test]
async fn a_cancelled_write_fails_the_writer() {
    let fixture = Fixture::new().await;
    let all = contents(1, 5, 10_000);
    let mut writer = fixture.packs.writer();
    put_into(&mut writer, &all).await.unwrap();
    let held = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    *fixture.faults.hold_puts.lock().unwrap() = Some(held);
    let many = contents(2, 200, 60_000);
    tokio::select! {
        biased;
        _ = put_into(&mut writer, &many) => panic!("the write is held"),
        () = tokio::time::sleep(std::time::Duration::from_millis(200)) => {}
    }
    *fixture.faults.hold_puts.lock().unwrap() = None;
    assert!(matches!(writer.finish().await.unwrap_err(), Error::WriterFailed));
}

#[tokio::test]
async fn damaged_reads_are_errors_that_name_the_chunk() {
    let fixture = Fixture::new().await;
    let all = contents(1, 20, 30_000);
    store(&fixture.packs, &all).await.unwrap();
    let wanted = hashes(&all);

    fixture.faults.flips_bits.store(true, Ordering::SeqCst);
    let error = fixture.packs.get(wanted[3]).await.unwrap_err();
    assert!(matches!(error, Error::Corrupt { chunk, .. } if chunk == wanted[3]), "{error:?}");
    let error = get_all(&fixture.packs, wanted.clone()).await.unwrap_err();
    assert!(matches!(error, Error::Corrupt { chunk, .. } if wanted.contains(&chunk)), "{error:?}");
    fixture.faults.flips_bits.store(false, Ordering::SeqCst);

    fixture.faults.reads_short.store(true, Ordering::SeqCst);
    let error = fixture.packs.get(wanted[3]).await.unwrap_err();
    assert!(matches!(error, Error::CutOff { chunk, .. } if chunk == wanted[3]), "{error:?}");
    fixture.faults.reads_short.store(false, Ordering::SeqCst);

    fixture.faults.cannot_get.store(true, Ordering::SeqCst);
    let error = fixture.packs.get(wanted[3]).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    fixture.faults.cannot_get.store(false, Ordering::SeqCst);

    fixture.index.is_unavailable.store(true, Ordering::SeqCst);
    let error = fixture.packs.get(wanted[3]).await.unwrap_err();
    assert!(matches!(error, Error::Index(_)), "{error:?}");
    fixture.index.is_unavailable.store(false, Ordering::SeqCst);
    check_stored(&fixture.packs, &all).await;
}

#[tokio::test]
async fn a_pack_that_is_cut_off_or_gone_is_named() {
    let fixture = Fixture::new().await;
    let all = contents(1, 20, 30_000);
    store(&fixture.packs, &all).await.unwrap();
    let file = fixture.pack_files().remove(0);
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(100_000).unwrap();
    assert_eq!(fixture.packs.get(Hash::of(&all[0])).await.unwrap(), all[0]);
    let error = fixture.packs.get(Hash::of(&all[19])).await.unwrap_err();
    assert!(matches!(error, Error::CutOff { pack, .. } if pack.to_string() == name), "{error:?}");
    std::fs::remove_file(&file).unwrap();
    for error in [
        fixture.packs.get(Hash::of(&all[19])).await.unwrap_err(),
        get_all(&fixture.packs, hashes(&all)).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::PackMissing { pack, .. } if pack.to_string() == name), "{error:?}");
    }
}

#[tokio::test]
async fn neighbours_are_read_together() {
    let fixture = Fixture::new().await;
    let all = contents(1, 2000, 17_000);
    store(&fixture.packs, &all).await.unwrap();
    let before = fixture.faults.reads.load(Ordering::SeqCst);
    assert_eq!(get_all(&fixture.packs, hashes(&all)).await.unwrap(), all);
    let reads = fixture.faults.reads.load(Ordering::SeqCst) - before;
    assert!(reads < 30, "{reads} reads");
}

/// What a test does with a writer.
#[derive(Debug, Clone)]
struct Batch {
    /// Seeds and lengths of chunks.
    chunks: Vec<(u8, u16)>,
    fault: Option<Fault>,
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    CannotPut,
    LosesAnswers,
    CannotRecord,
}

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let fault = prop_oneof![Just(Fault::CannotPut), Just(Fault::LosesAnswers), Just(Fault::CannotRecord)];
    let chunks = prop::collection::vec((any::<u8>(), any::<u16>()), 0..20);
    let batch =
        (chunks, prop::option::weighted(0.3, fault)).prop_map(|(chunks, fault)| Batch { chunks, fault });
    prop::collection::vec(batch, 1..8)
}

async fn acknowledged_chunks_come_back(batches: Vec<Batch>) {
    let fixture = Fixture::new().await;
    let mut acknowledged = Vec::new();
    for batch in batches {
        let fault = batch.fault.map(|fault| match fault {
            Fault::CannotPut => &fixture.faults.cannot_put,
            Fault::LosesAnswers => &fixture.faults.loses_answers,
            Fault::CannotRecord => &fixture.index.cannot_record,
        });
        let all: Vec<_> =
            batch.chunks.iter().map(|(seed, length)| bytes(u64::from(*seed), usize::from(*length))).collect();
        fault.into_iter().for_each(|fault| fault.store(true, Ordering::SeqCst));
        let finished = store(&fixture.packs, &all).await;
        fault.into_iter().for_each(|fault| fault.store(false, Ordering::SeqCst));
        if finished.is_ok() {
            acknowledged.extend(all);
        }
        fixture.packs.remove_strays().await.unwrap();
    }
    let reopened = fixture.reopened().await;
    reopened.remove_strays().await.unwrap();
    check_stored(&reopened, &acknowledged).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn acknowledged_chunks_come_back_exactly(batches in batches()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(acknowledged_chunks_come_back(batches));
    }
}
