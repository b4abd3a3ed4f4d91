//! A copy of the database from before its tables change.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sqlx::SqlitePool;
use sqlx::migrate::Migrator;

use super::error::Error;

/// Copies a database of an earlier version to a file beside it, such as `chat.schema-1.db`. Replaces the copy of an
/// earlier try.
pub(super) async fn copy_older(pool: &SqlitePool, file: &Path, migrations: &Migrator) -> Result<(), Error> {
    let newest = migrations.iter().map(|migration| migration.version).max();
    let Some(version) = version(pool).await?.filter(|version| Some(*version) < newest) else {
        return Ok(());
    };
    let target = file.with_extension(format!("schema-{version}.db"));
    let new = file.with_extension(format!("schema-{version}.new"));
    let failed = |cause| Error::Copy { path: target.clone(), cause };
    create_private(&new).map_err(failed)?;
    let copy = sqlx::query("VACUUM INTO ?").bind(new.to_string_lossy().into_owned());
    if let Err(error) = copy.execute(pool).await {
        let _ = fs::remove_file(&new);
        return Err(error.into());
    }
    publish(&new, &target).map_err(failed)?;
    tracing::info!(copy = %target.display(), "the database of chats was copied before its tables change");
    Ok(())
}

/// Returns the version of the tables, or `None` in a new database.
pub(super) async fn version(pool: &SqlitePool) -> Result<Option<i64>, Error> {
    let has_versions = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = '_sqlx_migrations')";
    if !sqlx::query_scalar::<_, bool>(has_versions).fetch_one(pool).await? {
        return Ok(None);
    }
    Ok(sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations").fetch_one(pool).await?)
}

/// Creates an empty file for this user only, because chats are private. Replaces what an earlier try left.
fn create_private(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

/// Gives the copy its name once it is complete, so that half of one is never taken for a whole one.
fn publish(new: &Path, target: &Path) -> io::Result<()> {
    File::open(new)?.sync_all()?;
    fs::rename(new, target)?;
    File::open(target.parent().unwrap_or(Path::new(".")))?.sync_all()
}
