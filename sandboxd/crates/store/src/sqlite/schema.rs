//! The schema and its versions.

use std::path::Path;
use std::sync::LazyLock;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{Row, SqlSafeStr, SqliteConnection};

use super::backup;
use super::error::{Fault, from_sqlite};
use crate::Error;

/// The files in `migrations`, in order: what each is called in the database, and its statements. Databases have a checksum
/// of each, so they never change.
const FILES: [(&str, &str); 27] = [
    ("sandboxes and commands", include_str!("../../migrations/0001_sandboxes_and_commands.sql")),
    ("links", include_str!("../../migrations/0002_links.sql")),
    ("network", include_str!("../../migrations/0003_network.sql")),
    ("request digest", include_str!("../../migrations/0004_request_digest.sql")),
    ("identity", include_str!("../../migrations/0005_identity.sql")),
    ("secret env", include_str!("../../migrations/0006_secret_env.sql")),
    ("mcp servers", include_str!("../../migrations/0007_mcp_servers.sql")),
    ("passive commands", include_str!("../../migrations/0008_passive_commands.sql")),
    ("snapshots", include_str!("../../migrations/0009_snapshots.sql")),
    ("restores", include_str!("../../migrations/0010_restores.sql")),
    ("checkpoints", include_str!("../../migrations/0011_checkpoints.sql")),
    ("snapshot store", include_str!("../../migrations/0012_snapshot_store.sql")),
    ("snapshots by time", include_str!("../../migrations/0013_snapshots_by_time.sql")),
    ("pending checkpoints", include_str!("../../migrations/0014_pending_checkpoints.sql")),
    ("tentative sandboxes", include_str!("../../migrations/0015_tentative_sandboxes.sql")),
    ("exceeded limits", include_str!("../../migrations/0016_exceeded_limits.sql")),
    ("refused writes", include_str!("../../migrations/0017_refused_writes.sql")),
    ("owners", include_str!("../../migrations/0018_owners.sql")),
    ("projects", include_str!("../../migrations/0019_projects.sql")),
    ("revoked subjects", include_str!("../../migrations/0020_revoked_subjects.sql")),
    ("audit head", include_str!("../../migrations/0021_audit_head.sql")),
    ("history", include_str!("../../migrations/0022_history.sql")),
    ("quotas", include_str!("../../migrations/0023_quotas.sql")),
    ("values", include_str!("../../migrations/0024_values.sql")),
    ("repositories", include_str!("../../migrations/0025_repositories.sql")),
    ("values of snapshots", include_str!("../../migrations/0026_values_of_snapshots.sql")),
    ("runs in history", include_str!("../../migrations/0027_runs_in_history.sql")),
];

/// Like [`FILES`], for the index of the chunks.
const CHUNK_FILES: [(&str, &str); 1] = [("chunks", include_str!("../../chunk_migrations/0001_chunks.sql"))];

/// The schema of a database.
pub(super) struct Schema {
    migrations: Migrator,
    /// Statements that look for damage in the tables that matter.
    checks: &'static [&'static str],
    /// Whether the database is copied before its schema changes.
    has_backups: bool,
}

/// The store's schema. Its check skips the history: it may be large, and nothing depends on it.
pub(super) static STORE: LazyLock<Schema> = LazyLock::new(|| Schema {
    migrations: migrations(&FILES),
    checks: &["PRAGMA quick_check(daemon)", "PRAGMA quick_check(sandboxes)"],
    has_backups: true,
});

/// The schema of the index of the chunks. Its check skips the chunks, because there may be millions.
pub(super) static CHUNKS: LazyLock<Schema> = LazyLock::new(|| Schema {
    migrations: migrations(&CHUNK_FILES),
    checks: &["PRAGMA quick_check(state)"],
    has_backups: false,
});

fn migrations(files: &'static [(&str, &str)]) -> Migrator {
    let migrations = (1..).zip(files).map(|(version, (name, statements))| {
        Migration::new(version, (*name).into(), MigrationType::Simple, statements.into_sql_str(), false)
    });
    Migrator::with_migrations(migrations.collect())
}

impl Schema {
    /// Checks the database and brings its schema up to date.
    pub(super) async fn prepare(&self, conn: &mut SqliteConnection, path: &Path) -> Result<(), Error> {
        let fail = |error| from_sqlite(path, error);
        let found = version(conn).await.map_err(fail)?;
        let known = self.migrations.iter().map(|migration| migration.version).max().unwrap_or_default();
        if found > known {
            return Err(Fault::Newer { path: path.to_owned(), found, known }.into());
        }
        // The mode is stored in the file. Readers and the writer do not wait for each other.
        sqlx::query("PRAGMA journal_mode = WAL").execute(&mut *conn).await.map_err(fail)?;
        if self.has_backups && (1..known).contains(&found) {
            backup::create(conn, path, found).await?;
        }
        self.migrate(conn, path).await?;
        self.check(conn, path).await
    }

    /// Foreign keys are not enforced meanwhile: a migration that replaces a table would delete the rows that refer to it.
    async fn migrate(&self, conn: &mut SqliteConnection, path: &Path) -> Result<(), Error> {
        let fail = |error| from_sqlite(path, error);
        sqlx::query("PRAGMA foreign_keys = OFF").execute(&mut *conn).await.map_err(fail)?;
        self.migrations.run_direct(None, conn, false).await.map_err(|error| from_migration(path, error))?;
        sqlx::query("PRAGMA foreign_keys = ON").execute(&mut *conn).await.map_err(fail).map(drop)
    }

    async fn check(&self, conn: &mut SqliteConnection, path: &Path) -> Result<(), Error> {
        for statement in self.checks {
            let row = sqlx::query(*statement).fetch_one(&mut *conn).await;
            let report: String =
                row.and_then(|row| row.try_get(0)).map_err(|error| from_sqlite(path, error))?;
            if report != "ok" {
                return Err(Fault::Faulty { path: path.to_owned(), fault: report }.into());
            }
        }
        Ok(())
    }
}

/// The version of the schema; 0 is an empty database.
async fn version(conn: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let exists = "SELECT count(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'";
    if sqlx::query_scalar::<_, i64>(exists).fetch_one(&mut *conn).await? == 0 {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations").fetch_one(conn).await
}

fn from_migration(path: &Path, error: MigrateError) -> Error {
    let fault = match error {
        MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) => {
            match Fault::from_sqlite(path, source) {
                Fault::Refused { path, source } => {
                    Fault::Schema { path, source: Box::new(MigrateError::Execute(source)) }
                }
                named => named,
            }
        }
        other => Fault::Schema { path: path.to_owned(), source: Box::new(other) },
    };
    fault.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_files(dir: &str, listed: &Migrator) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
        let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let listed = listed.iter().map(|migration| {
            let name = migration.description.replace(' ', "_");
            (format!("{:04}_{name}.sql", migration.version), migration.sql.as_str().to_owned())
        });
        let found = files.iter().map(|file| {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(file).unwrap())
        });
        assert_eq!(listed.collect::<Vec<_>>(), found.collect::<Vec<_>>());
    }

    #[test]
    fn every_file_of_migrations_is_listed_in_order() {
        check_files("migrations", &STORE.migrations);
        check_files("chunk_migrations", &CHUNKS.migrations);
    }
}
