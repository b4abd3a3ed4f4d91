//! End-to-end tests of the daemon on a real engine, through its client. One story per test.

#![expect(clippy::unwrap_used, reason = "a story that cannot continue has failed")]

mod api;
mod audit;
mod cli;
mod commands;
mod compat;
mod contexts;
mod daemon;
mod egress;
mod engine;
mod files;
mod gvisor;
mod lifecycle;
mod limits;
mod open_webui;
mod packages;
mod previews;
mod projects;
mod repositories;
mod security;
mod snapshots;
mod support;
mod surfaces;
mod terminals;
mod values;
