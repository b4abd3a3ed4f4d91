//! Files as the model reads and writes them, and URLs of servers.

use bash_tools::provider;
use bash_tools::tools::{Error, ReadFileInput, SandboxUrlInput, Toolkit, WriteFileInput};

use crate::fixture::{Fixture, over_each_provider, run};

over_each_provider!(
    a_written_file_is_read_back,
    a_long_file_is_read_in_parts,
    an_unreadable_file_is_reported,
    only_listed_ports_have_a_url,
);

async fn write(tools: &Toolkit, path: &str, content: &str) {
    let input = WriteFileInput { path: path.into(), content: content.into() };
    assert!(tools.write_file(input).await.unwrap().success);
}

async fn read(tools: &Toolkit, path: &str, offset: Option<u64>, limit: Option<u64>) -> Result<String, Error> {
    let input = ReadFileInput { path: path.into(), offset, limit };
    tools.read_file(input).await.map(|file| file.content)
}

async fn a_written_file_is_read_back(fixture: &Fixture) {
    let tools = fixture.tools("1");
    write(&tools, "a/b c/d.txt", "é\n\u{1f600}").await;
    assert_eq!(read(&tools, "a/b c/d.txt", None, None).await.unwrap(), "é\n\u{1f600}");
    assert_eq!(
        read(&tools, "/vercel/sandbox/workspace/a/b c/d.txt", None, None).await.unwrap(),
        "é\n\u{1f600}"
    );
    assert_eq!(run(&tools, "cat 'a/b c/d.txt'").await.stdout, "é\n\u{1f600}");
    write(&tools, "a/b c/d.txt", "").await;
    assert_eq!(read(&tools, "a/b c/d.txt", None, None).await.unwrap(), "");
}

async fn a_long_file_is_read_in_parts(fixture: &Fixture) {
    let tools = fixture.tools("1");
    run(&tools, "seq 1 100000 >numbers; head -c 3000 /dev/zero | tr '\\0' x >line; printf 'a\\nb' >two")
        .await;
    let first = read(&tools, "numbers", None, None).await.unwrap();
    assert!(first.starts_with("1\n2\n") && first.contains("\n[file truncated: "), "{first}");
    let next: u64 = first.rsplit_once("offset ").unwrap().1.trim_end_matches(']').parse().unwrap();
    assert!(first.contains(&format!("\n{}\n\n[", next - 1)), "{first}");
    let second = read(&tools, "numbers", Some(next), Some(2)).await.unwrap();
    assert_eq!(
        second,
        format!("{next}\n{}\n\n[more lines follow: continue with offset {}]", next + 1, next + 2)
    );
    assert_eq!(read(&tools, "numbers", Some(100_000), None).await.unwrap(), "100000\n");
    assert_eq!(read(&tools, "numbers", Some(99_999), Some(2)).await.unwrap(), "99999\n100000\n");
    assert_eq!(read(&tools, "two", Some(2), None).await.unwrap(), "b");
    let line = read(&tools, "line", None, None).await.unwrap();
    assert!(
        line.starts_with(&"x".repeat(1000)) && line.contains("2000 characters") && line.contains("cut -c"),
        "{line}"
    );
}

async fn an_unreadable_file_is_reported(fixture: &Fixture) {
    let tools = fixture.tools("1");
    run(&tools, "head -c 100 /dev/zero >zeros; printf 'a\\nb\\n' >two; mkdir dir").await;
    let words = |read: Result<String, Error>| read.unwrap_err().to_string();
    let missing = read(&tools, "missing", None, None).await.unwrap_err();
    assert!(matches!(missing, Error::Provider(provider::Error::NoFile { .. })), "{missing:?}");
    assert_eq!(missing.to_string(), "File not found: missing");
    assert!(words(read(&tools, "zeros", None, None).await).contains("not a text file"));
    assert!(words(read(&tools, "two", Some(3), None).await).contains("has only 2 lines"));
    assert!(words(read(&tools, "two", Some(0), None).await).contains("`offset`"));
    assert!(words(read(&tools, "two", None, Some(0)).await).contains("`limit`"));
    assert!(!words(read(&tools, "dir", None, None).await).is_empty());
}

async fn only_listed_ports_have_a_url(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let url = tools.sandbox_url(SandboxUrlInput { port: 3000 }).await.unwrap().url;
    assert!(url.starts_with("http"), "{url}");
    let error = tools.sandbox_url(SandboxUrlInput { port: 4000 }).await.unwrap_err().to_string();
    assert!(error.contains("4000") && error.contains("3000") && error.contains("sandbox.ports"), "{error}");
}
