//! Tests of searches in real directories.

use std::fs;

use agent_protocol::fault::Kind;
use agent_protocol::v1::{self, Cut};

use crate::files::tests::{Fixture, fixture};
use crate::limits::MAX_GITIGNORE_BYTES;

fn tree() -> Fixture {
    let fixture = fixture();
    let files: [(&str, &[u8]); 7] = [
        ("src/main.rs", b"fn main() {}\r\nlet Needle = 1;\n"),
        ("src/deep/lib.rs", b"needle\nneedle two\n"),
        ("target/out.rs", b"needle\n"),
        (".gitignore", b"/target\n*.log\n"),
        ("src/deep/.gitignore", b"!kept.log\n"),
        ("src/deep/kept.log", b"needle\n"),
        ("binary", b"\0needle\n"),
    ];
    for (path, content) in files {
        let path = fixture.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    fs::create_dir(fixture.dir.path().join(".git")).unwrap();
    fs::write(fixture.dir.path().join(".git/HEAD"), b"needle\n").unwrap();
    fixture
}

fn grep(fixture: &Fixture, request: v1::GrepRequest) -> Result<(Vec<(String, u64)>, Cut), Kind> {
    let request = v1::GrepRequest { max_results: request.max_results.max(1), ..request };
    let reply = fixture.workspace.grep(&fixture.path(""), &request)?;
    let found =
        reply.matches.iter().map(|found| (String::from_utf8(found.path.to_vec()).unwrap(), found.line));
    Ok((found.collect(), reply.cut()))
}

fn query(query: &str, max_results: u32) -> v1::GrepRequest {
    v1::GrepRequest { query: query.into(), max_results, ..v1::GrepRequest::default() }
}

#[test]
fn ignored_files_are_not_searched() {
    let (found, cut) = grep(&tree(), query("needle", 100)).unwrap();
    let found: Vec<(&str, u64)> = found.iter().map(|(path, line)| (path.as_str(), *line)).collect();
    assert_eq!(found, [("src/deep/kept.log", 1), ("src/deep/lib.rs", 1), ("src/deep/lib.rs", 2)]);
    assert_eq!(cut, Cut::None);
    let everything = v1::GrepRequest { include_ignored: true, ..query("needle", 100) };
    assert_eq!(grep(&tree(), everything).unwrap().0.len(), 5);
}

#[test]
fn a_query_is_plain_text_unless_regex_is_set() {
    let fixture = tree();
    assert_eq!(grep(&fixture, query("m..n", 9)).unwrap().0.len(), 0);
    let pattern = v1::GrepRequest { regex: true, case_insensitive: true, ..query("^LET n\\w+", 9) };
    assert_eq!(grep(&fixture, pattern).unwrap().0, [("src/main.rs".to_owned(), 2)]);
    let broken = v1::GrepRequest { regex: true, ..query("(", 9) };
    assert!(matches!(grep(&fixture, broken), Err(Kind::FieldInvalid(fault)) if fault.field == "query"));
    let some = v1::GrepRequest { include: vec!["**/*.rs".into()], ..query("needle", 9) };
    assert_eq!(grep(&fixture, some).unwrap().0.len(), 2);
}

#[test]
fn a_search_that_ends_early_reports_it() {
    let fixture = tree();
    assert_eq!(grep(&fixture, query("needle", 2)).unwrap().1, Cut::Results);
    assert_eq!(grep(&fixture, query("needle", 3)).unwrap().1, Cut::None);
    assert_eq!(grep(&fixture, query("fn main", 1)).unwrap().0.len(), 1);
}

#[test]
fn a_glob_matches_paths() {
    let fixture = tree();
    let glob = |pattern: &str, exclude: &[&str]| {
        let exclude = exclude.iter().map(|glob| (*glob).to_owned()).collect();
        let request =
            v1::GlobRequest { pattern: pattern.into(), exclude, max_results: 9, ..Default::default() };
        let reply = fixture.workspace.glob(&fixture.path("src"), &request).unwrap();
        reply.entries.iter().map(|info| String::from_utf8(info.path.to_vec()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(glob("*.rs", &[]), ["src/main.rs"]);
    assert_eq!(glob("**/*.rs", &[]), ["src/deep/lib.rs", "src/main.rs"]);
    assert_eq!(glob("**/*.{rs,log}", &["deep"]), ["src/main.rs"]);
    assert_eq!(glob("*", &[]), ["src/deep", "src/main.rs"]);
}

#[test]
fn ignore_rules_are_limited_over_all_levels() {
    let fixture = fixture();
    let mut dir = fixture.dir.path().to_owned();
    for _ in 0..4 {
        dir.push("d");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(".gitignore"), "pattern-*\n".repeat(MAX_GITIGNORE_BYTES / 20)).unwrap();
    }
    fs::write(dir.join("file"), "needle\n").unwrap();
    let (found, cut) = grep(&fixture, query("needle", 9)).unwrap();
    assert_eq!((found.len(), cut), (1, Cut::Files));
}

#[test]
fn skipped_ignore_rules_above_the_start_are_reported() {
    let fixture = fixture();
    fs::create_dir(fixture.dir.path().join("d")).unwrap();
    fs::write(fixture.dir.path().join("d/file"), "needle\n").unwrap();
    for (patterns, cut) in [(MAX_GITIGNORE_BYTES / 10, Cut::None), (MAX_GITIGNORE_BYTES, Cut::Files)] {
        fs::write(fixture.dir.path().join(".gitignore"), "pattern-*\n".repeat(patterns)).unwrap();
        for path in ["", "d"] {
            let reply = fixture.workspace.grep(&fixture.path(path), &query("needle", 9)).unwrap();
            assert_eq!((reply.matches.len(), reply.cut()), (1, cut), "{path:?}");
        }
    }
}

#[test]
fn a_named_file_is_searched_alone() {
    let fixture = tree();
    let link = fixture.dir.path().join("link");
    std::os::unix::fs::symlink("target/out.rs", link).unwrap();
    let lines = |path: &str, request| {
        let reply = fixture.workspace.grep(&fixture.path(path), &request)?;
        let found = reply.matches.iter().map(|found| (found.path.clone(), found.line));
        Ok::<_, Kind>((found.collect::<Vec<_>>(), reply.cut()))
    };
    let at = |path: &'static str, line| (bytes::Bytes::from_static(path.as_bytes()), line);
    let deep = "src/deep/lib.rs";
    assert_eq!(lines(deep, query("needle", 9)).unwrap(), (vec![at(deep, 1), at(deep, 2)], Cut::None));
    assert_eq!(lines(deep, query("needle", 1)).unwrap(), (vec![at(deep, 1)], Cut::Results));
    // A named file is searched even if it is ignored, also through a link.
    assert_eq!(lines("link", query("needle", 9)).unwrap().0, [at("link", 1)]);
    let of = |include: &str| v1::GrepRequest { include: vec![include.into()], ..query("needle", 9) };
    assert_eq!(lines(deep, of("*.rs")).unwrap().0.len(), 2);
    assert_eq!(lines(deep, of("*.py")).unwrap().0.len(), 0);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, fixture.dir.path().join("fifo"), fifo, 0o600.into(), 0).unwrap();
    assert!(matches!(lines("fifo", query("needle", 9)), Err(Kind::NotAFile(_))));
    assert!(matches!(lines("src/main.rs/", query("needle", 9)), Err(Kind::NotAFile(_))));
    assert!(matches!(lines("absent", query("needle", 9)), Err(Kind::FileUnknown(_))));
}

#[test]
fn ignore_rules_above_the_start_apply_beneath_it() {
    let fixture = tree();
    fs::write(fixture.dir.path().join("src/skipped.log"), "needle\n").unwrap();
    let found = fixture.workspace.grep(&fixture.path("src"), &query("needle", 9)).unwrap().matches;
    assert!(found.iter().all(|found| found.path != "src/skipped.log"), "{found:?}");
    // A named directory is searched even if it is ignored.
    assert_eq!(
        fixture.workspace.grep(&fixture.path("target"), &query("needle", 9)).unwrap().matches.len(),
        1
    );
}

#[test]
fn a_file_that_would_block_is_not_opened() {
    let fixture = tree();
    let fifo = rustix::fs::FileType::Fifo;
    for name in ["fifo", "src/.gitignore"] {
        let path = fixture.dir.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, path, fifo, 0o600.into(), 0).unwrap();
    }
    assert_eq!(grep(&fixture, query("needle", 100)).unwrap().0.len(), 3);
}
