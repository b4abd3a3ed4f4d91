//! Statements on the table `kept_values`.

use std::sync::LazyLock;

use async_trait::async_trait;
use sandbox_api::SandboxId;
use sandboxd_model::limits;
use sandboxd_model::value::{KeptValue, ValueInfo, ValueKey, ValueTotals};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::Database;
use super::error::bad_row;
use crate::Error;
use crate::backend::ValueTable;
use crate::rows::values::ValueRow;
use crate::rows::{BadColumn, number, sql, value};

static OF_SANDBOX: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM kept_values WHERE sandbox_id = $1", sql::list(ValueRow::COLUMNS))
});
static ONE: LazyLock<String> = LazyLock::new(|| format!("{} AND key = $2", *OF_SANDBOX));
static ALL: LazyLock<String> = LazyLock::new(|| format!("{} ORDER BY key", *OF_SANDBOX));
const INFOS: &str = "SELECT key, length(value) AS bytes, updated_at_ms FROM kept_values \
    WHERE sandbox_id = $1 AND key > $2 AND substr(key, 1, length($3)) = $3 ORDER BY key LIMIT $4";
/// The length of a text is in characters, and that of a blob in bytes.
const TOTALS: &str = "SELECT sandbox_id, count(*) AS number, \
    sum(length(CAST(key AS BLOB)) + length(value)) AS bytes FROM kept_values GROUP BY sandbox_id ORDER BY sandbox_id";
const TOTALS_OF: &str = "SELECT count(*) AS number, \
    coalesce(sum(length(CAST(key AS BLOB)) + length(value)), 0) AS bytes FROM kept_values WHERE sandbox_id = $1";
const DELETE_ALL: &str = "DELETE FROM kept_values WHERE sandbox_id = $1";
static PUT: LazyLock<String> = LazyLock::new(|| {
    let insert = sql::insert("kept_values", ValueRow::COLUMNS);
    format!("{insert} ON CONFLICT (sandbox_id, key) DO UPDATE SET {}", sql::replacements(ValueRow::COLUMNS))
});

#[async_trait]
impl ValueTable for Database {
    async fn value(&self, sandbox: &SandboxId, key: &ValueKey) -> Result<Option<KeptValue>, Error> {
        let select = sqlx::query(ONE.as_str()).bind(sandbox.to_string()).bind(key.to_string());
        let row = self.read(|conn| Box::pin(select.fetch_optional(conn))).await?;
        row.as_ref().map(read).transpose()
    }

    async fn value_infos(
        &self,
        sandbox: &SandboxId,
        prefix: &str,
        after: Option<&ValueKey>,
        limit: u32,
    ) -> Result<Vec<ValueInfo>, Error> {
        // No key is empty, so all of them are behind the empty one.
        let after = after.map_or("", ValueKey::as_str).to_owned();
        let select = sqlx::query(INFOS).bind(sandbox.to_string()).bind(after);
        let select = select.bind(prefix.to_owned()).bind(limit);
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(|row| info(row).map_err(bad_row("kept_values", "key", row))).collect()
    }

    async fn values(&self, sandbox: &SandboxId) -> Result<Vec<KeptValue>, Error> {
        let select = sqlx::query(ALL.as_str()).bind(sandbox.to_string());
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    async fn value_totals(&self) -> Result<Vec<(SandboxId, ValueTotals)>, Error> {
        let rows = self.read(|conn| Box::pin(sqlx::query(TOTALS).fetch_all(conn))).await?;
        let record = |row| Ok((sandbox_of(row)?, totals(row)?));
        rows.iter().map(|row| record(row).map_err(bad_row("kept_values", "sandbox_id", row))).collect()
    }

    async fn value_totals_of(&self, sandbox: &SandboxId) -> Result<ValueTotals, Error> {
        let select = sqlx::query(TOTALS_OF).bind(sandbox.to_string());
        let row = self.read(|conn| Box::pin(select.fetch_one(conn))).await?;
        // No column names the sandbox.
        totals(&row).map_err(bad_row("kept_values", "number", &row))
    }

    async fn put_value(&self, sandbox: &SandboxId, value: &KeptValue) -> Result<(), Error> {
        let input = (sandbox, value);
        let put = self.write(&input, |conn, (sandbox, value)| {
            Box::pin(ValueRow::new(sandbox, value).bind(sqlx::query(PUT.as_str())).execute(conn))
        });
        put.await.map(drop)
    }

    async fn replace_values(&self, sandbox: &SandboxId, values: &[KeptValue]) -> Result<(), Error> {
        let input = (sandbox, values);
        let replace = self.write_within(limits::REPLACE_VALUES, &input, |conn, (sandbox, values)| {
            Box::pin(replace(conn, sandbox, values))
        });
        replace.await
    }

    async fn delete_value(&self, sandbox: &SandboxId, key: &ValueKey) -> Result<(), Error> {
        let input = (sandbox, key);
        let delete = self.write_from_reserve(&input, |conn, (sandbox, key)| {
            let delete = sqlx::query("DELETE FROM kept_values WHERE sandbox_id = $1 AND key = $2");
            Box::pin(delete.bind(sandbox.as_str()).bind(key.as_str()).execute(conn))
        });
        delete.await.map(drop)
    }
}

/// Replaces all values of a sandbox. The caller has begun a transaction.
pub(super) async fn replace(
    conn: &mut SqliteConnection,
    sandbox: &SandboxId,
    values: &[KeptValue],
) -> Result<(), sqlx::Error> {
    sqlx::query(DELETE_ALL).bind(sandbox.as_str()).execute(&mut *conn).await?;
    for value in values {
        ValueRow::new(sandbox, value).bind(sqlx::query(PUT.as_str())).execute(&mut *conn).await?;
    }
    Ok(())
}

fn read(row: &SqliteRow) -> Result<KeptValue, Error> {
    let record = ValueRow::read(row).and_then(ValueRow::record);
    record.map_err(bad_row("kept_values", "key", row))
}

fn info(row: &SqliteRow) -> Result<ValueInfo, BadColumn> {
    Ok(ValueInfo {
        key: value::<_, String>(row, "key")?.parse().map_err(|_| BadColumn("key"))?,
        bytes: number("bytes", value(row, "bytes")?)?,
        updated_at_ms: value(row, "updated_at_ms")?,
    })
}

fn sandbox_of(row: &SqliteRow) -> Result<SandboxId, BadColumn> {
    value::<_, String>(row, "sandbox_id")?.parse().map_err(|_| BadColumn("sandbox_id"))
}

fn totals(row: &SqliteRow) -> Result<ValueTotals, BadColumn> {
    Ok(ValueTotals {
        values: number("number", value(row, "number")?)?,
        bytes: number("bytes", value(row, "bytes")?)?,
    })
}
