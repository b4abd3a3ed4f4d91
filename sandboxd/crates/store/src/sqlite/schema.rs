//! The schema and its versions.

use std::path::Path;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{Row, SqliteConnection};

use super::error::from_sqlite;
use crate::Error;

static MIGRATIONS: Migrator = sqlx::migrate!();

/// Checks the database and brings its schema up to date.
pub(super) async fn prepare(conn: &mut SqliteConnection, path: &Path) -> Result<(), Error> {
    let fail = |error| from_sqlite(path, error);
    let found = version(conn).await.map_err(fail)?;
    let known = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default();
    if found > known {
        return Err(Error::Newer { path: path.to_owned(), found, known });
    }
    // The mode is stored in the file. Readers and the writer do not wait for each other.
    sqlx::query("PRAGMA journal_mode = WAL").execute(&mut *conn).await.map_err(fail)?;
    MIGRATIONS.run_direct(None, conn, false).await.map_err(|error| from_migration(path, error))?;
    check(conn, path).await
}

/// The version of the schema; 0 is an empty database.
async fn version(conn: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let exists = "SELECT count(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'";
    if sqlx::query_scalar::<_, i64>(exists).fetch_one(&mut *conn).await? == 0 {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations").fetch_one(conn).await
}

/// Looks for damage in the tables that matter. Skips the history: it may be large, and nothing depends on it.
async fn check(conn: &mut SqliteConnection, path: &Path) -> Result<(), Error> {
    for statement in ["PRAGMA quick_check(daemon)", "PRAGMA quick_check(sandboxes)"] {
        let row = sqlx::query(statement).fetch_one(&mut *conn).await;
        let report: String = row.and_then(|row| row.try_get(0)).map_err(|error| from_sqlite(path, error))?;
        if report != "ok" {
            return Err(Error::Faulty { path: path.to_owned(), fault: report });
        }
    }
    Ok(())
}

fn from_migration(path: &Path, error: MigrateError) -> Error {
    match error {
        MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) => {
            match from_sqlite(path, source) {
                Error::Refused { path, source } => {
                    Error::Schema { path, source: Box::new(MigrateError::Execute(source)) }
                }
                named => named,
            }
        }
        other => Error::Schema { path: path.to_owned(), source: Box::new(other) },
    }
}
