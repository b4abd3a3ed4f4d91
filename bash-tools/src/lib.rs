//! A real bash for a chat app.
//!
//! In reading order: [`config`] is what the operator wrote, checked. [`gates`] decide for each request whether there are
//! tools at all. [`provider`] is where sandboxes are. [`session`] keeps one for each chat, and [`seed`] puts its first
//! files there. [`tools`] is what the model calls, and [`Workspace`] what its person sees of the sandbox. [`App`] puts them together.
//!
//! Nothing here runs a command on the machine it is on.

mod app;
mod builder;
pub mod config;
pub mod gates;
pub mod provider;
pub mod seed;
pub mod session;
pub mod tools;
mod workspace;

pub use app::{App, SetupError};
pub use builder::AppBuilder;
pub use workspace::Workspace;

/// The code in `README.md` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
