//! File content: uploads and downloads of any size, whole or in part.

use sandbox_api::ErrorCode;
use sandbox_client::{ByteRange, WriteOptions};

use crate::support::harness::{Daemon, over_each_transport};
use crate::support::http::{Answer, HttpClient};

const MIB: usize = 1024 * 1024;

over_each_transport!(
    an_uploaded_file_is_downloaded_unchanged,
    any_range_of_a_file_can_be_read,
    a_file_larger_than_any_body_is_transferred_both_ways
);

async fn an_uploaded_file_is_downloaded_unchanged(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let all_bytes: Vec<u8> = (0..=255).cycle().take(1_000_003).collect();
    for (path, content) in
        [("a/b/c", &all_bytes[..]), ("empty", b""), ("/vercel/sandbox/workspace/absolute", b"1")]
    {
        let options = WriteOptions { mode: Some(0o750), ..WriteOptions::default() };
        let written = client.put_file(&sandbox, path, content.to_vec(), options).await.unwrap();
        assert_eq!((written.created, written.size), (true, content.len() as u64));
        let got = client.get_file(&sandbox, path, None).await.unwrap();
        assert_eq!((got.length(), got.etag()), (Some(content.len() as u64), Some(&written.etag[..])));
        assert_eq!(got.bytes(2 * MIB).await.unwrap(), content);
    }
    assert_eq!(
        daemon.output(&sandbox, "stat -c '%a %U' a/b/c empty absolute | sort -u").await,
        "750 sandbox\n"
    );
    let again = client.put_file(&sandbox, "empty", "no more", WriteOptions::default()).await.unwrap();
    assert!(!again.created);
    assert_eq!(daemon.output(&sandbox, "cat empty; stat -c ' %a' empty").await, "no more 750\n");
}

async fn any_range_of_a_file_can_be_read(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let content: Vec<u8> = (0..=255).cycle().take(MIB).collect();
    daemon.client.put_file(&sandbox, "file", content.clone(), WriteOptions::default()).await.unwrap();
    let size = MIB as u64;
    for (range, expected) in [
        (ByteRange::Span(0, 0), &content[..1]),
        (ByteRange::Span(300_000, 700_000), &content[300_000..=700_000]),
        (ByteRange::From(size - 1), &content[MIB - 1..]),
        (ByteRange::Last(10), &content[MIB - 10..]),
        (ByteRange::Last(u64::MAX), &content),
    ] {
        let part = daemon.client.get_file(&sandbox, "file", Some(range)).await.unwrap();
        assert_eq!(part.length(), Some(expected.len() as u64), "{range:?}");
        assert_eq!(part.bytes(MIB).await.unwrap(), expected, "{range:?}");
    }
    let beyond = daemon.client.get_file(&sandbox, "file", Some(ByteRange::From(size))).await.unwrap_err();
    assert_eq!(beyond.code(), Some(ErrorCode::RangeNotSatisfiable));
    let api = HttpClient::of(daemon);
    let path = format!("/v1/sandboxes/{sandbox}/files?path=file");
    let part = Answer::to(api.with_token("GET", &path).header("range", "bytes=2-5")).await;
    assert_eq!((part.status, part.header("content-range")), (206, "bytes 2-5/1048576"));
    let beyond = Answer::to(api.with_token("GET", &path).header("range", "bytes=1048576-")).await;
    assert_eq!(beyond.refused(ErrorCode::RangeNotSatisfiable, "beyond").details["sizeBytes"], 1_048_576);
    assert_eq!(beyond.header("content-range"), "bytes */1048576");
    for whole in ["bytes=0-1,4-5", "lines=1-2"] {
        assert_eq!(
            Answer::to(api.with_token("GET", &path).header("range", whole)).await.status,
            200,
            "{whole}"
        );
    }
}

async fn a_file_larger_than_any_body_is_transferred_both_ways(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let piece: Vec<u8> = (0..=255).cycle().take(MIB).collect();
    let piece = bytes::Bytes::from(piece);
    let pieces = (0..200).map(move |_| Ok::<_, std::io::Error>(piece.clone()));
    let pieces = futures::stream::iter(pieces);
    let upload = sandbox_client::upload_stream(pieces);
    let written = daemon.client.put_file(&sandbox, "large", upload, WriteOptions::default()).await.unwrap();
    assert_eq!(written.size, 200 * MIB as u64);
    let inside = daemon.output(&sandbox, "sha256sum < large").await;
    let expected = "for i in $(seq 200); do head -c 1048576 large; done | sha256sum";
    assert_eq!(inside, daemon.output(&sandbox, expected).await);
    let mut got = daemon.client.get_file(&sandbox, "large", None).await.unwrap().reader();
    let mut sink = tokio::io::sink();
    assert_eq!(tokio::io::copy(&mut got, &mut sink).await.unwrap(), 200 * MIB as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_treats_a_file_as_plain_bytes() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let html = "<script>alert(1)</script>";
    daemon.client.put_file(&sandbox, "page.html", html, WriteOptions::default()).await.unwrap();
    let answer = HttpClient::of(&daemon).get(&format!("/v1/sandboxes/{sandbox}/files?path=page.html")).await;
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    assert_eq!(answer.header("content-disposition"), "attachment");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert!(answer.header("last-modified").ends_with(" GMT"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_not_utf8_can_be_used() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let name = b"latin-\xe9 + 100%\n";
    client.put_file(&sandbox, name, "1", WriteOptions::default()).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat $'latin-\\xe9 + 100%\\n'").await, "1");
    let listed = client.list_files(&sandbox, "", 1, 10, None).await.unwrap().entries.remove(0);
    assert_eq!(listed.name, "latin-\u{fffd} + 100%\n");
    assert_eq!(listed.path_base64.as_deref(), Some("bGF0aW4t6SArIDEwMCUK"));
    assert_eq!(client.get_file(&sandbox, name, None).await.unwrap().bytes(9).await.unwrap(), b"1");
    assert_eq!(client.delete_file(&sandbox, name, false).await.unwrap().removed, 1);
    assert_eq!(daemon.output(&sandbox, "ls -A").await, "");
    daemon.stop().await;
}
