//! A real bash for a chat app.
//!
//! In reading order: [`config`] reads and checks the operator's settings. [`gates`] decide for each request whether
//! tools are available. [`provider`] runs the sandboxes. [`session`] keeps one sandbox for each chat, and [`seed`]
//! provides its first files. [`tools`] are what the model calls, and [`Workspace`] is the user's view of the sandbox.
//! [`App`] combines them.
//!
//! This crate never runs a command on its own machine.

mod app;
mod builder;
mod chat_key;
pub mod config;
pub mod gates;
pub mod provider;
pub mod seed;
pub mod session;
mod subject;
pub mod tools;
mod workspace;

pub use app::{App, SetupError};
pub use builder::AppBuilder;
pub use workspace::Workspace;

/// Compiles and runs the code in `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
