//! How long writing and reading take. Printed for the reader of the test run; the limits are exceeded only if something is
//! badly wrong. For numbers: `cargo test --release -p sandboxd-packs speed -- --nocapture`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandboxd_packs::{NewChunk, Packs};

use crate::chunks::{chunk, contents, get_all, hashes};
use crate::memory::MemoryIndex;

const BYTES: usize = 8 * 1024;
const BATCH: usize = 512;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_small_chunks_are_written_and_read_quickly() {
    let count: u64 = if cfg!(debug_assertions) { 1_000 } else { 21_000 };
    let dir = tempfile::tempdir().unwrap();
    let packs = Packs::open_dir(&dir.path().join("store"), Arc::new(MemoryIndex::default())).await.unwrap();
    let all = contents(1, count, BYTES);
    let chunks: Vec<NewChunk> = all.iter().map(|content| chunk(content)).collect();

    let begun = Instant::now();
    let mut writer = packs.writer();
    for batch in chunks.chunks(BATCH) {
        writer.put_all(batch.to_vec()).await.unwrap();
    }
    writer.finish().await.unwrap();
    let (put, begun) = (begun.elapsed(), Instant::now());
    let read = get_all(&packs, hashes(&all)).await.unwrap();
    let (got, begun) = (begun.elapsed(), Instant::now());
    let known = packs.writer().claim(&hashes(&all)).await.unwrap();
    let claimed = begun.elapsed();

    assert!(read == all && known.into_iter().all(|is_known| is_known));
    let rate = |took: Duration| all.len() as f64 * BYTES as f64 / 1e6 / took.as_secs_f64();
    println!("{count} chunks: put {put:?} ({:.0} MB/s), get_many {got:?} ({:.0} MB/s)", rate(put), rate(got));
    println!("claim {claimed:?}");
    assert!(put < Duration::from_secs(60) && got < Duration::from_secs(60));
}
