//! The laws of the source: which part of the daemon may use which. Between crates the compiler enforces them; inside
//! `sandboxd/src` these tests do. Every path is checked, in `use` lines, in expressions and types, and in macros.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod components;
mod layers;
mod paths;
