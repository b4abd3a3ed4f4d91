//! The real daemon on the real engine, through the client its users have. One story per test.

#![expect(clippy::unwrap_used, reason = "a story that cannot go on has failed")]

mod api;
mod cli;
mod commands;
mod compat;
mod daemon;
mod egress;
mod engine;
mod files;
mod gvisor;
mod lifecycle;
mod limits;
mod previews;
mod security;
mod support;
mod terminals;
