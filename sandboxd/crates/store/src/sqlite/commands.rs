//! Statements on the table `commands`.

use std::collections::HashMap;
use std::sync::LazyLock;

use async_trait::async_trait;
use sandbox_api::{CommandId, SandboxId};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::error::bad_row;
use super::{Database, history};
use crate::Error;
use crate::backend::{Change, CommandTable, EndedCommand, Written};
use crate::rows::commands::{EndRow, StartRow, record, written};
use crate::rows::{saturated, sql};
use sandboxd_model::{CommandRecord, Ended};

/// The columns of a whole row.
static COLUMNS: LazyLock<Vec<&str>> = LazyLock::new(|| [StartRow::COLUMNS, EndRow::COLUMNS].concat());

static SELECT: LazyLock<String> = LazyLock::new(|| format!("SELECT {} FROM commands", sql::list(&COLUMNS)));
static NEWEST: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE sandbox = $1 ORDER BY seq DESC LIMIT $2", *SELECT));
static ONE: LazyLock<String> = LazyLock::new(|| format!("{} WHERE sandbox = $1 AND id = $2", *SELECT));
static UNENDED: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE sandbox = $1 AND reason IS NULL ORDER BY seq", *SELECT));

const WRITTEN: &str = "SELECT id, started_at_ms, reason IS NOT NULL AS has_ended FROM commands \
     WHERE sandbox = $1 AND id IN (SELECT value FROM json_each($2))";

/// First finds the sandboxes with too many commands, which reads only the index.
const DELETE_SURPLUS: &str = "DELETE FROM commands WHERE seq IN (SELECT seq FROM (\
     SELECT seq, reason, row_number() OVER (PARTITION BY sandbox ORDER BY seq DESC) AS position FROM commands \
     WHERE sandbox IN (SELECT sandbox FROM commands GROUP BY sandbox HAVING count(*) > $1)) \
     WHERE position > $2 OR (position > $1 AND reason IS NOT NULL))";

/// Writes nothing for a sandbox that does not exist. A command with the same id stays as it is, unless it
/// started at another time: then a caller has reused the id.
static INSERT_START: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO commands ({columns}) SELECT {values} WHERE EXISTS (SELECT 1 FROM sandboxes WHERE id = $1) \
         ON CONFLICT (sandbox, id) DO UPDATE SET seq = (SELECT max(seq) + 1 FROM commands), {start}, {end} \
         WHERE started_at_ms <> excluded.started_at_ms",
        columns = sql::list(StartRow::COLUMNS),
        values = sql::placeholders(StartRow::COLUMNS),
        start = sql::replacements(StartRow::COLUMNS),
        end = sql::cleared(EndRow::COLUMNS),
    )
});

static UPDATE_END: LazyLock<String> = LazyLock::new(|| {
    let key = EndRow::COLUMNS.len() + 1;
    let end = sql::assignments(EndRow::COLUMNS);
    format!("UPDATE commands SET {end} WHERE sandbox = ${key} AND id = ${}", key + 1)
});

/// [`UPDATE_END`], for a command without an end.
static UPDATE_FIRST_END: LazyLock<String> = LazyLock::new(|| format!("{} AND reason IS NULL", *UPDATE_END));

/// [`INSERT_START`] and [`UPDATE_END`] in one, for a new command that has already ended.
static INSERT_WHOLE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO commands ({columns}) SELECT {values} WHERE EXISTS (SELECT 1 FROM sandboxes WHERE id = $1) \
         ON CONFLICT (sandbox, id) DO NOTHING",
        columns = sql::list(&COLUMNS),
        values = sql::placeholders(&COLUMNS),
    )
});

#[async_trait]
impl CommandTable for Database {
    async fn newest_commands(&self, sandbox: &SandboxId, limit: u32) -> Result<Vec<CommandRecord>, Error> {
        let select = sqlx::query(NEWEST.as_str()).bind(sandbox.to_string()).bind(limit);
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    async fn command(&self, sandbox: &SandboxId, id: &CommandId) -> Result<Option<CommandRecord>, Error> {
        let select = sqlx::query(ONE.as_str()).bind(sandbox.to_string()).bind(id.to_string());
        let row = self.read(|conn| Box::pin(select.fetch_optional(conn))).await?;
        row.as_ref().map(read).transpose()
    }

    async fn unended_commands(&self, sandbox: &SandboxId) -> Result<Vec<CommandRecord>, Error> {
        let select = sqlx::query(UNENDED.as_str()).bind(sandbox.to_string());
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    async fn written_commands(
        &self,
        sandbox: &SandboxId,
        ids: &[CommandId],
    ) -> Result<HashMap<CommandId, Written>, Error> {
        let ids: Vec<&str> = ids.iter().map(CommandId::as_str).collect();
        let ids = serde_json::Value::from(ids).to_string();
        let select = sqlx::query(WRITTEN).bind(sandbox.to_string()).bind(ids);
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(|row| written(row).map_err(bad_row("commands", "id", row))).collect()
    }

    async fn trim_commands(&self, before_age_ms: u64, kept: usize) -> Result<u64, Error> {
        let input = (saturated(before_age_ms), saturated(kept));
        let trim = self.write(&input, |conn, &(before, kept)| {
            Box::pin(async move {
                let old = sqlx::query("DELETE FROM commands WHERE ended_at_age_ms < $1").bind(before);
                let old = old.execute(&mut *conn).await?.rows_affected();
                let surplus = sqlx::query(DELETE_SURPLUS).bind(kept).bind(2 * kept);
                Ok(old + surplus.execute(conn).await?.rows_affected())
            })
        });
        trim.await
    }

    async fn ended_commands(
        &self,
        sandbox: &SandboxId,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<EndedCommand>, Error> {
        history::newest(self, sandbox, before, limit).await
    }

    async fn trim_ended(&self, kept: usize) -> Result<u64, Error> {
        history::trim(self, kept).await
    }

    async fn write_history(&self, changes: &[Change], age_ms: u64) -> Result<(), Error> {
        let write = self.write(changes, |conn, changes| {
            Box::pin(async move {
                for change in changes {
                    match change {
                        Change::Started(record) => write_started(record, age_ms, conn).await?,
                        Change::Ended(sandbox, id, ended) => {
                            write_ended(sandbox, id, ended, age_ms, conn).await?;
                        }
                        Change::InContext(record, entry) => {
                            history::insert(record, entry, age_ms, conn).await?;
                        }
                    }
                }
                Ok(())
            })
        });
        write.await
    }
}

/// Writes that a command has started, and its end if the record has one.
async fn write_started(
    record: &CommandRecord,
    age_ms: u64,
    conn: &mut SqliteConnection,
) -> Result<(), sqlx::Error> {
    let start = StartRow::from(record);
    let Some(ended) = &record.ended else {
        return start.bind(sqlx::query(INSERT_START.as_str())).execute(conn).await.map(drop);
    };
    let insert = start.bind(sqlx::query(INSERT_WHOLE.as_str()));
    let insert = EndRow::new(ended, age_ms).bind(insert);
    if insert.execute(&mut *conn).await?.rows_affected() > 0 {
        return history::copy(&record.sandbox, &record.id, conn).await;
    }
    // Rare: there is a command with this id, or the sandbox no longer exists.
    let insert = StartRow::from(record).bind(sqlx::query(INSERT_START.as_str()));
    insert.execute(&mut *conn).await?;
    write_ended(&record.sandbox, &record.id, ended, age_ms, conn).await
}

/// Writes how a command ended. Has no effect if its start is not stored.
async fn write_ended(
    sandbox: &SandboxId,
    id: &CommandId,
    ended: &Ended,
    age_ms: u64,
    conn: &mut SqliteConnection,
) -> Result<(), sqlx::Error> {
    let update = |statement| {
        let update = EndRow::new(ended, age_ms).bind(sqlx::query(statement));
        update.bind(sandbox.as_str()).bind(id.as_str())
    };
    if update(UPDATE_FIRST_END.as_str()).execute(&mut *conn).await?.rows_affected() > 0 {
        return history::copy(sandbox, id, conn).await;
    }
    update(UPDATE_END.as_str()).execute(conn).await.map(drop)
}

fn read(row: &SqliteRow) -> Result<CommandRecord, Error> {
    record(row).map_err(bad_row("commands", "id", row))
}
