//! Statements on the tables `projects`, `tokens` and `revoked_subjects`.

use std::sync::LazyLock;

use async_trait::async_trait;
use sandbox_api::TokenId;
use sandboxd_model::{ProjectRecord, RevokedSubject, TokenRecord};
use sqlx::sqlite::SqliteRow;

use super::Database;
use super::error::bad_row;
use crate::Error;
use crate::backend::ProjectTable;
use crate::rows::projects::{ProjectRow, RevokedSubjectRow, TokenRow};
use crate::rows::sql;

static PROJECTS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM projects ORDER BY name", sql::list(ProjectRow::COLUMNS)));
static PUT_PROJECT: LazyLock<String> =
    LazyLock::new(|| format!("{} ON CONFLICT DO NOTHING", sql::insert("projects", ProjectRow::COLUMNS)));
static TOKENS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM tokens ORDER BY id", sql::list(TokenRow::COLUMNS)));
static REVOKED_SUBJECTS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM revoked_subjects", sql::list(RevokedSubjectRow::COLUMNS)));
static PUT_REVOKED_SUBJECT: LazyLock<String> = LazyLock::new(|| {
    let insert = sql::insert("revoked_subjects", RevokedSubjectRow::COLUMNS);
    format!("{insert} ON CONFLICT (project, subject) DO UPDATE SET until_ms = excluded.until_ms")
});
static INSERT_TOKEN: LazyLock<String> = LazyLock::new(|| sql::insert("tokens", TokenRow::COLUMNS));

#[async_trait]
impl ProjectTable for Database {
    async fn projects(&self) -> Result<Vec<ProjectRecord>, Error> {
        let select = sqlx::query(PROJECTS.as_str());
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read_project).collect()
    }

    async fn add_project(&self, project: &ProjectRecord) -> Result<(), Error> {
        let put = self.write(project, |conn, project| {
            Box::pin(ProjectRow::from(project).bind(sqlx::query(PUT_PROJECT.as_str())).execute(conn))
        });
        put.await.map(drop)
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, Error> {
        let select = sqlx::query(TOKENS.as_str());
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read_token).collect()
    }

    async fn insert_token(&self, token: &TokenRecord) -> Result<(), Error> {
        let insert = self.write(token, |conn, token| {
            Box::pin(TokenRow::from(token).bind(sqlx::query(INSERT_TOKEN.as_str())).execute(conn))
        });
        insert.await.map(drop)
    }

    async fn delete_token(&self, id: &TokenId) -> Result<(), Error> {
        let delete = self.write_from_reserve(id, |conn, id| {
            Box::pin(sqlx::query("DELETE FROM tokens WHERE id = $1").bind(id.as_str()).execute(conn))
        });
        delete.await.map(drop)
    }

    async fn touch_tokens(&self, used: &[(TokenId, i64)]) -> Result<(), Error> {
        let touch = self.write(used, |conn, used| {
            Box::pin(async move {
                for (id, at_ms) in used {
                    let update = sqlx::query("UPDATE tokens SET last_used_ms = $1 WHERE id = $2");
                    update.bind(at_ms).bind(id.as_str()).execute(&mut *conn).await?;
                }
                Ok(())
            })
        });
        touch.await
    }

    async fn revoked_subjects(&self) -> Result<Vec<RevokedSubject>, Error> {
        let select = sqlx::query(REVOKED_SUBJECTS.as_str());
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read_revoked).collect()
    }

    async fn put_revoked_subject(&self, revoked: &RevokedSubject) -> Result<(), Error> {
        let put = self.write_from_reserve(revoked, |conn, revoked| {
            Box::pin(
                RevokedSubjectRow::from(revoked)
                    .bind(sqlx::query(PUT_REVOKED_SUBJECT.as_str()))
                    .execute(conn),
            )
        });
        put.await.map(drop)
    }
}

fn read_project(row: &SqliteRow) -> Result<ProjectRecord, Error> {
    let record = ProjectRow::read(row).and_then(ProjectRow::record);
    record.map_err(bad_row("projects", "name", row))
}

fn read_revoked(row: &SqliteRow) -> Result<RevokedSubject, Error> {
    let record = RevokedSubjectRow::read(row).and_then(RevokedSubjectRow::record);
    record.map_err(bad_row("revoked_subjects", "subject", row))
}

fn read_token(row: &SqliteRow) -> Result<TokenRecord, Error> {
    let record = TokenRow::read(row).and_then(TokenRow::record);
    record.map_err(bad_row("tokens", "id", row))
}
