//! The disks of one daemon: images in one directory, and who has which.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::ext4::{self, SKELETON, Superblock};
use super::loop_device::{FileId, LoopDevice, Nodes};
use super::{Fault, lock};

/// Endings of the files: a file system, the link to its device, and one or the other while it is made.
const IMAGE: &str = "img";
const LINK: &str = "dev";
const PARTIAL: &str = "new";

/// A memory-backed place of the container's own, where device nodes work.
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

/// A disk that was asked for: its device stays attached for as long as this lives.
#[derive(Debug)]
struct Held {
    device: LoopDevice,
    times: usize,
}

/// One name's place. Its lock is held while something is done to the disk.
type Place = Arc<Mutex<Option<Held>>>;

/// The disks in a directory.
#[derive(Debug)]
pub(crate) struct Pool {
    dir: PathBuf,
    nodes: Nodes,
    places: Mutex<HashMap<String, Place>>,
}

impl Pool {
    /// Opens the directory, and sweeps what one before us was cut off from: images that are not finished,
    /// and links, which may lead to a device that is another disk's by now.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == PARTIAL || end == LINK) {
                fs::remove_file(path)?;
            }
        }
        Ok(Self { dir: dir.to_owned(), nodes: Nodes::new(Path::new(RUN_DIR)), places: Mutex::default() })
    }

    /// Makes a disk; its UUID. The image has its name only when it is complete.
    pub(crate) fn make(&self, name: &str, mib: u32) -> Result<String, Fault> {
        let place = self.place(name);
        let _held = lock(&place);
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

    /// Attaches a device to the disk and leaves a link to it; until [`Pool::release`] it is this disk's. A
    /// disk that was never mounted is given to `owner`.
    pub(crate) fn attach(&self, name: &str, uuid: &str, owner: u16) -> Result<(), Fault> {
        let place = self.place(name);
        let mut held = lock(&place);
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
                    ext4::give(&image, owner)?;
                }
                self.nodes.attach(&file, name).map_err(|source| Fault::NoDevice { source })?
            }
        };
        self.link(name, &device).map_err(Fault::io("link device"))?;
        *held = Some(Held { device, times: 1 });
        Ok(())
    }

    /// Replaced in one step, so that a mount never finds a link of before.
    fn link(&self, name: &str, device: &LoopDevice) -> io::Result<()> {
        let partial = self.dir.join(format!("{name}.{LINK}.{PARTIAL}"));
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(device.host_path(), &partial)?;
        fs::rename(partial, self.path(name, LINK))
    }

    /// Ends one [`Pool::attach`]. Success means that from then until now the link led to the disk's own
    /// device, so whatever mounted it has the right one.
    pub(crate) fn release(&self, name: &str) -> Result<(), Fault> {
        let place = self.place(name);
        let mut held = lock(&place);
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

    /// Deletes the disk; done as well where there is none.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Fault> {
        let place = self.place(name);
        let held = lock(&place);
        let image = self.path(name, IMAGE);
        let file = match open_image(&image) {
            Err(Fault::Absent) => return Ok(()),
            other => other?,
        };
        if held.is_some() || self.nodes.find(&file).map_err(Fault::io("look for device"))?.is_some() {
            return Err(Fault::Busy);
        }
        remove_if_there(&self.path(name, LINK)).map_err(Fault::io("remove link"))?;
        remove_if_there(&image).map_err(Fault::io("remove image"))?;
        lock(&self.places).remove(name);
        Ok(())
    }

    /// All disks.
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
            // One that was removed meanwhile is none.
            let Ok(file) = open_image(&path) else { continue };
            let meta = file.metadata().map_err(Fault::io("list"))?;
            let attached = devices.contains(&FileId::of(&file).map_err(Fault::io("list"))?);
            // One that cannot be read may have somebody's files.
            let used = attached || !Superblock::read(&file).is_ok_and(|superblock| !superblock.was_mounted);
            uses.push(Use { name: name.to_owned(), allocated_bytes: meta.blocks() * 512, attached, used });
        }
        Ok(uses)
    }

    /// Free and total bytes of the file system that the images are in.
    pub(crate) fn space(&self) -> Result<(u64, u64), Fault> {
        let space =
            rustix::fs::statvfs(&self.dir).map_err(|errno| Fault::io("ask for space")(errno.into()))?;
        Ok((space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize))
    }

    fn place(&self, name: &str) -> Place {
        Arc::clone(lock(&self.places).entry(name.to_owned()).or_default())
    }

    fn path(&self, name: &str, end: &str) -> PathBuf {
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

/// The directories every new disk begins with, for mke2fs to copy.
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

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
