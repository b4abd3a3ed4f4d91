//! Pages of the newest lines.

use std::fs::OpenOptions;
use std::io::Write;

use sandboxd_audit::page::{Cursor, page};

use crate::{SMALL, files, write};

#[test]
fn pages_have_every_line_once_and_the_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    let head = write(dir.path(), SMALL, 50);
    let last = files(dir.path()).pop().unwrap();
    // A line that is being written.
    OpenOptions::new().append(true).open(last).unwrap().write_all(b"{\"seq\":99").unwrap();
    for limit in [1, 7, 1000] {
        let (mut seqs, mut cursor) = (Vec::new(), None);
        loop {
            let found = page(dir.path(), cursor, limit, |_| true).unwrap();
            assert!(found.lines.len() <= limit);
            seqs.extend(found.lines.iter().map(|line| line.seq));
            let Some(next) = found.next else { break };
            // Clients hold it as text.
            cursor = Some(next.to_string().parse::<Cursor>().unwrap());
        }
        let expected: Vec<u64> = (1..=head.seq).rev().collect();
        assert_eq!(seqs, expected, "{limit}");
    }
}

#[test]
fn a_page_has_only_what_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), SMALL, 50);
    let found = page(dir.path(), None, 3, |line| line.entry.act == "record.file").unwrap();
    assert_eq!(found.lines.len(), 3);
    assert!(found.lines.iter().all(|line| line.entry.act == "record.file"));
}

#[test]
fn only_a_cursor_of_a_page_is_one() {
    for text in ["", "1", "1.", ".1", "1.2.3", "01.2", "1.+2", "-1.2", "99999999999999999999.1"] {
        assert!(text.parse::<Cursor>().is_err(), "{text}");
    }
    assert_eq!("3.14".parse::<Cursor>().unwrap().to_string(), "3.14");
}
