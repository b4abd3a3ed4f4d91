//! Tests that an archive is unpacked completely or not at all.

use std::{fs, io};

use proptest::prelude::*;
use tar::{Builder, EntryType, Header};

use agent_protocol::fault::Kind;
use agent_protocol::v1;

use super::MAX_HEADER_BYTES;
use crate::files::tests::{Fixture, fixture};

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header
}

/// Appends a member whose name and target the builder does not check.
fn raw(builder: &mut Builder<Vec<u8>>, kind: EntryType, name: &str, target: &str, content: &[u8]) {
    let mut header = header(kind, content.len() as u64);
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.as_mut_bytes()[157..157 + target.len()].copy_from_slice(target.as_bytes());
    header.set_cksum();
    builder.append(&header, content).unwrap();
}

/// Kind, name, target and content.
type Member<'a> = (EntryType, &'a str, &'a str, &'a [u8]);

fn archive(members: &[Member<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, name, target, content) in members {
        raw(&mut builder, *kind, name, target, content);
    }
    builder.into_inner().unwrap()
}

fn unpack(fixture: &Fixture, archive: &[u8]) -> Result<v1::UnpackReply, Kind> {
    fixture.workspace.unpack(&fixture.path("to"), archive)
}

fn is_untouched(fixture: &Fixture) -> bool {
    let staging = fs::read_dir(fixture.dir.path().join(".sandbox-staging"));
    !fixture.dir.path().join("to").exists() && staging.is_ok_and(|mut left| left.next().is_none())
}

#[test]
fn an_archive_is_unpacked_with_modes_and_links() {
    let fixture = fixture();
    let mut tool = header(EntryType::Regular, 2);
    tool.set_mode(0o4755);
    tool.set_mtime(1_000_000_000);
    let mut builder = Builder::new(Vec::new());
    builder.append_data(&mut tool, "bin/tool", &b"#!"[..]).unwrap();
    builder.append_link(&mut header(EntryType::Symlink, 0), "link", "bin/tool").unwrap();
    builder.append_link(&mut header(EntryType::Link, 0), "hard", "bin/tool").unwrap();
    builder.append_data(&mut header(EntryType::Directory, 0), "empty/", io::empty()).unwrap();
    let reply = unpack(&fixture, &builder.into_inner().unwrap()).unwrap();
    assert_eq!((reply.files, reply.bytes), (1, 2));
    let to = fixture.dir.path().join("to");
    let meta = fs::metadata(to.join("hard")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o7777, 0o755);
    assert_eq!(
        meta.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs(),
        1_000_000_000
    );
    assert!(to.join("empty").is_dir() && to.join("link").is_symlink());
    assert!(fs::read_dir(fixture.dir.path().join(".sandbox-staging")).unwrap().next().is_none());
}

#[test]
fn a_member_that_leads_out_or_is_special_fails_the_archive() {
    use EntryType::{Block, Char, Fifo, Link, Regular, Symlink};
    let hostile: [&[Member<'_>]; 12] = [
        &[(Regular, "../out", "", b"x")],
        &[(Regular, "a/../../out", "", b"x")],
        &[(Regular, "/etc/passwd", "", b"x")],
        &[(Symlink, "etc", "/etc", b"")],
        &[(Symlink, "up", "../../etc", b"")],
        &[(Symlink, "in", "sub", b""), (Symlink, "in2", "a/../../..", b"")],
        &[(Link, "hard", "/etc/passwd", b"")],
        &[(Link, "hard", "../file", b"")],
        &[(Link, "hard", "absent", b"")],
        &[(Fifo, "fifo", "", b"")],
        &[(Char, "null", "", b"")],
        &[(Block, "disk", "", b"")],
    ];
    for members in hostile {
        let fixture = fixture();
        let mut members = members.to_vec();
        members.insert(0, (Regular, "first", "", b"1"));
        let unpacked = unpack(&fixture, &archive(&members));
        assert!(matches!(unpacked, Err(Kind::ArchiveBad(_))), "{members:?}: {unpacked:?}");
        assert!(is_untouched(&fixture), "{members:?}");
    }
}

#[test]
fn a_member_is_not_written_through_a_link_that_leads_out() {
    let fixture = fixture();
    fs::create_dir_all(fixture.dir.path().join("to")).unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), fixture.dir.path().join("to/link")).unwrap();
    let members = archive(&[(EntryType::Regular, "link/file", "", b"x")]);
    assert!(unpack(&fixture, &members).is_err());
    assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
}

#[test]
fn a_conflict_with_an_existing_directory_changes_nothing() {
    let fixture = fixture();
    let to = fixture.dir.path().join("to");
    fs::create_dir_all(to.join("z")).unwrap();
    fs::write(to.join("a"), b"before").unwrap();
    let members = [
        (EntryType::Regular, "a", "", &b"after"[..]),
        (EntryType::Regular, "new", "", b""),
        (EntryType::Regular, "z", "", b""),
    ];
    assert!(matches!(unpack(&fixture, &archive(&members)), Err(Kind::AlreadyThere(_))));
    assert_eq!(fs::read(to.join("a")).unwrap(), b"before");
    assert!(fs::read_dir(fixture.dir.path().join(".sandbox-staging")).unwrap().next().is_none());
    assert!(to.join("z").is_dir() && !to.join("new").exists());
}

#[test]
fn the_headers_before_a_member_are_limited() {
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
        let fixture = fixture();
        let long = vec![b'n'; MAX_HEADER_BYTES as usize];
        let members = archive(&[(kind, "././@LongLink", "", &long), (EntryType::Regular, "file", "", b"1")]);
        let unpacked = unpack(&fixture, &members);
        assert!(matches!(unpacked, Err(Kind::ArchiveBad(_))), "{kind:?}: {unpacked:?}");
        assert!(is_untouched(&fixture));
    }
}

#[test]
fn a_links_target_is_resolved_through_links_of_the_archive() {
    let fixture = fixture();
    let members = [
        (EntryType::Symlink, "d", ".", &b""[..]),
        (EntryType::Symlink, "d/d/d/link", "../../../etc", &b""[..]),
    ];
    let unpacked = unpack(&fixture, &archive(&members));
    assert!(matches!(unpacked, Err(Kind::ArchiveBad(_))), "{unpacked:?}");
    assert!(is_untouched(&fixture));
}

#[test]
fn every_compression_is_detected() {
    let plain = archive(&[(EntryType::Regular, "file", "", &[7; 5000])]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    io::Write::write_all(&mut gzip, &plain).unwrap();
    for packed in [plain.clone(), gzip.finish().unwrap(), zstd::encode_all(&plain[..], 1).unwrap()] {
        let fixture = fixture();
        assert_eq!(unpack(&fixture, &packed).unwrap().bytes, 5000);
    }
    for nonsense in [&b""[..], b"not an archive", &[0x1f, 0x8b, 1, 2], b"BZh91AY&SY"] {
        let fixture = fixture();
        assert!(matches!(unpack(&fixture, nonsense), Err(Kind::ArchiveBad(_))), "{nonsense:?}");
        assert!(is_untouched(&fixture));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_truncated_archive_is_not_unpacked(at in 0.0..1.0_f64, kind in 0..3_u8) {
        let fixture = fixture();
        let plain = archive(&[(EntryType::Regular, "a", "", &[7; 700]), (EntryType::Regular, "b", "", &[8; 3000])]);
        let packed = match kind {
            0 => plain[..plain.len() - 1024].to_vec(),
            1 => {
                let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                io::Write::write_all(&mut gzip, &plain).unwrap();
                gzip.finish().unwrap()
            }
            _ => zstd::encode_all(&plain[..], 1).unwrap(),
        };
        let cut = (packed.len() as f64 * at) as usize;
        let unpacked = unpack(&fixture, &packed[..cut]);
        prop_assert!(matches!(unpacked, Err(Kind::ArchiveBad(_))), "{:?}", unpacked);
        prop_assert!(is_untouched(&fixture));
    }
}
