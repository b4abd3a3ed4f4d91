//! The text editor tool.

use std::time::Duration;

use bash_tools::session::{SessionLimits, Sessions};
use bash_tools::tools::anthropic::EditorInput;
use bash_tools::tools::{Result, Toolkit};
use futures::future::join_all;

use super::concurrent_writer::ConcurrentWriter;
use crate::fixture::{Fixture, key, limits as limits_of_tools, over_each_provider, run};

over_each_provider!(
    a_file_is_created_viewed_and_edited,
    a_long_file_is_shown_in_parts,
    concurrent_changes_are_all_made,
    changes_by_others_are_not_lost,
    a_file_with_cr_lf_keeps_it,
    a_file_without_a_last_line_end_keeps_that,
    a_directory_is_viewed,
    unusual_names_work,
);

async fn view(tools: &Toolkit, path: &str, view_range: Option<(i64, i64)>) -> Result<String> {
    tools.edit(EditorInput::View { path: path.into(), view_range }).await
}

async fn replace(tools: &Toolkit, path: &str, old: &str, new: &str) -> Result<String> {
    let input = EditorInput::StrReplace { path: path.into(), old_str: old.into(), new_str: new.into() };
    tools.edit(input).await
}

async fn insert(tools: &Toolkit, path: &str, insert_line: usize, text: &str) -> Result<String> {
    let input = EditorInput::Insert { path: path.into(), insert_line, insert_text: text.into() };
    tools.edit(input).await
}

async fn a_file_is_created_viewed_and_edited(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let path = || "src/it's.txt".to_owned();
    let file_text = "one\ntwo\nthree\n".to_owned();
    tools.edit(EditorInput::Create { path: path(), file_text }).await.unwrap();
    let view = |view_range| tools.edit(EditorInput::View { path: path(), view_range });
    assert_eq!(view(None).await.unwrap(), "     1\tone\n     2\ttwo\n     3\tthree\n");
    assert_eq!(view(Some((2, 3))).await.unwrap(), "     2\ttwo\n     3\tthree\n");
    assert_eq!(view(Some((3, -1))).await.unwrap(), "     3\tthree\n");
    let replace = |old: &str, new: &str| {
        tools.edit(EditorInput::StrReplace { path: path(), old_str: old.into(), new_str: new.into() })
    };
    let reported = replace("two", "2\n2.5").await.unwrap();
    assert!(reported.contains("     2\t2\n     3\t2.5\n"), "{reported}");
    assert!(replace("two", "x").await.unwrap_err().to_string().contains("verbatim"));
    let insert = EditorInput::Insert { path: path(), insert_line: 1, insert_text: "1.5".into() };
    tools.edit(insert).await.unwrap();
    assert_eq!(run(&tools, "cat \"src/it's.txt\"").await.stdout, "one\n1.5\n2\n2.5\nthree\n");
    let missing = EditorInput::View { path: "missing".into(), view_range: None };
    assert_eq!(tools.edit(missing).await.unwrap_err().to_string(), "File not found: missing");
}

async fn a_directory_is_viewed(fixture: &Fixture) {
    let tools = fixture.tools("1");
    run(
        &tools,
        "mkdir -p d/e/f .hidden; touch 'd/a file' d/e/g d/.secret d/e/f/deep; ln -s /etc/passwd d/link",
    )
    .await;
    let entries = tools.edit(EditorInput::View { path: "d".into(), view_range: None }).await.unwrap();
    assert_eq!(entries, "a file\ne/\ne/f/\ne/g\nlink");
    let range = EditorInput::View { path: "d".into(), view_range: Some((1, 2)) };
    assert!(tools.edit(range).await.unwrap_err().to_string().contains("view_range"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_cannot_be_read_does_not_look_empty() {
    let fixture = Fixture::docker().await;
    let tools = fixture.tools("1");
    run(&tools, "mkdir -p d/closed d/open closed; touch d/open/a closed/b; chmod 0 d/closed closed").await;
    let words = view(&tools, "closed", None).await.unwrap_err().to_string();
    assert!(words.contains("`path`") && words.contains("Permission denied"), "{words}");
    let listed = view(&tools, "d", None).await.unwrap();
    assert!(listed.starts_with("closed/\nopen/\nopen/a\n[some entries"), "{listed}");
    // It can be entered but not read.
    run(&tools, "chmod 0100 closed").await;
    assert!(view(&tools, "closed", None).await.is_err());
}

async fn changes_by_others_are_not_lost(fixture: &Fixture) {
    let racing = |times| {
        let limits = SessionLimits { max_open: 2, idle_ttl: Duration::from_secs(600) };
        let writer = ConcurrentWriter::new(&fixture.provider, "echo more >>real/list", times);
        Toolkit::new(Sessions::new(writer, None, limits), key("1"), limits_of_tools())
    };
    run(&fixture.tools("1"), "mkdir real; echo one >real/list; ln -s real/list list").await;
    replace(&racing(2), "real/list", "one", "1").await.unwrap();
    insert(&racing(1), "real/list", 1, "2").await.unwrap();
    assert_eq!(run(&fixture.tools("1"), "cat real/list").await.stdout, "1\n2\nmore\nmore\nmore\n");
    let words = replace(&racing(100), "real/list", "1", "x").await.unwrap_err().to_string();
    assert!(words.contains("`path`") && words.contains("nothing was changed"), "{words}");
    replace(&fixture.tools("1"), "list", "1", "one").await.unwrap();
    assert_eq!(run(&fixture.tools("1"), "head -n 1 list").await.stdout, "one\n");
}

async fn a_long_file_is_shown_in_parts(fixture: &Fixture) {
    let tools = fixture.tools("1");
    run(&tools, "seq 1 1000 >numbers; head -c 3000 /dev/zero | tr '\\0' x >line").await;
    for range in [None, Some((1, 1000)), Some((1, -1))] {
        let shown = view(&tools, "numbers", range).await.unwrap();
        assert!(shown.contains("[truncated: ") && shown.contains("view_range ["), "{range:?}: {shown}");
        let next: u64 =
            shown.rsplit_once("view_range [").unwrap().1.split(',').next().unwrap().parse().unwrap();
        assert!(shown.contains(&format!("\n{:6}\t{}\n[", next - 1, next - 1)), "{shown}");
    }
    assert_eq!(view(&tools, "numbers", Some((2, 3))).await.unwrap(), "     2\t2\n     3\t3\n");
    assert_eq!(view(&tools, "numbers", Some((1000, 2000))).await.unwrap(), "  1000\t1000\n");
    let long = view(&tools, "line", Some((1, 1))).await.unwrap();
    assert!(long.contains("2000 characters") && long.contains("cut -c"), "{long}");
    let words = view(&tools, "numbers", Some((1001, -1))).await.unwrap_err().to_string();
    assert!(words.contains("`view_range`") && words.contains("1000 lines"), "{words}");
}

async fn concurrent_changes_are_all_made(fixture: &Fixture) {
    let tools = fixture.tools("1");
    run(&tools, "for n in {1..12}; do echo \"<$n>\"; done >many").await;
    let changes = (1..=12).map(|n| {
        let tools = tools.clone();
        async move { replace(&tools, "many", &format!("<{n}>"), &format!("[{n}]")).await }
    });
    for changed in join_all(changes).await {
        changed.unwrap();
    }
    assert_eq!(run(&tools, "grep -c '\\[' many; grep -c '<' many").await.stdout, "12\n0\n");
}

async fn a_file_with_cr_lf_keeps_it(fixture: &Fixture) {
    let tools = fixture.tools("1");
    run(&tools, "printf 'one\\r\\ntwo\\r\\nthree\\r\\n' >dos").await;
    assert_eq!(view(&tools, "dos", None).await.unwrap(), "     1\tone\n     2\ttwo\n     3\tthree\n");
    replace(&tools, "dos", "one\ntwo", "1\n2\n2.5").await.unwrap();
    insert(&tools, "dos", 4, "4").await.unwrap();
    assert_eq!(run(&tools, "cat dos").await.stdout, "1\r\n2\r\n2.5\r\nthree\r\n4");
}

async fn a_file_without_a_last_line_end_keeps_that(fixture: &Fixture) {
    let tools = fixture.tools("1");
    run(&tools, "printf 'a\\nb' >open; : >empty; chmod 755 open").await;
    replace(&tools, "open", "b", "c").await.unwrap();
    assert_eq!(run(&tools, "cat open").await.stdout, "a\nc");
    insert(&tools, "open", 2, "d").await.unwrap();
    assert_eq!(run(&tools, "cat open").await.stdout, "a\nc\nd");
    let words = insert(&tools, "open", 4, "x").await.unwrap_err().to_string();
    assert!(words.contains("`insert_line` is 4 and must be 0 to 3"), "{words}");
    insert(&tools, "empty", 0, "x\n").await.unwrap();
    assert_eq!(run(&tools, "cat empty").await.stdout, "x\n");
    assert_eq!(view(&tools, "empty", None).await.unwrap(), "     1\tx\n");
}

async fn unusual_names_work(fixture: &Fixture) {
    let tools = fixture.tools("1");
    run(&tools, "mkdir -p ./-d ./- 'e\nf'; touch ./-d/-x ./-/y $'e\\nf/a\\tb' ./-d/d; mkdir none").await;
    assert_eq!(view(&tools, "-d", None).await.unwrap(), "-x\nd");
    assert_eq!(view(&tools, "-", None).await.unwrap(), "y");
    assert_eq!(view(&tools, "e\nf", None).await.unwrap(), "a\\tb");
    let all = view(&tools, ".", None).await.unwrap();
    assert_eq!(all, "-/\n-/y\n-d/\n-d/-x\n-d/d\ne\\nf/\ne\\nf/a\\tb\nnone/");
    assert_eq!(view(&tools, "none", None).await.unwrap(), "[the directory has no visible entries]");
    tools.edit(EditorInput::Create { path: "-n".into(), file_text: "-e a".into() }).await.unwrap();
    replace(&tools, "-n", "a", "b").await.unwrap();
    assert_eq!(run(&tools, "cat ./-n").await.stdout, "-e b");
    for path in ["", "a\0b"] {
        assert!(view(&tools, path, None).await.unwrap_err().to_string().contains("`path`"), "{path:?}");
    }
}
