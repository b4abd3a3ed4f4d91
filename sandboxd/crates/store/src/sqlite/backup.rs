//! Copies of the database from before its schema changed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sqlx::SqliteConnection;
use tracing::info;

use super::error::{from_io, from_sqlite};
use crate::Error;

/// Copies the database at `path`, whose schema has this version, to a file beside it. Replaces the copy of an earlier try.
pub(super) async fn create(conn: &mut SqliteConnection, path: &Path, version: i64) -> Result<(), Error> {
    let target = path.with_extension(format!("schema-{version}.db"));
    let new = path.with_extension(format!("schema-{version}.new"));
    create_empty(&new).map_err(|error| from_io(&new, error))?;
    let copied = sqlx::query("VACUUM INTO $1").bind(new.to_string_lossy().into_owned()).execute(conn).await;
    if let Err(error) = copied {
        let _ = fs::remove_file(&new);
        return Err(from_sqlite(&new, error));
    }
    publish(&new, &target).map_err(|error| from_io(&target, error))?;
    info!(copy = %target.display(), "the database was copied before its schema changes");
    Ok(())
}

/// Creates an empty file that only this user can read, because the database has environments of sandboxes. Replaces what
/// an earlier try left.
fn create_empty(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

/// Renames the complete copy, so that no reader takes half a copy for a whole one.
fn publish(new: &Path, target: &Path) -> io::Result<()> {
    File::open(new)?.sync_all()?;
    fs::rename(new, target)?;
    File::open(parent(target))?.sync_all()
}

fn parent(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}
