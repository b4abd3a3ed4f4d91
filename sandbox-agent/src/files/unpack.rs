//! Unpacks an archive into a directory of the workspace: all of it or nothing.
//!
//! It is unpacked in [`super::staging`] first, where whatever it holds can do no harm, and when its end has been read
//! without a fault, what is there takes its place. A member that would leave the workspace is refused, and so are
//! devices, fifos and links to the outside: the archive is hostile, and even one that is not is not to be half
//! unpacked. Members, bytes and paths are bounded, whatever the archive says of itself.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use agent_protocol::fault::{Kind, MAX_TEXT_BYTES};
use agent_protocol::v1;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use rustix::fs::{Timespec, Timestamps};
use tar::{Entry, EntryType};

use super::archive_input::Input;
use super::batch::MODE_MASK;
use super::merge::Merge;
use super::path::{FilePath, leads_out};
use super::staging::fresh_name;
use super::{Workspace, tree};
use crate::limits::{MAX_ARCHIVE_BYTES, MAX_ARCHIVE_MEMBERS, MAX_PATH_BYTES, MAX_WALK_DEPTH};

/// What may follow an archive's end mark: tar(1) fills up to 10 KiB, others up to this.
const MAX_TRAILING_BYTES: u64 = 1024 * 1024;

/// Most that may stand before a member: its names, its extensions, the map of its holes.
const MAX_HEAD_BYTES: u64 = 256 * 1024;

/// Most of a member's name that a sentence repeats, so that there is room for what is wrong with it.
const MAX_SHOWN_BYTES: usize = 128;

const BUFFER_BYTES: usize = 64 * 1024;

impl Workspace {
    /// Unpacks what `archive` reads into the directory at `path`, made where it is missing.
    pub(crate) fn unpack(
        self: &Arc<Self>,
        path: &FilePath,
        archive: impl Read,
    ) -> Result<v1::UnpackReply, Kind> {
        let fail = |error: io::Error| path.dir_fault(&error);
        // A caller learns before it has sent everything that there is no place for it.
        match self.open_dir(path.as_path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        let staging = self.staging.begin().map_err(fail)?;
        let name = fresh_name();
        staging.create_dir(&name).map_err(fail)?;
        let unpacked = tree::open_itself(&staging, &name).map_err(fail).and_then(|tree| {
            let mut unpacking = Unpacking::new(tree, &self.root, path);
            unpacking.run(archive)?;
            let Unpacking { tree, reply, dir_modes, .. } = unpacking;
            let _change = self.change_now();
            Merge::new(self, &staging).run(tree, path)?;
            self.give_modes(path, dir_modes);
            Ok(reply)
        });
        staging.discard_tree(name);
        unpacked
    }
}

impl Workspace {
    /// From the bottom up, because the mode of one may shut the way to those beneath.
    fn give_modes(&self, to: &FilePath, dir_modes: BTreeMap<PathBuf, u32>) {
        for (dir, mode) in dir_modes.into_iter().rev() {
            let path = to.relative.join(dir);
            // What is gone or another thing by now needs none.
            let _ =
                self.open_dir(&path).and_then(|dir| dir.set_permissions(".", Permissions::from_mode(mode)));
        }
    }
}

struct Unpacking<'a> {
    tree: Dir,
    workspace: &'a Path,
    /// Where in the workspace it goes.
    to: &'a FilePath,
    reply: v1::UnpackReply,
    members: u64,
    dir_modes: BTreeMap<PathBuf, u32>,
}

impl<'a> Unpacking<'a> {
    fn new(tree: Dir, workspace: &'a Path, to: &'a FilePath) -> Self {
        Self {
            tree,
            workspace,
            to,
            reply: v1::UnpackReply::default(),
            members: 0,
            dir_modes: BTreeMap::new(),
        }
    }

    fn run(&mut self, archive: impl Read) -> Result<(), Kind> {
        let input = BufReader::with_capacity(BUFFER_BYTES, archive);
        let (input, allowance) = Input::decompressed(input).map_err(|error| unreadable(&error))?;
        let mut archive = tar::Archive::new(input);
        let mut entries = archive.entries().map_err(|error| unreadable(&error))?;
        loop {
            // The library keeps all of what stands before a member, however long that says it is.
            allowance.set(Some(MAX_HEAD_BYTES));
            let Some(entry) = entries.next() else { break };
            allowance.set(None);
            let mut entry = entry.map_err(|error| unreadable(&error))?;
            self.take(&mut entry)?;
            // What a link or directory has of content belongs to nobody, and not to the next one's head.
            io::copy(&mut entry, &mut io::sink()).map_err(|error| unreadable(&error))?;
        }
        allowance.set(None);
        let mut input = archive.into_inner();
        if input.is_at_end() {
            return Err(bad(b"", "it ends without its end mark"));
        }
        // A checksum comes last, and a sender that is not through should not be cut off.
        let rest = io::copy(&mut (&mut input).take(MAX_TRAILING_BYTES + 1), &mut io::sink());
        match rest.map_err(|error| unreadable(&error))? {
            0..=MAX_TRAILING_BYTES => Ok(()),
            _ => Err(bad(b"", format!("more than {MAX_TRAILING_BYTES} bytes follow its end"))),
        }
    }

    fn take(&mut self, entry: &mut Entry<'_, impl Read>) -> Result<(), Kind> {
        let member = entry.path_bytes().into_owned();
        self.members += 1;
        if self.members > MAX_ARCHIVE_MEMBERS {
            let (what, limit) = ("members in the archive".into(), MAX_ARCHIVE_MEMBERS);
            return Err(Kind::TooMany(v1::TooMany { what, limit }));
        }
        let path = inside(&member).map_err(|problem| bad(&member, problem))?;
        let done = match entry.header().entry_type() {
            EntryType::Directory => self.take_dir(entry, path),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let path = path.ok_or_else(|| bad(&member, "it has no name"))?;
                self.take_file(entry, &member, &path)?;
                self.reply.files += 1;
                Ok(())
            }
            EntryType::Symlink => {
                let path = path.ok_or_else(|| bad(&member, "it has no name"))?;
                self.take_symlink(entry, &member, &path)?
            }
            EntryType::Link => {
                let path = path.ok_or_else(|| bad(&member, "it has no name"))?;
                self.take_link(entry, &member, &path)?
            }
            EntryType::XGlobalHeader => Ok(()),
            _ => return Err(bad(&member, "it is no file, directory or link")),
        };
        done.map_err(|error| self.fault(&member, &error))
    }

    /// Its mode is given when everything is in its place: one that nobody may write into could not be filled.
    fn take_dir(&mut self, entry: &Entry<'_, impl Read>, path: Option<PathBuf>) -> io::Result<()> {
        let Some(path) = path else { return Ok(()) };
        self.tree.create_dir_all(&path)?;
        if let Ok(mode) = entry.header().mode() {
            self.dir_modes.insert(path, mode & MODE_MASK);
        }
        Ok(())
    }

    fn take_file(
        &mut self,
        entry: &mut Entry<'_, impl Read>,
        member: &[u8],
        path: &Path,
    ) -> Result<(), Kind> {
        if is_pax_sparse(entry) {
            return Err(bad(member, "it is sparse in a way that is not understood (pax); GNU's way is"));
        }
        let mode = entry.header().mode().unwrap_or(super::batch::DEFAULT_MODE) & MODE_MASK;
        let modified = entry.header().mtime().ok();
        let mut file = self.create(path).map_err(|error| self.fault(member, &error))?;
        let room = MAX_ARCHIVE_BYTES - self.reply.bytes;
        let written = copy(&mut entry.take(room + 1), &mut file).map_err(|error| match error {
            CopyError::Read(error) => unreadable(&error),
            CopyError::Write(error) => self.fault(member, &error),
        })?;
        if written > room {
            let path = String::from_utf8_lossy(member).into_owned();
            let (bytes, max_bytes) = (self.reply.bytes + written, MAX_ARCHIVE_BYTES);
            return Err(Kind::TooLarge(v1::TooLarge { path, bytes, max_bytes }));
        }
        self.reply.bytes += written;
        let finish = file.set_permissions(Permissions::from_mode(mode));
        finish.map_err(|error| self.fault(member, &error))?;
        if let Some(modified) = modified.and_then(|seconds| i64::try_from(seconds).ok()) {
            let time = Timespec { tv_sec: modified, tv_nsec: 0 };
            // A time that the file system cannot hold is not worth a refusal.
            let _ = rustix::fs::futimens(&file, &Timestamps { last_access: time, last_modification: time });
        }
        Ok(())
    }

    /// A later member of the same name replaces an earlier one, as with tar(1).
    fn create(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let open = || self.tree.open_with(path, &options);
        open().or_else(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => self.make_parent(path)?,
                io::ErrorKind::AlreadyExists => self.tree.remove_file(path)?,
                _ => return Err(error),
            }
            open()
        })
    }

    fn make_parent(&self, path: &Path) -> io::Result<()> {
        match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => self.tree.create_dir_all(parent),
            None => Ok(()),
        }
    }

    fn take_symlink(
        &self,
        entry: &Entry<'_, impl Read>,
        member: &[u8],
        path: &Path,
    ) -> Result<io::Result<()>, Kind> {
        let target = entry.link_name_bytes().ok_or_else(|| bad(member, "it is a link without a target"))?;
        let target = Path::new(std::ffi::OsStr::from_bytes(&target));
        // Where the member goes to through links of the archive itself, of which some name directories above.
        self.make_parent(path).map_err(|error| self.fault(member, &error))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let real = parent.map_or(Ok(PathBuf::new()), |parent| self.tree.canonicalize(parent));
        let from = self.to.relative.join(real.map_err(|error| self.fault(member, &error))?);
        if !stays(self.workspace, &from, target) {
            return Err(bad(member, "it is a link that leads out of the workspace"));
        }
        let make = || {
            Ok(rustix::fs::symlinkat(target, &self.tree_dir(path)?, path.file_name().unwrap_or_default())?)
        };
        Ok(make().or_else(|error: io::Error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                self.tree.remove_file(path)?;
            }
            make()
        }))
    }

    /// The directory of the tree that a member goes to, made where it is missing.
    fn tree_dir(&self, path: &Path) -> io::Result<Dir> {
        self.make_parent(path)?;
        match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => self.tree.open_dir(parent),
            None => self.tree.try_clone(),
        }
    }

    fn take_link(
        &self,
        entry: &Entry<'_, impl Read>,
        member: &[u8],
        path: &Path,
    ) -> Result<io::Result<()>, Kind> {
        let target = entry.link_name_bytes().ok_or_else(|| bad(member, "it is a link without a target"))?;
        let target =
            inside(&target).map_err(|problem| bad(member, format!("it is a link, and {problem}")))?;
        let target = target.ok_or_else(|| bad(member, "it is a link to nothing"))?;
        if !self.tree.symlink_metadata(&target).is_ok_and(|meta| meta.is_file()) {
            return Err(bad(member, "it is a link to what is no file of the archive"));
        }
        let link = || self.tree.hard_link(&target, &self.tree, path);
        Ok(self.make_parent(path).and_then(|()| link()).or_else(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists && target != path {
                self.tree.remove_file(path)?;
                return link();
            }
            Err(error)
        }))
    }

    fn fault(&self, member: &[u8], error: &io::Error) -> Kind {
        let path = FilePath::found(Path::new(std::ffi::OsStr::from_bytes(member)).to_owned());
        match path.fault(error) {
            kind @ Kind::NoSpace(_) => kind,
            _ if leads_out(error) => bad(member, "it leads out of the workspace"),
            _ => bad(member, format!("it does not fit to what comes before it: {}", error.kind())),
        }
    }
}

/// A member's path without what means nothing; none for the archive's own root.
fn inside(member: &[u8]) -> Result<Option<PathBuf>, &'static str> {
    if member.len() > MAX_PATH_BYTES {
        return Err("its path is too long");
    }
    if member.contains(&0) {
        return Err("its path holds NUL");
    }
    let mut path = PathBuf::new();
    for part in Path::new(std::ffi::OsStr::from_bytes(member)).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err("its path leads out of the workspace");
            }
        }
    }
    if path.components().count() > MAX_WALK_DEPTH {
        return Err("its path has too many levels");
    }
    Ok(Some(path).filter(|path| !path.as_os_str().is_empty()))
}

/// Whether a link in the directory `from` of the workspace stays in it, by its text: that is all there is to go by.
/// Nothing depends on it, because no call of ours follows a link to the outside.
fn stays(workspace: &Path, from: &Path, target: &Path) -> bool {
    let (mut depth, rest) = match target.strip_prefix(workspace) {
        Ok(rest) => (0, rest),
        Err(_) if target.is_absolute() => return false,
        Err(_) => (from.components().count(), target),
    };
    rest.components().all(|part| match part {
        Component::ParentDir if depth == 0 => false,
        Component::ParentDir => {
            depth -= 1;
            true
        }
        Component::Normal(_) => {
            depth += 1;
            true
        }
        _ => true,
    })
}

fn is_pax_sparse(entry: &mut Entry<'_, impl Read>) -> bool {
    let Ok(Some(mut extensions)) = entry.pax_extensions() else { return false };
    extensions
        .any(|extension| extension.is_ok_and(|extension| extension.key_bytes().starts_with(b"GNU.sparse.")))
}

enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// As io::copy, which does not say whose fault it was.
fn copy(from: &mut impl Read, to: &mut impl io::Write) -> Result<u64, CopyError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = 0;
    loop {
        let read = from.read(&mut buffer).map_err(CopyError::Read)?;
        if read == 0 {
            return Ok(bytes);
        }
        to.write_all(&buffer[..read]).map_err(CopyError::Write)?;
        bytes += read as u64;
    }
}

fn unreadable(error: &io::Error) -> Kind {
    bad(b"", format!("it is cut off, or no tar archive (plain, gzip or zstd): {error}"))
}

fn bad(member: &[u8], problem: impl Into<String>) -> Kind {
    let mut problem = problem.into();
    if !member.is_empty() {
        let shown = String::from_utf8_lossy(&member[..member.len().min(MAX_SHOWN_BYTES)]);
        let more = if member.len() > MAX_SHOWN_BYTES { "…" } else { "" };
        problem = format!("its member {shown:?}{more} is refused: {problem}");
    }
    // Whatever stands before a member may be a quarter of a mebibyte.
    let member = bytes::Bytes::copy_from_slice(&member[..member.len().min(MAX_TEXT_BYTES)]);
    Kind::ArchiveBad(v1::ArchiveBad { member, problem })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use tar::{Builder, Header};

    use super::super::tests::{Fixture, fixture};
    use super::*;

    fn header(kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o644);
        header
    }

    /// A member whose name and target the builder does not look at.
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
    fn an_archive_takes_its_place_with_modes_and_links() {
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
    fn what_leads_out_or_is_no_file_refuses_the_whole() {
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
    fn a_link_cannot_carry_a_later_member_out() {
        let fixture = fixture();
        fs::create_dir_all(fixture.dir.path().join("to")).unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), fixture.dir.path().join("to/link")).unwrap();
        let members = archive(&[(EntryType::Regular, "link/file", "", b"x")]);
        assert!(unpack(&fixture, &members).is_err());
        assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
    }

    #[test]
    fn what_is_in_the_way_leaves_everything_as_it_was() {
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
    fn what_stands_before_a_member_is_bounded() {
        for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
            let fixture = fixture();
            let long = vec![b'n'; MAX_HEAD_BYTES as usize];
            let members =
                archive(&[(kind, "././@LongLink", "", &long), (EntryType::Regular, "file", "", b"1")]);
            let unpacked = unpack(&fixture, &members);
            assert!(matches!(unpacked, Err(Kind::ArchiveBad(_))), "{kind:?}: {unpacked:?}");
            assert!(is_untouched(&fixture));
        }
    }

    #[test]
    fn links_of_the_archive_do_not_hide_where_a_link_leads() {
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
    fn every_compression_is_found_out() {
        let plain = archive(&[(EntryType::Regular, "file", "", &[7; 5000])]);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut gzip, &plain).unwrap();
        for packed in [plain.clone(), gzip.finish().unwrap(), zstd::encode_all(&plain[..], 1).unwrap()] {
            let fixture = fixture();
            assert_eq!(unpack(&fixture, &packed).unwrap().bytes, 5000);
        }
        for nonsense in [&b""[..], b"no archive at all", &[0x1f, 0x8b, 1, 2], b"BZh91AY&SY"] {
            let fixture = fixture();
            assert!(matches!(unpack(&fixture, nonsense), Err(Kind::ArchiveBad(_))), "{nonsense:?}");
            assert!(is_untouched(&fixture));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn what_is_cut_off_anywhere_is_not_unpacked(at in 0.0..1.0_f64, kind in 0..3_u8) {
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
}
