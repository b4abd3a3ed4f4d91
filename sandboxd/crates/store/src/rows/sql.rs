//! Parts of statements that follow from a list of columns.
//!
//! Placeholders are numbered (`$1`), which SQLite and Postgres both understand.

/// `a, b, c`
pub(crate) fn list(columns: &[&str]) -> String {
    columns.join(", ")
}

/// `$1, $2, $3`, one for each column.
pub(crate) fn placeholders(columns: &[&str]) -> String {
    let placeholders: Vec<_> = (1..=columns.len()).map(|number| format!("${number}")).collect();
    placeholders.join(", ")
}

/// `a = $1, b = $2`
pub(crate) fn assignments(columns: &[&str]) -> String {
    each(columns, |number, column| format!("{column} = ${}", number + 1))
}

/// `a = excluded.a, b = excluded.b`: takes over the values of an insert that found its key used.
pub(crate) fn replacements(columns: &[&str]) -> String {
    each(columns, |_, column| format!("{column} = excluded.{column}"))
}

/// `a = NULL, b = NULL`
pub(crate) fn cleared(columns: &[&str]) -> String {
    each(columns, |_, column| format!("{column} = NULL"))
}

/// Inserts a whole row.
pub(crate) fn insert(table: &str, columns: &[&str]) -> String {
    format!("INSERT INTO {table} ({}) VALUES ({})", list(columns), placeholders(columns))
}

fn each(columns: &[&str], part: impl Fn(usize, &str) -> String) -> String {
    let parts: Vec<_> = columns.iter().enumerate().map(|(number, column)| part(number, column)).collect();
    parts.join(", ")
}
