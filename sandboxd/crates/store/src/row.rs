//! Columns of a row as values of the model.

use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row, Sqlite, Type};

use super::Error;

/// The column that makes no sense.
#[derive(Debug)]
pub(super) struct BadColumn(pub(super) &'static str);

pub(super) struct Columns<'r>(pub(super) &'r SqliteRow);

impl<'r> Columns<'r> {
    /// A value as SQLite has it.
    pub(super) fn get<T>(&self, column: &'static str) -> Result<T, BadColumn>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite>,
    {
        self.0.try_get(column).map_err(|_| BadColumn(column))
    }

    /// What `parse` makes of a text.
    pub(super) fn with<T>(
        &self,
        column: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, BadColumn> {
        parse(self.get(column)?).ok_or(BadColumn(column))
    }

    pub(super) fn json<T: DeserializeOwned>(&self, column: &'static str) -> Result<T, BadColumn> {
        self.with(column, |text| serde_json::from_str(text).ok())
    }

    pub(super) fn count(&self, column: &'static str) -> Result<u64, BadColumn> {
        u64::try_from(self.get::<i64>(column)?).map_err(|_| BadColumn(column))
    }

    pub(super) fn optional_count(&self, column: &'static str) -> Result<Option<u64>, BadColumn> {
        let count: Option<i64> = self.get(column)?;
        count.map(|count| u64::try_from(count).map_err(|_| BadColumn(column))).transpose()
    }

    /// The error for a row of `table`.
    pub(super) fn name_it(&self, table: &'static str, BadColumn(column): BadColumn) -> Error {
        Error::BadRow { table, id: self.get("id").unwrap_or_default(), column }
    }
}

/// SQLite's numbers are signed; what is beyond them is as good as their largest.
pub(super) fn saturated(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
