//! Statements on the tables `quotas` and `usage`.

use std::sync::LazyLock;

use async_trait::async_trait;
use sandboxd_model::{ProjectName, ProjectQuotas, UsageRecord};
use sqlx::sqlite::SqliteRow;

use super::Database;
use super::error::bad_row;
use crate::Error;
use crate::backend::QuotaTable;
use crate::rows::quotas::{QuotasRow, UsageRow};
use crate::rows::sql;

static QUOTAS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM quotas ORDER BY project", sql::list(QuotasRow::COLUMNS)));
static PUT_QUOTAS: LazyLock<String> = LazyLock::new(|| {
    let insert = sql::insert("quotas", QuotasRow::COLUMNS);
    format!("{insert} ON CONFLICT (project) DO UPDATE SET {}", sql::replacements(QuotasRow::COLUMNS))
});
static USAGE_SINCE: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM usage WHERE day >= $1 ORDER BY project, day", sql::list(UsageRow::COLUMNS))
});
static USAGE_OF: LazyLock<String> = LazyLock::new(|| {
    let columns = sql::list(UsageRow::COLUMNS);
    format!("SELECT {columns} FROM usage WHERE project = $1 ORDER BY day DESC LIMIT $2")
});
/// The clock may jump back to a day that is stored already, so the larger number of each counts.
static PUT_USAGE: LazyLock<String> = LazyLock::new(|| {
    let largest = |count: &&str| format!("{count} = MAX({count}, excluded.{count})");
    let largest: Vec<_> = UsageRow::counts().iter().map(largest).collect();
    format!(
        "INSERT INTO usage ({columns}) SELECT {values} WHERE EXISTS (SELECT 1 FROM projects WHERE name = $1) \
         ON CONFLICT (project, day) DO UPDATE SET {largest}",
        columns = sql::list(UsageRow::COLUMNS),
        values = sql::placeholders(UsageRow::COLUMNS),
        largest = largest.join(", "),
    )
});

#[async_trait]
impl QuotaTable for Database {
    async fn quotas(&self) -> Result<Vec<(ProjectName, ProjectQuotas)>, Error> {
        let select = sqlx::query(QUOTAS.as_str());
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read_quotas).collect()
    }

    async fn put_quotas(&self, project: &ProjectName, quotas: &ProjectQuotas) -> Result<(), Error> {
        let row = (project, quotas);
        let put = self.write(&row, |conn, (project, quotas)| {
            Box::pin(QuotasRow::new(project, quotas).bind(sqlx::query(PUT_QUOTAS.as_str())).execute(conn))
        });
        put.await.map(drop)
    }

    async fn usage_since(&self, day: i32) -> Result<Vec<UsageRecord>, Error> {
        let select = sqlx::query(USAGE_SINCE.as_str()).bind(day);
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read_usage).collect()
    }

    async fn usage_of(&self, project: &ProjectName, limit: u32) -> Result<Vec<UsageRecord>, Error> {
        let select = sqlx::query(USAGE_OF.as_str()).bind(project.as_str()).bind(limit);
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read_usage).collect()
    }

    async fn put_usage(&self, records: &[UsageRecord]) -> Result<(), Error> {
        let put = self.write(records, |conn, records| {
            Box::pin(async move {
                for record in records {
                    let query = UsageRow::from(record).bind(sqlx::query(PUT_USAGE.as_str()));
                    query.execute(&mut *conn).await?;
                }
                Ok(())
            })
        });
        put.await
    }

    async fn delete_usage_before(&self, day: i32) -> Result<(), Error> {
        let delete = self.write(&day, |conn, day| {
            Box::pin(sqlx::query("DELETE FROM usage WHERE day < $1").bind(day).execute(conn))
        });
        delete.await.map(drop)
    }
}

fn read_quotas(row: &SqliteRow) -> Result<(ProjectName, ProjectQuotas), Error> {
    let record = QuotasRow::read(row).and_then(QuotasRow::record);
    record.map_err(bad_row("quotas", "project", row))
}

fn read_usage(row: &SqliteRow) -> Result<UsageRecord, Error> {
    let record = UsageRow::read(row).and_then(UsageRow::record);
    record.map_err(bad_row("usage", "project", row))
}
