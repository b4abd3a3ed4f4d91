//! Conditional writes and reads.

use sandbox_api::ErrorCode;
use sandbox_client::WriteOptions;

use crate::support::harness::Daemon;
use crate::support::http::{Answer, HttpClient};

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_writers_with_the_same_etag_fails() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let absent = WriteOptions { if_absent: true, ..WriteOptions::default() };
    let first = client.put_file(&sandbox, "file", "1", absent).await.unwrap();
    let refused = client.put_file(&sandbox, "file", "2", absent).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::PreconditionFailed));
    for round in 0..20 {
        let etag = client.stat_file(&sandbox, "file").await.unwrap().etag.unwrap();
        let put = |name: &'static str| {
            let options = WriteOptions { if_match: Some(&etag), ..WriteOptions::default() };
            client.put_file(&sandbox, "file", format!("{name}{round}"), options)
        };
        let (a, b) = tokio::join!(put("a"), put("b"));
        let winner = if a.is_ok() { "a" } else { "b" };
        assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
        assert_eq!(daemon.output(&sandbox, "cat file").await, format!("{winner}{round}"));
    }
    let stale = WriteOptions { if_match: Some(&first.etag), ..WriteOptions::default() };
    assert_eq!(
        client.put_file(&sandbox, "file", "x", stale).await.unwrap_err().code(),
        Some(ErrorCode::PreconditionFailed)
    );
    let missing = WriteOptions { if_match: Some("*"), ..WriteOptions::default() };
    assert_eq!(
        client.put_file(&sandbox, "no/file", "x", missing).await.unwrap_err().code(),
        Some(ErrorCode::PreconditionFailed)
    );
    assert_eq!(daemon.output(&sandbox, "ls").await, "file\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etag_changes_with_every_write() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo 1 > file").await;
    let etag = || async { daemon.client.stat_file(&sandbox, "file").await.unwrap().etag.unwrap() };
    let mut seen = std::collections::HashSet::from([etag().await]);
    // Changed in place, with the same length and the old modification time: the hardest case for an etag.
    for change in [
        "printf 2 | dd of=file conv=notrunc",
        "touch -d @1 file; printf 3 | dd of=file conv=notrunc; touch -d @1 file",
    ] {
        daemon.output(&sandbox, &format!("{change} 2>/dev/null")).await;
        assert!(seen.insert(etag().await), "{change}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_copy_is_not_sent_again() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let written = daemon.client.put_file(&sandbox, "file", "content", WriteOptions::default()).await.unwrap();
    let etag = format!("\"{}\"", written.etag);
    let path = format!("/v1/sandboxes/{sandbox}/files?path=file");
    let api = HttpClient::of(&daemon);
    let get = |name: &'static str, value: &str| Answer::to(api.with_token("GET", &path).header(name, value));
    let fresh = get("if-none-match", &etag).await;
    assert_eq!((fresh.status, fresh.body.len(), fresh.header("etag")), (304, 0, &etag[..]));
    assert_eq!(get("if-none-match", "\"other\"").await.status, 200);
    let ranged = |condition: &str| {
        let request = api.with_token("GET", &path).header("range", "bytes=0-2").header("if-range", condition);
        Answer::to(request)
    };
    assert_eq!(ranged(&etag).await.body, b"con");
    assert_eq!(ranged("\"other\"").await.body, b"content");
    // The client's copy is checked before the range, and the range comes last.
    let beyond = |name: &'static str, value: &str| {
        Answer::to(api.with_token("GET", &path).header("range", "bytes=100-").header(name, value))
    };
    let fresh = beyond("if-none-match", &etag).await;
    assert_eq!((fresh.status, fresh.header("etag")), (304, &etag[..]));
    assert_eq!(beyond("if-none-match", "\"other\"").await.status, 416);
    assert_eq!(beyond("if-range", &etag).await.status, 416);
    let whole = beyond("if-range", "\"other\"").await;
    assert_eq!((whole.status, &whole.body[..]), (200, &b"content"[..]));
    // A link is judged by the file that it points to.
    daemon.output(&sandbox, "ln -s file link").await;
    let link = api.with_token("GET", &path.replace("=file", "=link"));
    let part = Answer::to(link.header("range", "bytes=0-2").header("if-range", &etag)).await;
    assert_eq!((part.status, &part.body[..]), (206, &b"con"[..]));
    let put = api.with_token("PUT", &path).header("if-match", "\"a\", \"b\"").body("x");
    Answer::to(put).await.faults("if-match", "two etags");
    daemon.stop().await;
}
