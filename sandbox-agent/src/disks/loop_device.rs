//! Loop devices, by their ioctls (loop(4), linux/loop.h).
//!
//! A device set up here has `LO_FLAGS_AUTOCLEAR`: the kernel detaches its file when neither a process nor a mount has
//! it open any more. So no device is left behind after a crash.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// With direct I/O, the page cache holds a sandbox's data once, for the sandbox, and not a second time for the image
/// file. If the file's file system does not support it, the kernel works without it.
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// Major number of `misc` devices, and the minor number of the control device for loop devices.
const LOOP_CONTROL: (u32, u32) = (10, 237);

/// Block size of ext4. Direct I/O on the image file may require it.
const BLOCK_BYTES: u32 = 4096;

/// Number of attempts to get a free device. Another process may take a free device first.
const ATTEMPTS: usize = 64;

/// `struct loop_info64`
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

impl Info {
    const EMPTY: Self = Self {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
}

/// A device that stays attached to a file while this, or a mount, has it open.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    number: u32,
    _open: File,
}

impl LoopDevice {
    /// Returns its path on the machine.
    pub(crate) fn host_path(&self) -> PathBuf {
        format!("/dev/loop{}", self.number).into()
    }
}

/// Identifies a file to the kernel: the numbers of its device and its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileId(u64, u64);

impl FileId {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(Self(meta.dev(), meta.ino()))
    }
}

/// The directory for this container's device nodes, because it does not have the machine's /dev.
#[derive(Debug)]
pub(crate) struct Nodes {
    dir: PathBuf,
}

impl Nodes {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Finds the device that is attached to `file`, no matter which process attached it. Compares device and inode
    /// numbers, because a path could refer to another file by now.
    pub(crate) fn find(&self, file: &File) -> io::Result<Option<LoopDevice>> {
        let wanted = FileId::of(file)?;
        Ok(self.attached()?.into_iter().find(|(id, _)| *id == wanted).map(|(_, device)| device))
    }

    /// Lists every file that has a device. The open devices stay attached only while the result exists. Fails if the
    /// device of an image cannot be opened: a disk that is missing here counts as not attached, and would be removed, or
    /// attached once more.
    pub(crate) fn attached(&self) -> io::Result<Vec<(FileId, LoopDevice)>> {
        let mut attached = Vec::new();
        for number in bound_devices()? {
            match self.file_of(number) {
                Ok(found) => attached.push(found),
                Err(error) if is_detached(&error) || !has_image(number) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(attached)
    }

    fn file_of(&self, number: u32) -> io::Result<(FileId, LoopDevice)> {
        let open = self.open(number)?;
        let info = status(&open)?;
        Ok((FileId(info.device, info.inode), LoopDevice { number, _open: open }))
    }

    /// Attaches `file` to a free device. `label` is shown by losetup(8).
    pub(crate) fn attach(&self, file: &File, label: &str) -> io::Result<LoopDevice> {
        let control = self.node("loop-control", FileType::CharacterDevice, LOOP_CONTROL)?;
        let control = open_node(&control)?;
        for _ in 0..ATTEMPTS {
            let number = ioctl(&control, LOOP_CTL_GET_FREE, std::ptr::null_mut::<()>())?;
            let number = u32::try_from(number).map_err(io::Error::other)?;
            let open = self.open(number)?;
            match configure(&open, file, label) {
                Ok(()) => return Ok(LoopDevice { number, _open: open }),
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    fn open(&self, number: u32) -> io::Result<File> {
        let name = format!("loop{number}");
        let numbers = fs::read_to_string(format!("/sys/block/{name}/dev"))?;
        let device = numbers
            .trim()
            .split_once(':')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let device = device.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        open_node(&self.node(&name, FileType::BlockDevice, device)?)
    }

    fn node(&self, name: &str, kind: FileType, (major, minor): (u32, u32)) -> io::Result<PathBuf> {
        let path = self.dir.join(name);
        match mknodat(CWD, &path, kind, Mode::RUSR | Mode::WUSR, makedev(major, minor)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(path),
            Err(error) => Err(error.into()),
        }
    }
}

fn open_node(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Whether an error means that the device has no file any more.
fn is_detached(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENXIO)
}

/// Whether the file of a device may be a disk's. The kernel shows its path, and whether it was deleted.
fn has_image(number: u32) -> bool {
    let path = fs::read_to_string(format!("/sys/block/loop{number}/loop/backing_file")).unwrap_or_default();
    path.trim_end().trim_end_matches(" (deleted)").ends_with(".img")
}

/// Returns the numbers of all devices with a file. Every container's /sys shows the machine's devices.
fn bound_devices() -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/sys/block")? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("loop")?.parse().ok());
        if let Some(number) = number
            && entry.path().join("loop/backing_file").exists()
        {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

fn status(device: &File) -> io::Result<Info> {
    let mut info = Info::EMPTY;
    ioctl(device, LOOP_GET_STATUS64, &raw mut info)?;
    Ok(info)
}

fn configure(device: &File, file: &File, label: &str) -> io::Result<()> {
    let mut info = Info { flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO, ..Info::EMPTY };
    // The last byte stays NUL.
    let label = &label.as_bytes()[..label.len().min(info.file_name.len() - 1)];
    info.file_name[..label.len()].copy_from_slice(label);
    let fd = file.as_raw_fd().cast_unsigned();
    let mut config = Config { fd, block_size: BLOCK_BYTES, info, reserved: [0; 8] };
    ioctl(device, LOOP_CONFIGURE, &raw mut config).map(drop)
}

/// Makes a request of this file, with its structure.
#[expect(unsafe_code, reason = "no crate wraps the ioctls of loop devices")]
fn ioctl<T>(device: &File, request: libc::Ioctl, argument: *mut T) -> io::Result<libc::c_int> {
    let fd: RawFd = device.as_raw_fd();
    // SAFETY: the descriptor is open for as long as the borrow lives. Each caller passes the structure of
    // linux/loop.h that the request reads or fills, and it lives until the call returns. Requests without a structure
    // get null.
    match unsafe { libc::ioctl(fd, request, argument) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<Info>(), 232);
        assert_eq!(size_of::<Config>(), 304);
    }
}
