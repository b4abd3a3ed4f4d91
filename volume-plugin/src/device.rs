//! The loop device of an attached disk.
//!
//! The disks' helper attaches a disk and creates a link to its device. A device's number identifies nothing, so the
//! device is opened first and then compared with the disk's image. While it is open, the kernel gives it to no other
//! file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::fault::Fault;

const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;

/// The beginning of `struct loop_info64` (linux/loop.h), and the bytes after it, which are not read.
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    _rest: [u64; 27],
}

/// A device that belongs to one disk while this exists. Dropping it removes the node.
#[derive(Debug)]
pub(crate) struct Device {
    node: PathBuf,
    _open: File,
}

impl Device {
    /// Opens the device of a disk. `nodes` is a directory in which device nodes work.
    pub(crate) fn open(disks: &Path, disk: &str, nodes: &Path) -> Result<Self, Fault> {
        let link = match fs::read_link(disks.join(format!("{disk}.dev"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Fault::NotAttached(disk.to_owned()));
            }
            other => other.map_err(Fault::io("read the link of the disk"))?,
        };
        let number = number(&link).ok_or_else(|| Fault::OtherDevice(disk.to_owned()))?;
        let node = nodes.join(disk);
        let open = open_device(number, &node).map_err(Fault::io("open the disk's device"))?;
        let device = Self { node, _open: open };
        let image = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(disks.join(format!("{disk}.img")))
            .and_then(|image| image.metadata())
            .map_err(Fault::io("open the disk's image"))?;
        let info = status(&device._open).map_err(Fault::io("ask for the device's file"))?;
        if (info.device, info.inode) != (image.dev(), image.ino()) {
            return Err(Fault::OtherDevice(disk.to_owned()));
        }
        Ok(device)
    }

    /// Its node.
    pub(crate) fn path(&self) -> &Path {
        &self.node
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.node);
    }
}

/// Reads the number from a path such as `/dev/loop7`.
fn number(link: &Path) -> Option<u32> {
    let digits = link.to_str()?.strip_prefix("/dev/loop")?;
    digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
}

fn open_device(number: u32, node: &Path) -> io::Result<File> {
    let text = fs::read_to_string(format!("/sys/block/loop{number}/dev"))?;
    let numbers = text.trim().split_once(':');
    let numbers = numbers.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let (major, minor) = numbers.ok_or(io::ErrorKind::InvalidData)?;
    match fs::remove_file(node) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    mknodat(CWD, node, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, makedev(major, minor))?;
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(node)
}

#[expect(unsafe_code, reason = "no crate wraps the ioctls of loop devices")]
fn status(device: &File) -> io::Result<Info> {
    let mut info = Info { device: 0, inode: 0, _rest: [0; 27] };
    // SAFETY: the descriptor is open for as long as the borrow lives. The kernel fills a `struct loop_info64`, whose
    // size `Info` has.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(info),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_kernels_size() {
        assert_eq!(size_of::<Info>(), 232);
    }

    #[test]
    fn only_a_loop_device_is_accepted() {
        assert_eq!(number(Path::new("/dev/loop12")), Some(12));
        for link in ["/dev/sda", "/dev/loop", "/dev/loop01", "/dev/loop1/x", "/dev/loop-control", "loop1"] {
            assert_eq!(number(Path::new(link)), None, "{link}");
        }
    }
}
