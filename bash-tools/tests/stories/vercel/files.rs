//! File transfers: uploads as archives, downloads as bytes.

use std::io::Write;

use bash_tools::provider::{Error, Provider};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;

use super::Story;

fn archive(names: &[&str]) -> Vec<Bytes> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for name in names {
        let mut header = tar::Header::new_gnu();
        header.set_size(name.len() as u64);
        header.set_mode(0o755);
        archive.append_data(&mut header, name, name.as_bytes()).unwrap();
    }
    let mut gzip = archive.into_inner().unwrap();
    gzip.flush().unwrap();
    gzip.finish().unwrap().chunks(7).map(Bytes::copy_from_slice).collect()
}

#[tokio::test]
async fn files_are_read_in_parts_and_missing_files_and_sandboxes_are_distinguished() {
    let story = Story::begin().await;
    let content: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    story.vercel.write_file(&story.sandbox, "a/ä b", content.clone().into()).await.unwrap();
    let mut read = Vec::new();
    loop {
        let part = story.vercel.read_file(&story.sandbox, "a/ä b", read.len() as u64, 70_001).await.unwrap();
        assert_eq!(part.total_bytes, Some(300_000));
        if part.bytes.is_empty() {
            break;
        }
        read.extend_from_slice(&part.bytes);
    }
    assert!(read == content);
    assert_eq!(story.output("stat -c %a a/*").await, "644\n");
    for bad in ["", "a/", "..", "a\0"] {
        let refused = story.vercel.write_file(&story.sandbox, bad, Bytes::new()).await.unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{bad:?}: {refused:?}");
    }
    let missing = story.vercel.read_file(&story.sandbox, "none", 0, 1).await.unwrap_err();
    assert!(matches!(missing, Error::NoFile { .. }), "{missing:?}");
    story.vercel.delete(&story.sandbox).await.unwrap();
    let gone = story.vercel.read_file(&story.sandbox, "none", 0, 1).await.unwrap_err();
    assert!(matches!(gone, Error::Gone), "{gone:?}");
}

#[tokio::test]
async fn an_archive_is_unpacked_in_the_workspace() {
    let story = Story::begin().await;
    let long = format!("{}/deep", "d".repeat(150));
    let parts = archive(&["run", "a/b c", &long]);
    let sent = futures::stream::iter(parts.clone().into_iter().map(Ok)).boxed();
    story.vercel.unpack(&story.sandbox, sent).await.unwrap();
    assert_eq!(story.output("cat run 'a/b c'; test -x run; cat d*/deep").await, format!("runa/b c{long}"));

    story.fake.stop_all();
    let again = futures::stream::iter(parts.clone().into_iter().map(Ok)).boxed();
    story.vercel.unpack(&story.sandbox, again).await.expect("a stopped machine is woken first");

    let broken = parts.into_iter().take(2).map(Ok).chain([Err(std::io::Error::other("disk"))]);
    let unreadable = story.vercel.unpack(&story.sandbox, futures::stream::iter(broken).boxed()).await;
    assert!(matches!(unreadable, Err(Error::Unreadable(_))), "{unreadable:?}");
}
