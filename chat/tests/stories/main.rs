//! The chat app over HTTP, with sandboxd itself on the real engine behind it.

#![expect(clippy::unwrap_used, reason = "a story that cannot go on has failed")]

mod access;
mod browser;
mod browser_cable;
mod browser_faults;
mod browser_flood;
mod browser_hostile;
mod chats;
mod clients;
mod commands;
mod faults;
mod files;
mod network;
mod place;
#[path = "../scripted_model/mod.rs"]
#[expect(dead_code, reason = "the tests of the models use all of it")]
mod scripted_model;
mod turns;
