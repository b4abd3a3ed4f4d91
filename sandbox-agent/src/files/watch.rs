//! Reports changes beneath a directory, with inotify(7).
//!
//! A directory is watched through the descriptor by which it was opened, so a watch cannot be led elsewhere. The
//! changes of one watch are reported in the order in which they happened. Files may be created in a new directory
//! before its watch exists. They are reported as created once it does. If changes cannot be reported (too many
//! directories, too many changes, a caller that does not read), an overflow is reported. The caller must then list the
//! directory again.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_protocol::fault::Kind;
use agent_protocol::v1::{self, Change};
use cap_std::fs::Dir;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use super::path::{FilePath, to_bytes};
use super::walk::Walk;
use super::workspace::Workspace;
use crate::limits::{MAX_WALK_NAMES, MAX_WATCH_EVENTS, MAX_WATCHED_DIRS};

/// Size of the buffer for one read. An event has at most 272 bytes.
const READ_BYTES: usize = 64 * 1024;

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Watcher {
    workspace: Arc<Workspace>,
    fd: AsyncFd<OwnedFd>,
    dirs: HashMap<i32, PathBuf>,
    recursive: bool,
    root: i32,
    /// If a single file is watched, its name in the watched directory.
    only: Option<PathBuf>,
    moved: Option<(u32, PathBuf)>,
    is_over: bool,
}

impl Workspace {
    /// Starts to watch `path`. Every change after the result is reported.
    pub(crate) fn watch(self: &Arc<Self>, path: &FilePath, recursive: bool) -> Result<(Watcher, bool), Kind> {
        let fail = |error: io::Error| path.lookup_fault(&error);
        let (dir, at, only) = match self.open_dir(path.as_path()) {
            Ok(dir) => (dir, path.relative.clone(), None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                let (parent, _) = path.split()?;
                let at = if parent == Path::new(".") { PathBuf::new() } else { parent.to_owned() };
                (self.open_dir(parent).map_err(fail)?, at, Some(path.relative.clone()))
            }
            Err(error) => return Err(fail(error)),
        };
        let recursive = recursive && only.is_none();
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(|errno| watch_error(errno, path))?;
        let mut watching = Watcher {
            workspace: Arc::clone(self),
            fd: register(fd).map_err(fail)?,
            dirs: HashMap::new(),
            recursive,
            root: 0,
            only,
            moved: None,
            is_over: false,
        };
        watching.root = watching.add(&dir, at.clone()).map_err(|errno| watch_error(errno, path))?;
        let is_complete = !recursive || watching.add_beneath(dir, at, &mut Vec::new());
        Ok((watching, is_complete))
    }
}

#[expect(unsafe_code, reason = "tokio requires the caller to keep a descriptor open while it is register")]
fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the returned value owns the descriptor and deregisters it before it closes it. Nothing else can take it
    // out or close it earlier.
    Ok(unsafe { AsyncFd::register(fd) }?)
}

/// Maps an error of adding a watch. The kernel limits the watches of all of a user's processes together.
fn watch_error(errno: Errno, path: &FilePath) -> Kind {
    match errno {
        Errno::MFILE | Errno::NFILE | Errno::NOSPC => {
            Kind::LimitReached(v1::LimitReached { limit: "inotify watches".into(), value: 0 })
        }
        _ => path.fault(&errno.into()),
    }
}

impl Watcher {
    /// Waits for changes and returns them, or `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Vec<v1::WatchEvent>> {
        while !self.is_over {
            let mut ready = self.fd.readable().await.ok()?;
            let (seen, is_all) = self.read_pending();
            if is_all {
                ready.clear_ready();
            }
            drop(ready);
            let mut events = Vec::new();
            self.read(seen, &mut events);
            if !events.is_empty() {
                return Some(events);
            }
        }
        None
    }

    fn read(&mut self, seen: Vec<Seen>, events: &mut Vec<v1::WatchEvent>) {
        for seen in seen {
            if events.len() >= MAX_WATCH_EVENTS {
                *events = vec![event(Change::Overflow, Path::new(""))];
            }
            self.report(seen, events);
        }
        self.report_moved_away(events);
    }

    /// Reads the pending events of the kernel. Returns whether there are no more.
    fn read_pending(&self) -> (Vec<Seen>, bool) {
        let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
        let mut reader = Reader::new(self.fd.get_ref(), &mut buffer);
        let mut seen = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => seen.push(Seen {
                    watch: event.wd(),
                    flags: event.events(),
                    cookie: event.cookie(),
                    name: event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).into()),
                }),
                Err(_) => return (seen, true),
            }
            // A process that makes changes faster than they are read must not keep this loop running.
            if reader.is_buffer_empty() && seen.len() >= MAX_WATCH_EVENTS {
                return (seen, false);
            }
        }
    }

    fn report(&mut self, seen: Seen, events: &mut Vec<v1::WatchEvent>) {
        if seen.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            events.push(event(Change::Overflow, Path::new("")));
            return;
        }
        if seen.flags.contains(ReadFlags::IGNORED) {
            self.dirs.remove(&seen.watch);
            if seen.watch == self.root {
                self.is_over = true;
                self.report_moved_away(events);
                events.push(event(Change::Gone, Path::new("")));
            }
            return;
        }
        if seen.flags.contains(ReadFlags::MOVE_SELF) && seen.watch == self.root {
            // It has another path now, which is unknown.
            self.is_over = true;
            self.report_moved_away(events);
            events.push(event(Change::Gone, Path::new("")));
            return;
        }
        let (Some(dir), Some(name)) = (self.dirs.get(&seen.watch), seen.name) else { return };
        let path = dir.join(name);
        if self.only.as_ref().is_some_and(|only| *only != path) {
            return;
        }
        let is_dir = seen.flags.contains(ReadFlags::ISDIR);
        if seen.flags.contains(ReadFlags::MOVED_TO) {
            let from = self.moved.take_if(|(cookie, _)| *cookie == seen.cookie).map(|(_, from)| from);
            self.report_moved_away(events);
            match from {
                Some(from) => {
                    let moved = v1::WatchEvent { from: to_bytes(&from), ..event(Change::Moved, &path) };
                    events.push(moved);
                    self.rename(&from, &path);
                }
                None => self.report_created(path, is_dir, events),
            }
            return;
        }
        self.report_moved_away(events);
        if seen.flags.contains(ReadFlags::MOVED_FROM) {
            self.moved = Some((seen.cookie, path));
        } else if seen.flags.contains(ReadFlags::CREATE) {
            self.report_created(path, is_dir, events);
        } else if seen.flags.contains(ReadFlags::DELETE) {
            events.push(event(Change::Deleted, &path));
        } else if seen.flags.intersects(ReadFlags::MODIFY | ReadFlags::ATTRIB | ReadFlags::CLOSE_WRITE) {
            let modified = event(Change::Modified, &path);
            // Repeated writes to a file become one event.
            if events.last() != Some(&modified) {
                events.push(modified);
            }
        }
    }

    /// Reports entries as gone that were moved to a directory that is not watched.
    fn report_moved_away(&mut self, events: &mut Vec<v1::WatchEvent>) {
        if let Some((_, from)) = self.moved.take() {
            events.push(event(Change::Deleted, &from));
            self.unwatch(&from);
        }
    }

    fn report_created(&mut self, path: PathBuf, is_dir: bool, events: &mut Vec<v1::WatchEvent>) {
        events.push(event(Change::Created, &path));
        if !is_dir || !self.recursive {
            return;
        }
        let Ok(dir) = self.workspace.open_dir(&path) else { return };
        let is_complete = self.add(&dir, path.clone()).is_ok() && self.add_beneath(dir, path, events);
        if !is_complete {
            events.push(event(Change::Overflow, Path::new("")));
        }
    }

    fn add(&mut self, dir: &Dir, path: PathBuf) -> Result<i32, Errno> {
        if self.dirs.len() >= MAX_WATCHED_DIRS {
            return Err(Errno::NOSPC);
        }
        let by_descriptor = format!("/proc/self/fd/{}", dir.as_raw_fd());
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::MOVE
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR
            | WatchFlags::EXCL_UNLINK;
        let watch = inotify::add_watch(self.fd.get_ref(), by_descriptor, flags)?;
        self.dirs.insert(watch, path);
        Ok(watch)
    }

    /// Watches all directories beneath, and reports their existing contents. Returns whether all were watched.
    fn add_beneath(&mut self, dir: Dir, path: PathBuf, events: &mut Vec<v1::WatchEvent>) -> bool {
        let report = !events.is_empty();
        let Ok(mut walk) = Walk::new(dir, path, MAX_WALK_NAMES, None) else { return false };
        while let Some(entry) = walk.next() {
            if report && events.len() < MAX_WATCH_EVENTS {
                events.push(event(Change::Created, &entry.path));
            }
            if entry.is_dir {
                let opened = super::dirs::open_no_follow(&entry.dir, Path::new(&entry.name));
                if opened.is_ok_and(|dir| self.add(&dir, entry.path.clone()).is_err()) {
                    return false;
                }
                walk.enter(&entry);
            }
        }
        !walk.is_cut() && events.len() < MAX_WATCH_EVENTS
    }

    /// Changes the path of a directory, and of everything beneath it.
    fn rename(&mut self, from: &Path, to: &Path) {
        for path in self.dirs.values_mut() {
            if let Ok(rest) = path.strip_prefix(from) {
                *path = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
            }
        }
    }

    /// Removes the watches of a directory that was moved away.
    fn unwatch(&mut self, gone: &Path) {
        let watches = self.dirs.iter().filter(|(_, path)| path.starts_with(gone)).map(|(watch, _)| *watch);
        for watch in watches.collect::<Vec<_>>() {
            self.dirs.remove(&watch);
            // The kernel may have removed the watch already.
            let _ = inotify::remove_watch(self.fd.get_ref(), watch);
        }
    }
}

struct Seen {
    watch: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Option<std::ffi::OsString>,
}

fn event(change: Change, path: &Path) -> v1::WatchEvent {
    v1::WatchEvent { change: change.into(), path: to_bytes(path), from: bytes::Bytes::new() }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::super::tests::{Fixture, fixture};
    use super::*;

    async fn collect(watching: &mut Watcher, until: (Change, &str)) -> Vec<(Change, String)> {
        let mut all = Vec::new();
        while !all.contains(&(until.0, until.1.to_owned())) {
            let events = timeout(Duration::from_secs(5), watching.next()).await;
            let events = events.unwrap_or_else(|_| panic!("no {until:?} after {all:?}")).expect("it is over");
            all.extend(
                events.iter().map(|event| (event.change(), String::from_utf8(event.path.to_vec()).unwrap())),
            );
        }
        all
    }

    fn watch(fixture: &Fixture, path: &str, recursive: bool) -> Watcher {
        let (watching, is_complete) = fixture.workspace.watch(&fixture.path(path), recursive).unwrap();
        assert!(is_complete);
        watching
    }

    #[tokio::test]
    async fn files_in_a_new_directory_are_reported() {
        let fixture = fixture();
        let mut watching = watch(&fixture, "", true);
        fs::create_dir_all(fixture.dir.path().join("a/b/c")).unwrap();
        fs::write(fixture.dir.path().join("a/b/c/file"), b"1").unwrap();
        collect(&mut watching, (Change::Created, "a/b/c/file")).await;
        fs::rename(fixture.dir.path().join("a"), fixture.dir.path().join("z")).unwrap();
        fs::remove_file(fixture.dir.path().join("z/b/c/file")).unwrap();
        let all = collect(&mut watching, (Change::Deleted, "z/b/c/file")).await;
        assert!(all.contains(&(Change::Moved, "z".into())), "{all:?}");
    }

    #[tokio::test]
    async fn a_single_file_can_be_watched() {
        let fixture = fixture();
        fs::write(fixture.dir.path().join("file"), b"1").unwrap();
        let mut watching = watch(&fixture, "file", false);
        fs::write(fixture.dir.path().join("other"), b"1").unwrap();
        fs::write(fixture.dir.path().join("file"), b"2").unwrap();
        let all = collect(&mut watching, (Change::Modified, "file")).await;
        assert!(all.iter().all(|(_, path)| path == "file"), "{all:?}");
    }

    #[tokio::test]
    async fn the_removal_of_the_watched_directory_is_reported() {
        let fixture = fixture();
        fs::create_dir(fixture.dir.path().join("dir")).unwrap();
        let mut watching = watch(&fixture, "dir", true);
        fs::remove_dir(fixture.dir.path().join("dir")).unwrap();
        collect(&mut watching, (Change::Gone, "")).await;
        assert!(watching.next().await.is_none());
    }
}
