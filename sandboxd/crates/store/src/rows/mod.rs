//! Rows in the form that every SQL database can hold: plain numbers, texts and bytes.
//!
//! The columns of a table are listed once, in [`row!`]. The list makes the statements that write and read a row,
//! and the code that binds and reads its values in the same order. Nothing here belongs to one kind of database.

pub(crate) mod commands;
pub(crate) mod context_entries;
pub(crate) mod daemon;
pub(crate) mod links;
pub(crate) mod mcp_servers;
pub(crate) mod owner;
pub(crate) mod projects;
#[cfg(test)]
mod published;
pub(crate) mod quotas;
pub(crate) mod repositories;
pub(crate) mod sandboxes;
pub(crate) mod snapshots;
pub(crate) mod sql;
pub(crate) mod values;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{ColumnIndex, Decode, Row, Type};

/// Declares a row: its columns, and how they are read and bound.
macro_rules! row {
    ($(#[$doc:meta])* $name:ident { $($column:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name { $(pub(crate) $column: $type,)* }

        impl $name {
            /// The columns, in the order in which [`Self::bind`] binds them.
            pub(crate) const COLUMNS: &[&str] = &[$(stringify!($column)),*];

            /// Reads the columns of a row by their names.
            pub(crate) fn read<'r, R>(row: &'r R) -> Result<Self, $crate::rows::BadColumn>
            where
                R: sqlx::Row,
                &'static str: sqlx::ColumnIndex<R>,
                $($type: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,)*
            {
                Ok(Self { $($column: $crate::rows::value(row, stringify!($column))?,)* })
            }

            /// Binds the columns to the next placeholders of a statement.
            pub(crate) fn bind<'q, DB>(
                self,
                query: sqlx::query::Query<'q, DB, DB::Arguments>,
            ) -> sqlx::query::Query<'q, DB, DB::Arguments>
            where
                DB: sqlx::Database,
                $($type: sqlx::Encode<'q, DB> + sqlx::Type<DB>,)*
            {
                query$(.bind(self.$column))*
            }
        }
    };
}
use row;

/// A column whose value this program did not write.
#[derive(Debug)]
pub(crate) struct BadColumn(pub(crate) &'static str);

/// A row with a value that this program did not write.
#[derive(Debug, thiserror::Error)]
#[error("the row {id:?} of the table `{table}` cannot be read: its `{column}` is invalid")]
pub(crate) struct BadRow {
    table: &'static str,
    /// Key of the row, such as the id of a sandbox or command.
    id: String,
    column: &'static str,
}

impl BadColumn {
    /// Names the row of `table` whose key is in the column `key`.
    pub(crate) fn in_row<'r, R>(self, table: &'static str, key: &'static str, row: &'r R) -> BadRow
    where
        R: Row,
        &'static str: ColumnIndex<R>,
        String: Decode<'r, R::Database> + Type<R::Database>,
    {
        BadRow { table, id: row.try_get(key).unwrap_or_default(), column: self.0 }
    }
}

/// The value of one column.
pub(crate) fn value<'r, R, T>(row: &'r R, column: &'static str) -> Result<T, BadColumn>
where
    R: Row,
    &'static str: ColumnIndex<R>,
    T: Decode<'r, R::Database> + Type<R::Database>,
{
    row.try_get(column).map_err(|_| BadColumn(column))
}

/// A count as a database holds it. Its numbers are signed: a larger count is stored as the largest number.
pub(crate) fn saturated(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// A number that the column can hold and the model cannot is a fault of the row.
pub(crate) fn number<T: TryFrom<i64>>(column: &'static str, number: i64) -> Result<T, BadColumn> {
    T::try_from(number).map_err(|_| BadColumn(column))
}

fn optional_number<T: TryFrom<i64>>(
    column: &'static str,
    stored: Option<i64>,
) -> Result<Option<T>, BadColumn> {
    stored.map(|stored| number(column, stored)).transpose()
}

/// Lists and maps of texts and numbers as JSON.
fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("lists and maps of texts and numbers always serialize")
}

fn from_json<T: DeserializeOwned>(column: &'static str, text: &str) -> Result<T, BadColumn> {
    serde_json::from_str(text).map_err(|_| BadColumn(column))
}
