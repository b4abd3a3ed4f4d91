//! Conditions in which a store fails: locks, files that cannot be written, a full disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tempfile::TempDir;

/// A connection of another program to the database.
pub(crate) async fn connect(state_dir: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(state_dir.join("sandboxd.db")).connect().await.unwrap()
}

pub(crate) async fn execute(conn: &mut SqliteConnection, statement: &'static str) {
    sqlx::raw_sql(statement).execute(conn).await.unwrap();
}

/// Files that no user can write, not even root, until this is dropped.
pub(crate) struct Immutable(Vec<PathBuf>);

impl Immutable {
    pub(crate) fn new(dir: &Path, names: &[&str]) -> Self {
        let paths: Vec<_> = names.iter().map(|name| dir.join(name)).collect();
        paths.iter().for_each(|path| run("chattr", &["+i"], path));
        Self(paths)
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| run("chattr", &["-i"], path));
    }
}

/// A small disk: a mounted tmpfs. Needs root.
pub(crate) struct SmallDisk {
    dir: TempDir,
}

impl SmallDisk {
    pub(crate) fn new(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        run("mount", &["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "none"], dir.path());
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Fills the disk, and returns the file that does.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut zeroes = std::fs::File::open("/dev/zero").unwrap();
        let mut file = std::fs::File::create(&path).unwrap();
        std::io::copy(&mut zeroes, &mut file).unwrap_err();
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["--lazy"], self.dir.path());
    }
}

fn run(program: &str, args: &[&str], path: &Path) {
    let status = Command::new(program).args(args).arg(path).status().unwrap();
    assert!(status.success(), "{program} {args:?} {}", path.display());
}
