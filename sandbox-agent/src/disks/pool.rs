//! The disks of one daemon: images in one directory, their notes, and which of them are in use.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ext4::{self, SKELETON, Superblock};
use super::fault::Fault;
use super::loop_device::{FileId, LoopDevice, Nodes};

/// Suffixes of the files: a file system, the link to its device, its note, and each of them while it is being created.
pub(super) const IMAGE: &str = "img";
const LINK: &str = "dev";
pub(super) const NOTE: &str = "note";
pub(super) const PARTIAL: &str = "new";

/// A memory-backed directory of the container in which device nodes work.
const RUN_DIR: &str = "/run";

const MIB: u64 = 1024 * 1024;

/// How much of the machine's disk a disk takes, whether a device is attached to it, and whether it was ever mounted.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) name: String,
    pub(crate) allocated_bytes: u64,
    pub(crate) attached: bool,
    pub(crate) used: bool,
}

/// An attached disk. Its device stays attached while this exists.
#[derive(Debug)]
pub(super) struct Held {
    device: LoopDevice,
    times: usize,
}

/// The state of one name. Its lock is held while an operation on the disk runs.
pub(super) type Slot = Arc<Mutex<Option<Held>>>;

/// The disks in a directory.
#[derive(Debug)]
pub(crate) struct Pool {
    dir: PathBuf,
    nodes: Nodes,
    slots: Mutex<HashMap<String, Slot>>,
}

impl Pool {
    /// Opens the directory and removes the leftovers of an interrupted process: unfinished files, links, and notes of disks
    /// that were removed. A leftover link may point to a device that now belongs to another disk.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            let is_leftover = match path.extension().and_then(|end| end.to_str()) {
                Some(PARTIAL | LINK) => true,
                Some(NOTE) => !path.with_extension(IMAGE).exists(),
                _ => false,
            };
            if is_leftover {
                fs::remove_file(path)?;
            }
        }
        Ok(Self { dir: dir.to_owned(), nodes: Nodes::new(Path::new(RUN_DIR)), slots: Mutex::default() })
    }

    /// Creates a disk and returns its UUID. The image gets its final name when it is complete.
    pub(crate) fn make(&self, name: &str, mib: u32) -> Result<String, Fault> {
        let slot = self.slot(name);
        let _held = lock(&slot);
        let (image, partial) = (self.path(name, IMAGE), self.path(name, PARTIAL));
        if image.exists() {
            return Err(Fault::Busy);
        }
        let made = self.fill(&partial, mib).and_then(|uuid| {
            fs::rename(&partial, &image).map_err(Fault::io("rename image"))?;
            Ok(uuid)
        });
        if made.is_err() {
            let _ = fs::remove_file(&partial);
        }
        made
    }

    fn fill(&self, partial: &Path, mib: u32) -> Result<String, Fault> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(partial).map_err(Fault::io("create image"))?;
        file.set_len(u64::from(mib) * MIB).map_err(Fault::io("size image"))?;
        let skeleton = skeleton().map_err(Fault::io("make skeleton"))?;
        ext4::make(partial, mib, &skeleton)?;
        Ok(Superblock::read(&file)?.uuid)
    }

    /// Attaches a device to the disk and creates a link to it. The device belongs to this disk until
    /// [`Pool::release`]. A disk that was never mounted gets `owner` as its owner.
    pub(crate) fn attach(&self, name: &str, uuid: &str, owner: u16) -> Result<(), Fault> {
        let slot = self.slot(name);
        let mut held = lock(&slot);
        let image = self.path(name, IMAGE);
        let file = open_image(&image)?;
        let superblock = Superblock::read(&file)?;
        if superblock.uuid != uuid {
            return Err(Fault::Mismatch { found: superblock.uuid });
        }
        if let Some(held) = held.as_mut() {
            held.times += 1;
            return Ok(());
        }
        let device = match self.nodes.find(&file).map_err(Fault::io("look for device"))? {
            Some(device) => device,
            None => {
                if superblock.has_errors {
                    ext4::check(&image)?;
                }
                if !superblock.was_mounted {
                    ext4::set_owner(&image, owner)?;
                }
                self.nodes.attach(&file, name).map_err(|source| Fault::NoDevice { source })?
            }
        };
        self.link(name, &device).map_err(Fault::io("link device"))?;
        *held = Some(Held { device, times: 1 });
        Ok(())
    }

    /// Replaces the link atomically, so that a mount never finds an old link.
    fn link(&self, name: &str, device: &LoopDevice) -> io::Result<()> {
        let partial = self.dir.join(format!("{name}.{LINK}.{PARTIAL}"));
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(device.host_path(), &partial)?;
        fs::rename(partial, self.path(name, LINK))
    }

    /// Ends one [`Pool::attach`]. Success means that the link pointed to the disk's own device the whole time, so the
    /// engine mounted the right device.
    pub(crate) fn release(&self, name: &str) -> Result<(), Fault> {
        let slot = self.slot(name);
        let mut held = lock(&slot);
        let times = match held.as_mut() {
            None => return Err(Fault::Absent),
            Some(held) => {
                held.times -= 1;
                held.times
            }
        };
        let link = self.path(name, LINK);
        let leads_to = fs::read_link(&link).map_err(Fault::io("read link"));
        let right = held.as_ref().map(|held| held.device.host_path());
        if times == 0 {
            remove_if_there(&link).map_err(Fault::io("remove link"))?;
            *held = None;
        }
        match leads_to? {
            path if Some(&path) == right.as_ref() => Ok(()),
            other => Err(Fault::Mismatch { found: other.display().to_string() }),
        }
    }

    /// Deletes the disk. Idempotent: succeeds if there is no such disk.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Fault> {
        let slot = self.slot(name);
        let held = lock(&slot);
        let image = self.path(name, IMAGE);
        let file = match open_image(&image) {
            // An earlier process may have been interrupted here.
            Err(Fault::Absent) => return self.remove_note(name),
            other => other?,
        };
        if held.is_some() || self.nodes.find(&file).map_err(Fault::io("look for device"))?.is_some() {
            return Err(Fault::Busy);
        }
        remove_if_there(&self.path(name, LINK)).map_err(Fault::io("remove link"))?;
        remove_if_there(&image).map_err(Fault::io("remove image"))?;
        // Last, because a disk must not lose its note as long as it exists.
        self.remove_note(name)?;
        lock(&self.slots).remove(name);
        Ok(())
    }

    /// Lists all disks.
    pub(crate) fn list(&self) -> Result<Vec<Use>, Fault> {
        let mut uses = Vec::new();
        let devices = self.nodes.attached().map_err(Fault::io("look for devices"))?;
        let devices: HashSet<FileId> = devices.into_iter().map(|(id, _)| id).collect();
        for entry in fs::read_dir(&self.dir).map_err(Fault::io("list"))? {
            let path = entry.map_err(Fault::io("list"))?.path();
            if path.extension().is_none_or(|end| end != IMAGE) {
                continue;
            }
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
            // A disk that was removed meanwhile is skipped.
            let Ok(file) = open_image(&path) else { continue };
            let meta = file.metadata().map_err(Fault::io("list"))?;
            let attached = devices.contains(&FileId::of(&file).map_err(Fault::io("list"))?);
            // A disk that cannot be read may hold a user's files.
            let used = attached || !Superblock::read(&file).is_ok_and(|superblock| !superblock.was_mounted);
            uses.push(Use { name: name.to_owned(), allocated_bytes: meta.blocks() * 512, attached, used });
        }
        Ok(uses)
    }

    /// Returns the free and total bytes of the file system that holds the images.
    pub(crate) fn space(&self) -> Result<(u64, u64), Fault> {
        let space =
            rustix::fs::statvfs(&self.dir).map_err(|errno| Fault::io("ask for space")(errno.into()))?;
        Ok((space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize))
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn slot(&self, name: &str) -> Slot {
        Arc::clone(lock(&self.slots).entry(name.to_owned()).or_default())
    }

    pub(super) fn path(&self, name: &str, end: &str) -> PathBuf {
        self.dir.join(format!("{name}.{end}"))
    }
}

fn open_image(path: &Path) -> Result<File, Fault> {
    let open = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path);
    open.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Fault::Absent,
        _ => Fault::io("open image")(error),
    })
}

/// Creates the directories that mke2fs copies to every new disk.
fn skeleton() -> io::Result<PathBuf> {
    let root = Path::new(RUN_DIR).join("skeleton");
    DirBuilder::new().recursive(true).create(&root)?;
    for (path, mode) in SKELETON {
        match DirBuilder::new().mode(mode).create(root.join(path)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(root)
}

pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A panic while the lock was held leaves no inconsistent state.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
