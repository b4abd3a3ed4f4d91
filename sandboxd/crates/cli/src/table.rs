//! Human-readable tables.

use std::io::{self, Write};

/// Maximum width of a column whose text comes from clients or images.
const MAX_COLUMN_CHARS: usize = 40;

/// Writes rows, of which the first is the header. Each column is as wide as its widest cell.
pub(super) fn write<const COLUMNS: usize>(
    out: &mut impl Write,
    rows: &[[String; COLUMNS]],
) -> io::Result<()> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// A cell whose text comes from clients or images.
pub(super) fn untrusted(text: &str) -> String {
    super::text::cut(&super::text::printable(text), MAX_COLUMN_CHARS)
}
