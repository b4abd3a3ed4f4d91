//! State dir: the instance's key, and the token that it generated.
//!
//! The directory is private (0700), and only one daemon uses it at a time. Files are written atomically, because a
//! half-written key would disown every sandbox.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rustix::fs::{FlockOperation, flock};
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use thiserror::Error;

use sandboxd_model::Instance;
use sandboxd_model::instance::KEY_BYTES;

const KEY_FILE: &str = "instance.key";
const TOKEN_FILE: &str = "token";
const LOCK_FILE: &str = "lock";

/// File with the machine's id, on most systems.
const MACHINE_ID: &str = "/etc/machine-id";

/// Length of the id of a directory in bytes.
const HOLDER_BYTES: usize = 16;

/// Random bytes of a generated token.
const TOKEN_BYTES: usize = 32;

/// Why the state dir is not usable.
#[derive(Debug, Error)]
pub enum Error {
    /// The system returned an error.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another daemon uses it. Two would interfere with each other's sandboxes.
    #[error("another sandboxd uses {}", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The key has a wrong length.
    #[error("{} is not an instance key; restore it or delete it, which disowns every sandbox", path.display())]
    BadKey {
        /// The file.
        path: PathBuf,
    },
    /// There is a database without a key. A new key would disown every sandbox.
    #[error("{} is missing, but there is a database; restore it from a backup, or move the database away to start as a new installation", path.display())]
    NoKey {
        /// The missing file.
        path: PathBuf,
    },
}

impl Error {
    /// What to do about it, if the operator can do something.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Some(
                    "make the state dir writable (`mount`, `ls -ld`, `lsattr`), or name another directory in SANDBOXD_STATE_DIR; sandboxes are unchanged",
                ),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Some("free space on the state dir's file system")
                }
                _ => None,
            },
            Self::InUse { .. } | Self::BadKey { .. } | Self::NoKey { .. } => None,
        }
    }
}

/// The directory, locked by this process.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    lock: File,
}

impl StateDir {
    /// Creates the directory if it is missing, and locks it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let fail = |source| Error::Io { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fail)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(path.join(LOCK_FILE)).map_err(fail)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| Error::InUse { path: path.to_owned() })?;
        Ok(Self { path: path.to_owned(), lock })
    }

    /// Returns the instance's identity. The first start creates it, but never beside an existing database.
    pub fn instance(&self) -> Result<Instance, Error> {
        let path = self.path.join(KEY_FILE);
        if !path.exists() && self.path.join(sandboxd_store::sqlite::FILE).exists() {
            return Err(Error::NoKey { path });
        }
        let key = read_or_create(&path, || random::<KEY_BYTES>().map(Vec::from))?;
        instance_of(key, path)
    }

    /// Id that distinguishes this directory from a copy, whose files have other inodes or are on another machine.
    pub fn holder(&self) -> Result<String, Error> {
        let path = self.path.join(LOCK_FILE);
        let found = self.lock.metadata().map_err(|source| Error::Io { path, source })?;
        let machine = fs::read_to_string(MACHINE_ID).unwrap_or_default();
        let text = format!("{} {} {}", machine.trim(), found.dev(), found.ino());
        let digest = Sha256::digest(text.as_bytes());
        Ok(digest[..HOLDER_BYTES].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns the admin token for a loopback bind. The first start generates it.
    pub fn token(&self) -> Result<SecretString, Error> {
        let path = self.path.join(TOKEN_FILE);
        read_or_create(&path, || {
            Ok(format!("{}\n", BASE64_URL_SAFE_NO_PAD.encode(random::<TOKEN_BYTES>()?)).into_bytes())
        })?;
        read_token(&self.path)
    }
}

/// Reads the identity of the instance with this state dir, also while its daemon runs.
pub fn read_instance(state_dir: &Path) -> Result<Instance, Error> {
    let path = state_dir.join(KEY_FILE);
    let key = fs::read(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
    instance_of(key, path)
}

fn instance_of(key: Vec<u8>, path: PathBuf) -> Result<Instance, Error> {
    let key = <[u8; KEY_BYTES]>::try_from(key).map_err(|_| Error::BadKey { path })?;
    Ok(Instance::new(key))
}

/// Reads the token that a daemon with this state dir generated.
pub fn read_token(state_dir: &Path) -> Result<SecretString, Error> {
    let path = state_dir.join(TOKEN_FILE);
    let text = fs::read_to_string(&path).map_err(|source| Error::Io { path, source })?;
    Ok(SecretString::from(text.trim().to_owned()))
}

fn read_or_create(path: &Path, create: impl FnOnce() -> io::Result<Vec<u8>>) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::Io { path: path.to_owned(), source };
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found.map_err(fail),
    }
    let content = create().map_err(fail)?;
    let new = path.with_extension("new");
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&content)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        // Otherwise a power failure could undo the rename.
        path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    };
    write().map_err(fail)?;
    Ok(content)
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn key_and_token_are_private_and_persistent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let (id, token) = {
            let state = StateDir::open(&path).unwrap();
            (state.instance().unwrap().id().to_owned(), state.token().unwrap())
        };
        assert_eq!(token.expose_secret().len(), 43);
        for (name, mode) in [("", 0o700), (KEY_FILE, 0o600), (TOKEN_FILE, 0o600)] {
            let found = fs::metadata(path.join(name)).unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode, "{name}");
        }
        let again = StateDir::open(&path).unwrap();
        assert_eq!(again.instance().unwrap().id(), id);
        assert_eq!(again.token().unwrap().expose_secret(), token.expose_secret());
    }

    #[test]
    fn only_one_daemon_uses_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let _first = StateDir::open(dir.path()).unwrap();
        assert!(matches!(StateDir::open(dir.path()), Err(Error::InUse { .. })));
    }

    #[test]
    fn a_damaged_key_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(KEY_FILE), b"short").unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        assert!(matches!(state.instance(), Err(Error::BadKey { .. })));
    }

    #[test]
    fn no_key_is_created_beside_a_database() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(sandboxd_store::sqlite::FILE), b"").unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        assert!(matches!(state.instance(), Err(Error::NoKey { .. })));
        assert!(!dir.path().join(KEY_FILE).exists());
    }

    #[test]
    fn a_copy_is_distinguished_from_its_original() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let holder = |dir: &Path| StateDir::open(dir).unwrap().holder().unwrap();
        assert_eq!(holder(one.path()), holder(one.path()));
        assert_ne!(holder(one.path()), holder(two.path()));
    }
}
