//! Statements on the tables `daemon` and `orphans`.

use std::path::Path;
use std::sync::LazyLock;

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use super::Database;
use super::database::FILE;
use super::error::{bad_row, from_sqlite};
use crate::Error;
use crate::backend::{AuditHead, DaemonTable, Identity};
use crate::rows::daemon::{AuditHeadRow, IdentityRow, OrphanRow};
use crate::rows::{saturated, sql};
use sandboxd_model::{Orphan, limits};

static SELECT_IDENTITY: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM daemon", sql::list(IdentityRow::COLUMNS)));
static UPDATE_IDENTITY: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE daemon SET {}", sql::assignments(IdentityRow::COLUMNS)));

static SELECT_AUDIT_HEAD: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM daemon", sql::list(AuditHeadRow::COLUMNS)));
static UPDATE_AUDIT_HEAD: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE daemon SET {}", sql::assignments(AuditHeadRow::COLUMNS)));

static SELECT_ORPHANS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM orphans ORDER BY kind, name", sql::list(OrphanRow::COLUMNS)));
static INSERT_ORPHAN: LazyLock<String> = LazyLock::new(|| sql::insert("orphans", OrphanRow::COLUMNS));

/// Reads the last line of the audit record from the database in `state_dir`, also while a daemon uses it. `None` if there is
/// no database, or it is of a version that had no audit record.
pub async fn read_audit_head(state_dir: &Path) -> Result<Option<AuditHead>, Error> {
    let path = state_dir.join(FILE);
    if !path.exists() {
        return Ok(None);
    }
    let fail = |error| from_sqlite(&path, error);
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(false);
    let mut conn = options.busy_timeout(limits::STORE_BUSY).connect().await.map_err(fail)?;
    let known = "SELECT count(*) FROM pragma_table_info('daemon') WHERE name = 'audit_mac'";
    let is_known = sqlx::query_scalar::<_, i64>(known).fetch_one(&mut conn).await.map_err(fail)? > 0;
    let row = match is_known {
        true => Some(sqlx::query(SELECT_AUDIT_HEAD.as_str()).fetch_one(&mut conn).await.map_err(fail)?),
        false => None,
    };
    conn.close().await.map_err(fail)?;
    let head =
        |row| AuditHeadRow::read(row).and_then(AuditHeadRow::head).map_err(bad_row("daemon", "one", row));
    Ok(row.as_ref().map(head).transpose()?.flatten())
}

#[async_trait]
impl DaemonTable for Database {
    async fn is_loaded(&self) -> Result<bool, Error> {
        let select = sqlx::query_scalar("SELECT is_loaded FROM daemon");
        self.read(|conn| Box::pin(select.fetch_one(conn))).await
    }

    async fn age_ms(&self) -> Result<u64, Error> {
        let select = sqlx::query_scalar::<_, i64>("SELECT age_ms FROM daemon");
        let age = self.read(|conn| Box::pin(select.fetch_one(conn))).await?;
        Ok(age.try_into().unwrap_or_default())
    }

    async fn set_age_ms(&self, age: u64) -> Result<(), Error> {
        let update = self.write(&age, |conn, age| {
            Box::pin(sqlx::query("UPDATE daemon SET age_ms = $1").bind(saturated(*age)).execute(conn))
        });
        update.await.map(drop)
    }

    async fn identity(&self) -> Result<Identity, Error> {
        let select = sqlx::query(SELECT_IDENTITY.as_str());
        let row = self.read(|conn| Box::pin(select.fetch_one(conn))).await?;
        let identity = IdentityRow::read(&row).and_then(IdentityRow::identity);
        identity.map_err(bad_row("daemon", "one", &row))
    }

    async fn set_identity(&self, identity: &Identity) -> Result<(), Error> {
        let update = self.write_from_reserve(identity, |conn, identity| {
            let update = sqlx::query(UPDATE_IDENTITY.as_str());
            Box::pin(IdentityRow::from(identity).bind(update).execute(conn))
        });
        update.await.map(drop)
    }

    async fn snapshot_store(&self) -> Result<Option<String>, Error> {
        let select = sqlx::query_scalar("SELECT snapshot_store FROM daemon");
        self.read(|conn| Box::pin(select.fetch_one(conn))).await
    }

    async fn set_snapshot_store(&self, store: Option<&str>) -> Result<(), Error> {
        let store = store.map(str::to_owned);
        let update = self.write(&store, |conn, store| {
            Box::pin(sqlx::query("UPDATE daemon SET snapshot_store = $1").bind(store.clone()).execute(conn))
        });
        update.await.map(drop)
    }

    async fn audit_head(&self) -> Result<Option<AuditHead>, Error> {
        let select = sqlx::query(SELECT_AUDIT_HEAD.as_str());
        let row = self.read(|conn| Box::pin(select.fetch_one(conn))).await?;
        AuditHeadRow::read(&row).and_then(AuditHeadRow::head).map_err(bad_row("daemon", "one", &row))
    }

    async fn set_audit_head(&self, head: &AuditHead) -> Result<(), Error> {
        let update = self.write(head, |conn, head| {
            let update = sqlx::query(UPDATE_AUDIT_HEAD.as_str());
            Box::pin(AuditHeadRow::from(head).bind(update).execute(conn))
        });
        update.await.map(drop)
    }

    async fn orphans(&self) -> Result<Vec<Orphan>, Error> {
        let select = sqlx::query(SELECT_ORPHANS.as_str());
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        let read = |row| {
            let orphan = OrphanRow::read(row).and_then(OrphanRow::orphan);
            orphan.map_err(bad_row("orphans", "name", row))
        };
        rows.iter().map(read).collect()
    }

    async fn set_orphans(&self, orphans: &[Orphan]) -> Result<(), Error> {
        let replace = self.write(orphans, |conn, orphans| {
            Box::pin(async move {
                sqlx::query("DELETE FROM orphans").execute(&mut *conn).await?;
                for orphan in orphans {
                    let insert = OrphanRow::from(orphan).bind(sqlx::query(INSERT_ORPHAN.as_str()));
                    insert.execute(&mut *conn).await?;
                }
                Ok(())
            })
        });
        replace.await
    }
}
