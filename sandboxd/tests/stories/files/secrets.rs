//! `hideSecrets`: the content of files without the values of secret variables.

use sandbox_api::files::{EditFile, GlobFiles, GrepFiles, TextEdit};
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::WriteOptions;

use crate::support::harness::{Daemon, Home};
use crate::support::http::{Answer, HttpClient};

const KEY: &str = "sk-0123456789";
const PEM: &str = "begin of a key\nand its middle\nshort\nand its last line";

#[tokio::test(flavor = "multi_thread")]
async fn values_are_hidden_in_content_matches_and_differences_if_requested() {
    let daemon = Daemon::start_in(Home::new()).await;
    let request = CreateSandbox {
        session_key: "chat:1".into(),
        env: Some([("KEY".to_owned(), KEY.to_owned()), ("PEM".to_owned(), PEM.to_owned())].into()),
        secret_env: Some(vec!["KEY".into(), "PEM".into()]),
        ..CreateSandbox::default()
    };
    let client = &daemon.client;
    let sandbox = client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    // One value is at the border of what arrives together, and one at the end of a line that a match cuts.
    let padding = "x".repeat(256 * 1024 - 5);
    let content = format!("{padding}{KEY}\n{PEM}\n{}{KEY}\nlast {KEY}", "y".repeat(2048 - 5));
    client.put_file(&sandbox, "file", content.clone(), WriteOptions::default()).await.unwrap();

    let whole = client.get_file(&sandbox, "file", None).await.unwrap();
    assert_eq!(whole.total_bytes(), Some(content.len() as u64));
    assert!(
        whole.bytes(1 << 20).await.unwrap() == content.as_bytes(),
        "without the parameter, nothing is hidden"
    );
    let hidden = client.get_file_without_secrets(&sandbox, "file").await.unwrap();
    assert_eq!((hidden.length(), hidden.total_bytes()), (None, Some(content.len() as u64)));
    assert_eq!(hidden.etag(), None);
    let expected = content.replace(KEY, "[KEY]").replace(PEM, "[PEM]\n\n\n");
    assert!(hidden.bytes(1 << 20).await.unwrap() == expected.as_bytes());

    let grep = GrepFiles { query: "its|yy|last".into(), regex: Some(true), ..GrepFiles::default() };
    let shown = client.grep_files(&sandbox, &grep).await.unwrap();
    assert!(shown.matches.iter().any(|found| found.text == "and its middle"));
    let grep = GrepFiles { hide_secrets: Some(true), ..grep };
    let lines = client.grep_files(&sandbox, &grep).await.unwrap().matches;
    let lines: Vec<&str> = lines.iter().map(|found| found.text.as_str()).collect();
    assert_eq!(lines, ["[PEM]", "[PEM]", &"y".repeat(2049 - PEM.len()), "last [KEY]"]);

    let edit = TextEdit { old_text: "last sk".into(), new_text: "first sk".into(), replace_all: None };
    let edit =
        EditFile { path: "file".into(), edits: vec![edit], hide_secrets: Some(true), ..EditFile::default() };
    let diff = client.edit_file(&sandbox, &edit).await.unwrap().diff;
    assert!(
        diff.contains("-last [KEY]") && diff.contains("+first [KEY]") && !diff.contains("0123"),
        "{diff}"
    );
    let stored = client.read_file(&sandbox, "file").await.unwrap().unwrap();
    assert!(stored.ends_with(format!("first {KEY}").as_bytes()));

    client.put_file(&sandbox, KEY, "", WriteOptions::default()).await.unwrap();
    let glob = GlobFiles { pattern: "sk-*".into(), hide_secrets: Some(true), ..GlobFiles::default() };
    let named = client.glob_files(&sandbox, &glob).await.unwrap().entries;
    assert_eq!((named[0].path.as_str(), named[0].name.as_str()), ("[KEY]", "[KEY]"));

    let http = HttpClient::of(&daemon);
    let base = format!("/v1/sandboxes/{sandbox}/files?path=file&hideSecrets");
    let wrong = http.get(&format!("{base}=yes")).await;
    wrong.faults("hideSecrets", "`true` or `false`");
    let condition = http.with_token("GET", &format!("{base}=true")).header("if-match", "*");
    Answer::to(condition).await.faults("if-match", "hideSecrets");
    let range = http.with_token("GET", &format!("{base}=true")).header("range", "bytes=0-1");
    assert_eq!(Answer::to(range).await.status, 200);
}
