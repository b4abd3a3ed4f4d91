//! The layers of a volume: a base, which is read-only, below the files of one disk.
//!
//! Both layers are mounted in a directory that only this process sees, and detached from it as soon as the overlay,
//! which holds them, is attached. So no other process ever sees a disk without its base. A killed process leaves
//! nothing, because its namespace ends with it.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen,
    mount, mount_change, move_mount, open_tree, unmount,
};

use crate::definition::{Definition, VolumeName};
use crate::device::Device;
use crate::fault::Fault;
use crate::idmap;
use crate::limits;
use crate::reserve::Released;
use crate::upper;

/// Attributes of every mount: device nodes and set-user-id bits of a sandbox have no effect.
const ATTRIBUTES: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOATIME);

/// The options with which the engine mounts a disk without a base (`sandboxd/crates/engine/src/settings.rs`).
const EXT4: [Setting; 3] =
    [Setting::Flag("discard"), Setting::Flag("noinit_itable"), Setting::Text("errors", "remount-ro")];

/// With `redirect_dir`, a directory of the base can be renamed. With `index`, hard links stay linked when they are
/// copied up. `xino` would give all files one device number, but inode numbers above 2^53, which JavaScript rounds: two
/// files would look like one.
const OVERLAY: [Setting; 3] =
    [Setting::Text("redirect_dir", "on"), Setting::Text("index", "on"), Setting::Text("xino", "off")];

#[derive(Clone, Copy)]
enum Setting<'a> {
    Flag(&'a str),
    Text(&'a str, &'a str),
    Path(&'a str, &'a Path),
}

/// The plugin's directories.
#[derive(Debug)]
pub(crate) struct Places {
    /// The directory of the disks' images, of the links to their devices, and of the bases.
    pub(crate) disks: PathBuf,
    /// The directory of the volumes, which the engine sees too.
    pub(crate) volumes: PathBuf,
    /// A directory that only this process sees.
    pub(crate) private: PathBuf,
}

/// Mounts and unmounts volumes.
#[derive(Debug)]
pub(crate) struct Layers {
    places: Places,
    /// The volumes that use each mounted base. All volumes over one base share its pages in memory.
    bases: Mutex<HashMap<String, HashSet<VolumeName>>>,
}

impl Layers {
    /// Prepares the private directory.
    pub(crate) fn new(places: Places) -> Result<Self, Fault> {
        let private = &places.private;
        fs::create_dir_all(private).map_err(Fault::io("create the private directory"))?;
        let options = c"mode=700,size=1m";
        mount("tmpfs", private, "tmpfs", MountFlags::NOSUID | MountFlags::NOEXEC, options)
            .and_then(|()| mount_change(private, MountPropagationFlags::PRIVATE))
            .map_err(Fault::io("mount the private directory"))?;
        for dir in ["nodes", "bases", "volumes"] {
            create_dir(&private.join(dir))?;
        }
        Ok(Self { places, bases: Mutex::default() })
    }

    /// Where the volume is mounted, if it is.
    pub(crate) fn mountpoint(&self, name: &VolumeName) -> Result<Option<PathBuf>, Fault> {
        let target = self.target(name);
        let found = statx(CWD, &target, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE);
        match found {
            Ok(found) if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) => Ok(Some(target)),
            Ok(_) | Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(Fault::io("look for the volume's mount")(error)),
        }
    }

    /// Mounts the volume. Idempotent. After an error, nothing of it is mounted.
    pub(crate) fn mount(&self, name: &VolumeName, definition: &Definition) -> Result<PathBuf, Fault> {
        if let Some(target) = self.mountpoint(name)? {
            return Ok(target);
        }
        let mounted = self.mount_layers(name, definition);
        if mounted.is_err() {
            // The first error is reported. The next unmount tries again.
            let _ = self.unmount(name);
        }
        mounted
    }

    fn mount_layers(&self, name: &VolumeName, definition: &Definition) -> Result<PathBuf, Fault> {
        let target = self.target(name);
        create_dir(&target)?;
        let dir = PrivateDir::create(self.places.private.join("volumes").join(name.as_str()))?;
        let disk = self.mount_disk(&dir.0.join("disk"), definition.disk())?;
        let lower = self.mount_base(&dir.0.join("base"), name, definition)?;
        let _released = Released::of(disk.path());
        let upper = upper::prepare(disk.path(), definition.base(), lower.path())?;
        let mut settings = vec![
            Setting::Path("lowerdir", lower.path()),
            Setting::Path("upperdir", &upper.files),
            Setting::Path("workdir", &upper.work),
        ];
        settings.extend(OVERLAY);
        let overlay = mount_of("overlay", "the volume", &settings, ATTRIBUTES)?;
        attach(overlay.as_fd(), &target)?;
        Ok(target)
    }

    fn mount_disk(&self, at: &Path, disk: &str) -> Result<Layer, Fault> {
        let device = Device::open(&self.places.disks, disk, &self.places.private.join("nodes"))?;
        let mut settings = vec![Setting::Path("source", device.path())];
        settings.extend(EXT4);
        let mount = mount_of("ext4", "the disk", &settings, ATTRIBUTES)?;
        Layer::attach(mount.as_fd(), at)
    }

    /// Mounts the base for one volume, with its user as the owner of all files.
    fn mount_base(&self, at: &Path, name: &VolumeName, definition: &Definition) -> Result<Layer, Fault> {
        let mut bases = self.bases.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = self.places.private.join("bases").join(definition.base());
        if !bases.contains_key(definition.base()) {
            self.mount_shared(&shared, definition.base())?;
        }
        let users = bases.entry(definition.base().to_owned()).or_default();
        users.insert(name.clone());
        let own = open_tree(CWD, &shared, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)
            .map_err(Fault::io("clone the base's mount"))?;
        idmap::map_root(own.as_fd(), definition.uid()).map_err(Fault::io("map the base's owner"))?;
        Layer::attach(own.as_fd(), at)
    }

    fn mount_shared(&self, at: &Path, base: &str) -> Result<(), Fault> {
        let image = self.places.disks.join(format!("{base}.erofs"));
        if !image.try_exists().map_err(Fault::io("look for the base"))? {
            return Err(Fault::NoBase(base.to_owned()));
        }
        let attributes = ATTRIBUTES | MountAttrFlags::MOUNT_ATTR_RDONLY;
        let settings = [Setting::Path("source", &image), Setting::Flag("ro")];
        // The daemon recognizes a damaged base by the text of this error (`sandboxd/crates/engine/src/error.rs`).
        let mount = mount_of("erofs", "the base", &settings, attributes)?;
        create_dir(at)?;
        attach(mount.as_fd(), at)
    }

    /// Unmounts the volume. Idempotent. A container that still uses it keeps it.
    pub(crate) fn unmount(&self, name: &VolumeName) -> Result<(), Fault> {
        let target = self.target(name);
        while self.mountpoint(name)?.is_some() {
            unmount(&target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
                .map_err(Fault::io("unmount the volume"))?;
        }
        match fs::remove_dir(&target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Fault::io("remove the volume's mount point")(error));
            }
            _ => {}
        }
        self.leave_bases(name)
    }

    /// Unmounts the bases that only this volume used.
    fn leave_bases(&self, name: &VolumeName) -> Result<(), Fault> {
        let mut bases = self.bases.lock().unwrap_or_else(PoisonError::into_inner);
        for users in bases.values_mut() {
            users.remove(name);
        }
        let unused: Vec<String> =
            bases.iter().filter(|(_, users)| users.is_empty()).map(|(base, _)| base.clone()).collect();
        for base in unused {
            let at = self.places.private.join("bases").join(&base);
            unmount(&at, UnmountFlags::DETACH).map_err(Fault::io("unmount the base"))?;
            bases.remove(&base);
            // A mount creates it again.
            let _ = fs::remove_dir(&at);
        }
        Ok(())
    }

    fn target(&self, name: &VolumeName) -> PathBuf {
        self.places.volumes.join(name.as_str())
    }
}

/// A directory for the layers of one volume while it is mounted. Dropping it removes it, after the layers.
struct PrivateDir(PathBuf);

impl PrivateDir {
    fn create(path: PathBuf) -> Result<Self, Fault> {
        create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        // If that fails, the next mount of the volume uses it again.
        let _ = fs::remove_dir(&self.0);
    }
}

/// A layer in the private directory. Dropping it detaches the mount from there.
struct Layer(PathBuf);

impl Layer {
    fn attach(mount: BorrowedFd<'_>, at: &Path) -> Result<Self, Fault> {
        create_dir(at)?;
        attach(mount, at)?;
        Ok(Self(at.to_owned()))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        // It cannot be in use by a process, because this program has no other and opens no file for longer.
        let _ = unmount(&self.0, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        let _ = fs::remove_dir(&self.0);
    }
}

/// Creates a mount that is not attached yet.
fn mount_of(
    kind: &str,
    what: &'static str,
    settings: &[Setting<'_>],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, Fault> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed(what))?;
    let configured = settings.iter().try_for_each(|setting| match *setting {
        Setting::Flag(key) => fsconfig_set_flag(&context, key),
        Setting::Text(key, value) => fsconfig_set_string(&context, key, value),
        Setting::Path(key, value) => fsconfig_set_string(&context, key, value),
    });
    configured
        .and_then(|()| fsconfig_create(&context))
        .and_then(|()| fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes))
        .map_err(|error| Fault::Mount {
            what,
            source: error.into(),
            explanation: explanation(context.as_fd()),
        })
}

fn failed(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Fault {
    move |error| Fault::Mount { what, source: error.into(), explanation: String::new() }
}

/// The kernel's messages about a failed mount, each with a separator before it.
fn explanation(context: BorrowedFd<'_>) -> String {
    let mut text = String::new();
    let mut message = [0; limits::EXPLANATION_BYTES];
    while let Ok(length @ 1..) = rustix::io::read(context, &mut message)
        && text.len() + length < limits::EXPLANATION_BYTES
    {
        text.push_str(", ");
        text.push_str(String::from_utf8_lossy(&message[..length]).trim());
    }
    text
}

fn attach(mount: BorrowedFd<'_>, at: &Path) -> Result<(), Fault> {
    move_mount(mount, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(Fault::io("attach a mount"))
}

/// Creates a directory for root. Idempotent.
fn create_dir(at: &Path) -> Result<(), Fault> {
    match DirBuilder::new().mode(0o700).create(at) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Fault::io("create a mount point")(error))
        }
        _ => Ok(()),
    }
}
