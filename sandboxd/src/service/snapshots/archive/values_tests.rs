//! Files with values, valid and hostile ones.

use std::collections::HashSet;
use std::io::Read;

use bytes::Bytes;
use snapshot_format::archive::{Encoder, Header, Totals};
use snapshot_format::values::{Value, ValueEncoder};
use snapshot_format::{Compressor, Content, Hash, MAX_CHUNK_BYTES};

use super::tests::{content_of, exported, packs, problem, received};
use crate::model::limits;

fn value(key: &str, bytes: impl Into<Bytes>) -> Value {
    Value { key: key.into(), bytes: bytes.into(), updated_at_ms: 7 }
}

fn encoded(values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ValueEncoder::new(values.to_vec()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// A file without a workspace, with these values and chunks.
fn file_of(values: Content, chunks: &[&[u8]]) -> Vec<u8> {
    let header = Header { values: Some(values), ..Header::default() };
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&header, &mut out);
    let mut compressor = Compressor::new().unwrap();
    for chunk in chunks {
        let compressed = compressor.compress(chunk).unwrap();
        encoder.chunk(Hash::of(chunk), chunk.len() as u32, &compressed, &mut out);
    }
    encoder.finish(&mut out);
    out
}

/// A file whose values are these bytes. Each chunk is in it once.
fn file_with(values: &[u8]) -> Vec<u8> {
    let mut chunks: Vec<&[u8]> = values.chunks(MAX_CHUNK_BYTES).collect();
    let content = content_of(&chunks);
    let mut seen = HashSet::new();
    chunks.retain(|chunk| seen.insert(*chunk));
    file_of(content, &chunks)
}

#[tokio::test]
async fn values_are_exported_as_they_were_imported() {
    let (_dir, first) = packs().await;
    let (_dir, second) = packs().await;
    let large = vec![7_u8; limits::MAX_VALUE_BYTES];
    for values in [vec![], vec![value("a", "1"), value("b", large), value("ключ", "")]] {
        let file = file_with(&encoded(&values));
        let (header, totals) = received(&first, &file).await.unwrap();
        assert_eq!(totals, Totals::default());
        let again = exported(&first, &header, totals).await.unwrap();
        let (copied, _) = received(&second, &again).await.unwrap();
        assert_eq!(copied, header);
    }
}

#[tokio::test]
async fn values_that_no_sandbox_can_have_are_rejected() {
    let (_dir, packs) = packs().await;
    let whole = encoded(&[value("a", "1"), value("b", "2")]);
    let too_many: Vec<Value> =
        (0..=limits::MAX_VALUES).map(|number| value(&format!("{number:05}"), "")).collect();
    let early = Value { updated_at_ms: -1, ..value("a", "") };
    for (values, why) in [
        (encoded(&[value("b", ""), value("a", "")]), "not in order"),
        (encoded(&[value("a", "1"), value("a", "2")]), "not in order"),
        (encoded(&[value("a\nb", "")]), "no valid key"),
        (encoded(&[value("", "")]), "no valid key"),
        (encoded(&[value("..", "")]), "no valid key"),
        (encoded(&[value("a", vec![0; limits::MAX_VALUE_BYTES + 1])]), "bytes in one value"),
        (encoded(&too_many), "more than 10000 values"),
        (encoded(&[early]), "the time of a value"),
        (whole[..whole.len() - 1].to_vec(), "cut off"),
        (b"\x03\x0a\x05a".to_vec(), "cannot be decoded"),
    ] {
        let rejected = problem(&packs, &file_with(&values)).await;
        assert!(rejected.contains(why), "{why}: {rejected}");
    }
}

#[tokio::test]
async fn contents_of_values_that_no_export_has_are_rejected() {
    let (_dir, packs) = packs().await;
    let bytes = encoded(&[value("a", "1"), value("b", "2")]);
    let (first, second) = bytes.split_at(5);
    let content = content_of(&[first, second]);
    let rejected = async |values: Content, chunks: &[&[u8]]| problem(&packs, &file_of(values, chunks)).await;
    assert!(rejected(content.clone(), &[first]).await.contains("is missing"));
    assert!(rejected(content.clone(), &[second, first]).await.contains("comes next"));
    assert!(rejected(content.clone(), &[first, second, b"more"]).await.contains("nothing refers to"));
    let longer = Content { size: content.size + 1, ..content.clone() };
    assert!(rejected(longer, &[first, second]).await.contains("another size"));
    let huge = Content { size: limits::MAX_ENCODED_VALUES_BYTES + 1, ..content };
    assert!(rejected(huge, &[first, second]).await.contains("encoded bytes"));
    let hole = [&[0; Hash::BYTES][..], &9_u64.to_le_bytes()].concat();
    let hole = Content { size: 9, depth: 0, segments: hole.into() };
    assert!(rejected(hole, &[]).await.contains("have a hole"));
}

/// A few chunks can describe more parts than can be kept in memory.
#[tokio::test]
async fn the_parts_of_values_are_counted() {
    let (_dir, packs) = packs().await;
    // The bytes of one value are all the same, so each of them is the same chunk.
    let whole = encoded(&[value("a", vec![0; 32 * 1024])]);
    let start = &whole[..whole.len() - 32 * 1024 - 2];
    let node = content_of(&[&b"\0"[..]; 32]).segments;
    let nodes = content_of(&[&node[..]; 32]).segments;
    let first_node = content_of(&[start]).segments;
    let first_nodes = content_of(&[&first_node]).segments;
    let segments = [content_of(&[&first_nodes]).segments, content_of(&[&nodes[..]; 31]).segments].concat();
    let size = start.len() as u64 + 31 * 32 * 32;
    let content = Content { size, depth: 2, segments: segments.into() };
    let file = file_of(content, &[&first_nodes, &first_node, start, &nodes, &node, b"\0"]);
    assert!(problem(&packs, &file).await.contains("more than 8192 chunks"));
}
