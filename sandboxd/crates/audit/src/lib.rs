//! The audit record: files of lines, each of which is authenticated together with the line before it.
//!
//! [`Record`] writes. There is one for each directory. [`verify`](verify::verify) finds lines that were changed, removed or
//! reordered, and [`page`](page::page) reads the newest lines. Both work beside a running daemon.
//!
//! A line is a JSON object that ends with its MAC: HMAC-SHA256 over the MAC of the line before it and the line's own bytes.
//! Its first field is its sequence number, which increases by one with each line, also across files. A file begins with a
//! line that names the last MAC of the file before it.
//!
//! The chain alone does not show that its last lines are missing. The daemon stores a [`Head`] elsewhere for that, and never
//! one that is not on the disk yet.
//!
//! The crate decides nothing about what is recorded, and no line of it ever changes.

mod directory;
mod entry;
mod error;
mod line;
pub mod page;
mod record;
mod recover;
mod reserve;
mod segment;
pub mod verify;

pub use directory::Directory;
pub use entry::Entry;
pub use error::Error;
pub use line::{Head, Key, Mac};
pub use record::{Options, Record};
