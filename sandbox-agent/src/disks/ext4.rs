//! ext4 in a file: its superblock, and the programs of e2fsprogs that create and repair it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::fault::Fault;

/// Position of the superblock, and how much of it is read (Documentation/filesystems/ext4/super.rst).
const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 256;
const MOUNT_TIME_AT: usize = 0x2c;
const MAGIC_AT: usize = 0x38;
const STATE_AT: usize = 0x3a;
const UUID_AT: usize = 0x68;
const MAGIC: u16 = 0xef53;
const STATE_HAS_ERRORS: u16 = 2;

/// Listed one by one, so that neither the image's mke2fs.conf nor a newer mke2fs selects a feature that the machine's
/// kernel cannot mount. With a journal, and without reserved space for growing.
const FEATURES: &str = "none,has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,\
                        large_file,huge_file,dir_nlink,extra_isize,metadata_csum";

/// Bytes per inode. A tree of modules has many small files. The inodes take three hundredths of the disk.
const BYTES_PER_INODE: &str = "8192";

/// Size of the journal in MiB. Small disks get the smallest that ext4 allows. Disks of at least [`LARGE_MIB`] get
/// enough that unpacking a tree does not wait for the journal.
const SMALL_JOURNAL: &str = "size=4";
const JOURNAL: &str = "size=16";
const LARGE_MIB: u32 = 512;

/// Exit codes of e2fsck for success: no errors, or errors corrected (e2fsck(8)).
const REPAIRED: [i32; 2] = [0, 1];

/// Part of debugfs's message for a missing path.
const NOT_FOUND: &str = "File not found by ext2_lookup";

/// Type of a directory in its mode (inode(7)).
const S_IFDIR: u32 = 0o040_000;

/// Initial contents of a sandbox's volume: paths, and the modes that mke2fs copies.
pub(crate) const SKELETON: [(&str, u32); 5] =
    [("workspace", 0o755), (".local", 0o755), (".local/tmp", 0o700), (".staging", 0o700), ("outputs", 0o755)];

/// The fields of a superblock that the helper uses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) uuid: String,
    pub(crate) has_errors: bool,
    pub(crate) was_mounted: bool,
}

impl Superblock {
    pub(crate) fn read(file: &File) -> Result<Self, Fault> {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        file.read_exact_at(&mut bytes, SUPERBLOCK_AT).map_err(Fault::io("read superblock"))?;
        Self::parse(&bytes).ok_or_else(|| Fault::Mismatch { found: "no ext4 file system".into() })
    }

    fn parse(bytes: &[u8; SUPERBLOCK_BYTES]) -> Option<Self> {
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        if short(MAGIC_AT) != MAGIC {
            return None;
        }
        Some(Self {
            uuid: format_uuid(&bytes[UUID_AT..UUID_AT + 16]),
            has_errors: short(STATE_AT) & STATE_HAS_ERRORS != 0,
            was_mounted: bytes[MOUNT_TIME_AT..MOUNT_TIME_AT + 4] != [0; 4],
        })
    }
}

/// Creates a file system that fills `image`, with the contents of `skeleton`.
pub(crate) fn make(image: &Path, mib: u32, skeleton: &Path) -> Result<(), Fault> {
    let journal = if mib < LARGE_MIB { SMALL_JOURNAL } else { JOURNAL };
    let mut mkfs = Command::new("mke2fs");
    mkfs.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-e", "remount-ro", "-U", "random"])
        // Holes read as zeros already, so the kernel has nothing to zero later.
        .args(["-E", "root_owner=0:0,discard,lazy_itable_init=1,lazy_journal_init=1"])
        .args(["-O", FEATURES, "-i", BYTES_PER_INODE, "-J", journal])
        .arg("-d")
        .arg(skeleton)
        .arg(image);
    run("mke2fs", mkfs, "", &[0])?;
    // No sandbox may enter it, and every search through the volume would report an error. e2fsck recreates it if
    // needed.
    debugfs(image, "rmdir lost+found\n")
}

/// Repairs what can be repaired without questions.
pub(crate) fn check(image: &Path) -> Result<(), Fault> {
    let mut fsck = Command::new("e2fsck");
    fsck.arg("-p").arg(image);
    run("e2fsck", fsck, "", &REPAIRED).map(drop)
}

/// Makes `owner` the owner of the skeleton. The file system must never have been mounted. Then there is no journal to
/// replay, and no files of a sandbox.
pub(crate) fn set_owner(image: &Path, owner: u16) -> Result<(), Fault> {
    match write_owner(image, owner) {
        Err(Fault::Program { stderr, .. }) if stderr.contains(NOT_FOUND) => {
            add_missing(image)?;
            write_owner(image, owner)
        }
        written => written,
    }
}

/// Creates the directories that an earlier version did not. One that exists must not be created again, because debugfs
/// would damage the file system.
fn add_missing(image: &Path) -> Result<(), Fault> {
    for (path, mode) in SKELETON {
        let mut look = Command::new("debugfs");
        look.arg("-R").arg(format!("stat /{path}")).arg(image);
        if run("debugfs", look, "", &[0])?.contains(NOT_FOUND) {
            debugfs(image, &format!("mkdir {path}\nset_inode_field /{path} mode 0{:o}\n", S_IFDIR | mode))?;
        }
    }
    Ok(())
}

fn write_owner(image: &Path, owner: u16) -> Result<(), Fault> {
    let commands: String = SKELETON
        .iter()
        .flat_map(|(path, _)| {
            ["uid", "gid"].map(|field| format!("set_inode_field /{path} {field} {owner}\n"))
        })
        .collect();
    debugfs(image, &commands)
}

/// Passes commands to debugfs(8). The file system must not be mounted.
fn debugfs(image: &Path, commands: &str) -> Result<(), Fault> {
    let mut debugfs = Command::new("debugfs");
    debugfs.args(["-w", "-f", "-"]).arg(image);
    // debugfs always exits with success, so only its output shows errors. The first line is its version.
    let stderr = run("debugfs", debugfs, commands, &[0])?;
    match stderr.lines().find(|line| !line.starts_with("debugfs 1.")) {
        None => Ok(()),
        Some(stderr) => Err(Fault::Program { program: "debugfs", stderr: stderr.to_owned() }),
    }
}

/// Runs a program, and returns its standard error. `success` lists its exit codes for success.
fn run(program: &'static str, mut command: Command, input: &str, success: &[i32]) -> Result<String, Fault> {
    command.env("LC_ALL", "C").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = run_with_input(command, input).map_err(Fault::io(program))?;
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.code().is_some_and(|code| success.contains(&code)) {
        return Ok(stderr);
    }
    Err(Fault::Program { program, stderr: format!("{stderr} ({})", output.status) })
}

fn run_with_input(mut command: Command, input: &str) -> io::Result<Output> {
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    child.wait_with_output()
}

fn format_uuid(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&index) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_is_recognized() {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        assert_eq!(Superblock::parse(&bytes), None);
        bytes[MAGIC_AT..MAGIC_AT + 2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[STATE_AT] = 3;
        for (index, byte) in (0..16).zip(0x10..) {
            bytes[UUID_AT + index] = byte;
        }
        let expected = Superblock {
            uuid: "10111213-1415-1617-1819-1a1b1c1d1e1f".into(),
            has_errors: true,
            was_mounted: false,
        };
        assert_eq!(Superblock::parse(&bytes), Some(expected));
    }

    #[test]
    fn a_disk_of_an_earlier_version_gets_its_missing_directories() {
        let dir = tempfile::tempdir().unwrap();
        let (image, skeleton) = (dir.path().join("disk.img"), dir.path().join("skeleton"));
        for (path, _) in SKELETON.into_iter().filter(|(path, _)| *path != "outputs") {
            std::fs::create_dir_all(skeleton.join(path)).unwrap();
        }
        File::create(&image).unwrap().set_len(64 * 1024 * 1024).unwrap();
        make(&image, 64, &skeleton).unwrap();
        set_owner(&image, 4321).unwrap();
        for (path, mode) in [("outputs", "0755"), ("workspace", "0755")] {
            let stat =
                Command::new("debugfs").arg("-R").arg(format!("stat /{path}")).arg(&image).output().unwrap();
            let stat = String::from_utf8(stat.stdout).unwrap();
            assert!(stat.contains("Type: directory") && stat.contains(mode), "{path}: {stat}");
            assert!(stat.contains("User:  4321") && stat.contains("Group:  4321"), "{path}: {stat}");
        }
        // It changes nothing, and finds no errors.
        let check = Command::new("e2fsck").arg("-fn").arg(&image).output().unwrap();
        assert!(check.status.success(), "{check:?}");
    }
}
