//! Searches: the files that git would search, within reported limits.

use sandbox_api::ErrorCode;
use sandbox_api::files::{GlobFiles, GrepFiles, Patterns, TruncatedBy};
use serde_json::json;

use crate::support::harness::{Daemon, over_each_transport};
use crate::support::http::HttpClient;

over_each_transport!(a_search_finds_all_matches);

async fn a_search_finds_all_matches(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    daemon
        .output(&sandbox, "mkdir -p src/deep node_modules .git; echo node_modules > .gitignore
printf 'one\\nlet needle = 1;\\n' > src/a.rs; printf 'NEEDLE\\n' > src/deep/b.txt; echo needle | tee node_modules/x.js .git/config > /dev/null")
        .await;
    let client = &daemon.client;
    let request = GrepFiles { query: "needle".into(), ..GrepFiles::default() };
    let found = client.grep_files(&sandbox, &request).await.unwrap();
    assert_eq!((found.matches.len(), found.truncated), (1, false));
    let first = &found.matches[0];
    assert_eq!(
        (first.path.as_str(), first.line, first.column, first.text.as_str()),
        ("src/a.rs", 2, 5, "let needle = 1;")
    );
    let anywhere = GrepFiles { case_insensitive: Some(true), include_ignored: Some(true), ..request.clone() };
    assert_eq!(client.grep_files(&sandbox, &anywhere).await.unwrap().matches.len(), 4);
    let some = GrepFiles {
        include: Some(Patterns::One("**/*.txt".into())),
        regex: Some(true),
        query: "^N.*E$".into(),
        ..request.clone()
    };
    assert_eq!(client.grep_files(&sandbox, &some).await.unwrap().matches[0].path, "src/deep/b.txt");
    let cut = GrepFiles { max_results: Some(1), ..anywhere };
    let cut = client.grep_files(&sandbox, &cut).await.unwrap();
    assert_eq!((cut.matches.len(), cut.truncated, cut.truncated_by), (1, true, Some(TruncatedBy::Results)));
    let named = GrepFiles { path: Some("src/a.rs".into()), ..request.clone() };
    assert_eq!(client.grep_files(&sandbox, &named).await.unwrap().matches, found.matches);
    let glob = |pattern: &str| GlobFiles {
        pattern: pattern.into(),
        path: Some("src".into()),
        ..GlobFiles::default()
    };
    let paths = |found: sandbox_api::files::GlobFound| {
        found.entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>()
    };
    assert_eq!(
        paths(client.glob_files(&sandbox, &glob("**/*.{rs,txt}")).await.unwrap()),
        ["src/a.rs", "src/deep/b.txt"]
    );
    let without = GlobFiles { exclude: Some(Patterns::Several(vec!["deep".into()])), ..glob("**") };
    assert_eq!(paths(client.glob_files(&sandbox, &without).await.unwrap()), ["src/a.rs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_search_names_its_field() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let api = HttpClient::of(&daemon);
    let long = "a".repeat(4097);
    for (verb, body, field) in [
        ("grep", json!({ "query": "" }), "query"),
        ("grep", json!({ "query": long }), "query"),
        ("grep", json!({ "query": "(", "regex": true }), "query"),
        ("grep", json!({ "query": "a\nb" }), "query"),
        ("grep", json!({ "query": "a", "include": ["["] }), "include"),
        ("grep", json!({ "query": "a", "include": vec!["a"; 101] }), "include"),
        ("grep", json!({ "query": "a", "maxResults": 0 }), "maxResults"),
        ("glob", json!({ "pattern": "" }), "pattern"),
        ("glob", json!({ "pattern": "[" }), "pattern"),
        ("glob", json!({ "pattern": "*", "exclude": "[" }), "exclude"),
        ("glob", json!({ "pattern": "*", "maxResults": 10_001 }), "maxResults"),
    ] {
        api.post(&format!("/v1/sandboxes/{sandbox}/files:{verb}"), &body).await.faults(field, verb);
    }
    let absent = GrepFiles { query: "a".into(), path: Some("absent".into()), ..GrepFiles::default() };
    assert_eq!(
        daemon.client.grep_files(&sandbox, &absent).await.unwrap_err().code(),
        Some(ErrorCode::NotFound)
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_ends_despite_files_that_block_or_never_end() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    // Fifos, one of them named .gitignore, a gigabyte without a line break, and a loop of links.
    daemon
        .output(&sandbox, "mkfifo pipe .gitignore; truncate -s 1G holes; tr '\\0' x < holes | head -c 100M > long; ln -s . loop; echo needle > found")
        .await;
    let request = GrepFiles { query: "needle".into(), ..GrepFiles::default() };
    let found = daemon.client.grep_files(&sandbox, &request).await.unwrap();
    assert_eq!(found.matches.len(), 1);
    let backtracking = GrepFiles { query: "(x+x+)+y".into(), regex: Some(true), ..request };
    daemon.client.grep_files(&sandbox, &backtracking).await.unwrap();
    daemon.stop().await;
}
