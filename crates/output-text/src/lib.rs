//! A command's output as text.
//!
//! - [`Excerpt`] keeps the beginning, the end, or both of an output of any length. It removes colours and collapses
//!   progress bars ([`Cleaner`]).
//! - [`Part`] keeps them unchanged.
//! - [`write_json`] writes any amount as JSON.
//! - [`Sequences`] tells text from escape sequences.
//!
//! The first three need memory for what they keep, however long the output is.

mod clean;
mod excerpt;
mod json;
mod keep;
mod sequences;
mod text;

pub use clean::{Cleaner, MAX_HELD_BYTES, cleaned};
pub use excerpt::{Excerpt, Omitted, Shown};
pub use json::write_json;
pub use keep::Keep;
pub use sequences::Sequences;
pub use text::Part;
