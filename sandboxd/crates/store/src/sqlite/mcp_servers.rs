//! Statements on the table `mcp_servers`.

use std::sync::LazyLock;

use async_trait::async_trait;
use sandbox_api::SandboxId;
use sqlx::sqlite::SqliteRow;

use super::Database;
use super::error::bad_row;
use crate::Error;
use crate::backend::McpServerTable;
use crate::rows::mcp_servers::McpServerRow;
use crate::rows::sql;
use sandboxd_model::mcp::McpServerRecord;

static SELECT: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM mcp_servers ORDER BY sandbox, name", sql::list(McpServerRow::COLUMNS))
});
static INSERT: LazyLock<String> = LazyLock::new(|| sql::insert("mcp_servers", McpServerRow::COLUMNS));

const DELETE: &str = "DELETE FROM mcp_servers WHERE sandbox = $1 AND name = $2";

#[async_trait]
impl McpServerTable for Database {
    async fn mcp_servers(&self) -> Result<Vec<McpServerRecord>, Error> {
        let select = sqlx::query(SELECT.as_str());
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    async fn put_mcp_server(&self, server: &McpServerRecord) -> Result<(), Error> {
        let put = self.write(server, |conn, server| {
            Box::pin(async move {
                let delete = sqlx::query(DELETE).bind(server.sandbox.as_str()).bind(server.name.as_str());
                delete.execute(&mut *conn).await?;
                McpServerRow::from(server).bind(sqlx::query(INSERT.as_str())).execute(conn).await
            })
        });
        put.await.map(drop)
    }

    async fn delete_mcp_server(&self, sandbox: &SandboxId, name: &str) -> Result<(), Error> {
        let key = (sandbox.clone(), name.to_owned());
        let delete = self.write_from_reserve(&key, |conn, (sandbox, name)| {
            Box::pin(async move {
                let delete = sqlx::query(DELETE).bind(sandbox.as_str()).bind(name.as_str());
                delete.execute(conn).await.map(drop)
            })
        });
        delete.await
    }
}

fn read(row: &SqliteRow) -> Result<McpServerRecord, Error> {
    let record = McpServerRow::read(row).and_then(McpServerRow::record);
    record.map_err(bad_row("mcp_servers", "name", row))
}
