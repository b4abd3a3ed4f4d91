//! The dependency rules of the source: which part of the daemon may use which. Between crates the compiler enforces
//! them; inside `sandboxd/src` these tests do. They check every path: in `use` lines, expressions, types and macros.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue ends")]

mod authorization;
mod circles;
mod components;
mod exports;
mod glossary;
mod layers;
mod parts;
mod paths;
mod surfaces;
